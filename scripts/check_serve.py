#!/usr/bin/env python3
"""Whether clients that know LibreTranslate know `polyglow serve`, too.

    pip install deep-translator libretranslatepy
    npm install libretranslate-ts
    python scripts/check_serve.py target/release/polyglow runs/my input.en

Each line goes through libretranslatepy (forms), deep-translator (fields in the address) and libretranslate-ts (JSON, from Node;
`--node-modules` says where it is), and must come back as `polyglow translate` writes it.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException
from libretranslatepy import LibreTranslateAPI

from measurement import read_lines
from serving import free_port, languages, running

NODE = """
const { createRequire } = require("node:module");
const [, folder, address, source, target, ...lines] = process.argv;
const { libreTranslate } = createRequire(`${folder}/`)("libretranslate-ts");
libreTranslate.setApiEndpoint(address);
libreTranslate.setApiKey("a key");
(async () => {
  const found = { languages: await libreTranslate.listLanguages(), texts: [], alternatives: [] };
  for (const line of lines) {
    const { translatedText, alternatives } = await libreTranslate.translate(line, source, target, 2);
    found.texts.push(translatedText);
    found.alternatives.push(alternatives);
  }
  console.log(JSON.stringify(found));
})();
"""


def same(name, found, wanted):
    equal = sum(left == right for left, right in zip(found, wanted, strict=True))
    print(f"{name}: {equal} of {len(wanted)}")
    if equal < len(wanted):
        place = next(place for place, text in enumerate(found) if text != wanted[place])
        sys.exit(f"error: {name} has `{found[place]}` in place of `{wanted[place]}`")


def check(holds, what):
    print(f"{what}: {'ok' if holds else 'NO'}")
    if not holds:
        sys.exit(1)


def refused(address, source, target):
    """Whether a client is told that its key is none."""
    try:
        LibreTranslator(source, target, api_key="another", use_free_api=False, custom_url=address).translate("a word")
    except AuthorizationException:
        return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, help="sentences, one a line")
    parser.add_argument("--lines", type=int, default=50)
    parser.add_argument("--node-modules", type=pathlib.Path, default="node_modules")
    options = parser.parse_args()
    lines = read_lines(options.text)[:options.lines]
    done = subprocess.run([options.program, "-q", "translate", options.run], input="\n".join(lines) + "\n", check=True,
                          capture_output=True, text=True)
    wanted = done.stdout.splitlines()
    keys, port = pathlib.Path(options.run) / "keys.txt", free_port()
    keys.write_text("a key\n")
    command = [options.program, "-q", "serve", options.run, "--listen", f"127.0.0.1:{port}", "--api-keys", keys]
    address = f"http://127.0.0.1:{port}/"
    try:
        with running(command, port):
            source, target = languages(port)
            client = LibreTranslateAPI(address, "a key")
            same("libretranslatepy", [client.translate(line, source, target) for line in lines], wanted)
            check(source in [language["code"] for language in client.languages()], "its languages")
            check(client.detect(lines[0])[0]["language"] == source, "its detection")
            # It knows languages by their names in English and by codes.
            client = LibreTranslator(source, target, api_key="a key", use_free_api=False, custom_url=address)
            same("deep-translator", client.translate_batch(lines), wanted)
            check(refused(address, source, target), "its wrong key is refused")
            node = ["node", "-e", NODE, "--", options.node_modules.resolve().parent, address.rstrip("/"), source, target, *lines]
            found = json.loads(subprocess.run(node, check=True, capture_output=True, text=True).stdout)
            same("libretranslate-ts", found["texts"], wanted)
            check(source in [language["code"] for language in found["languages"]], "its languages")
            check(all(len(others) <= 2 and text not in others
                      for text, others in zip(wanted, found["alternatives"], strict=True)), "its alternatives")
    finally:
        keys.unlink()


if __name__ == "__main__":
    main()
