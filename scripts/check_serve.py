#!/usr/bin/env python3
"""Whether clients that know LibreTranslate know `polyglow serve`, too.

    pip install deep-translator libretranslatepy
    npm install libretranslate-ts
    python scripts/check_serve.py target/release/polyglow runs/my input.en

Each line goes through libretranslatepy (forms), deep-translator (fields in the address), libretranslate-ts (JSON, from Node;
`--node-modules` says where it is) and curl (forms in parts, as LibreTranslate's page and its client for PHP send them), and must come
back as `polyglow translate` writes it.

Then 32 clients ask at a time, one of them for a stream, while SIGHUP and at last SIGTERM come: whoever was let in must get a whole
answer, and the program must end with code 0. `--only signals` checks nothing else, and needs no client.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection

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


def in_parts(address, line, source, target):
    """The translation of a line that is sent as `multipart/form-data`."""
    fields = {"q": line, "source": source, "target": target, "format": "text", "api_key": "a key"}
    parts = [word for name, text in fields.items() for word in ("--form-string", f"{name}={text}")]
    done = subprocess.run(["curl", "-sS", f"{address}translate", *parts], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["translatedText"]


def refused(address, source, target):
    """Whether a client is told that its key is none."""
    from deep_translator import LibreTranslator
    from deep_translator.exceptions import AuthorizationException

    try:
        LibreTranslator(source, target, api_key="another", use_free_api=False, custom_url=address).translate("a word")
    except AuthorizationException:
        return True
    return False


def clients(options, lines, wanted):
    """Clients of others."""
    from deep_translator import LibreTranslator
    from libretranslatepy import LibreTranslateAPI

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
            same("curl --form", [in_parts(address, line, source, target) for line in lines], wanted)
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


class Load:
    """Clients that ask until nobody listens any more."""

    def __init__(self, port, lines, wanted, pair):
        self.port, self.lines, self.wanted, self.pair = port, lines, wanted, pair
        self.answered, self.wrong, self.streams, self.lock = 0, [], 0, threading.Lock()

    def one(self, number):
        """Asks for a line on a connection of its own, as a proxy's clients do. Whether it was let in."""
        place = number % len(self.lines)
        source, target = self.pair
        body = json.dumps({"q": self.lines[place], "source": source, "target": target})
        if (answer := self.ask("/translate", body)) is None:
            return False
        status, text = answer
        good = status == 200 and json.loads(text)["translatedText"] == self.wanted[place]
        self.count(good, f"status {status}: {text[:200]}")
        return True

    def stream(self):
        """Asks for as much as may be asked for. Whether it was let in."""
        lines = (self.lines * 200)[:200]
        if (answer := self.ask("/v1/translations", json.dumps({"texts": lines, "stream": True}))) is None:
            return False
        status, text = answer
        good = status == 200 and "event: end" in text and text.count("event: segment") >= len(lines)
        self.count(good, f"status {status}: {text[-200:]}")
        self.streams += 1
        return True

    def ask(self, path, body):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.connect()
            connection.request("POST", path, body, {"Content-Type": "application/json", "Connection": "close"})
            answer = connection.getresponse()
        except OSError:
            # Refused, or still in the queue of the system when the server stopped to listen: it was never let in.
            return None
        try:
            return answer.status, answer.read().decode()
        except Exception as error:
            return answer.status, f"cut off: {error!r}"
        finally:
            connection.close()

    def count(self, good, what):
        with self.lock:
            self.answered += 1
            if not good:
                self.wrong.append(what)

    def client(self, number):
        try:
            places = itertools.count(number, 32)
            while self.stream() if number == 0 else self.one(next(places)):
                pass
        except Exception as error:
            self.count(False, repr(error))


def signals(options, lines, wanted):
    """SIGHUP while others ask, and then SIGTERM."""
    port = free_port()
    with running([options.program, "-q", "serve", options.run, "--listen", f"127.0.0.1:{port}"], port) as process:
        load = Load(port, lines, wanted, languages(port))
        asking = [threading.Thread(target=load.client, args=(number,)) for number in range(32)]
        for client in asking:
            client.start()
        for _ in range(3):
            time.sleep(0.5)
            process.send_signal(signal.SIGHUP)
        time.sleep(2)
        check(process.poll() is None and load.answered > 0, "it answers after SIGHUP")
        process.send_signal(signal.SIGTERM)
        for client in asking:
            client.join()
        code = process.wait(90)
        for wrong in load.wrong[:5]:
            print(f"wrong: {wrong}")
        check(not load.wrong and load.streams > 0, f"{load.answered} answers to 32 clients, {load.streams} of them streams, are whole")
        check(code == 0, f"exit code {code} after SIGTERM")
    for number, expected in [(signal.SIGHUP, None), (signal.SIGTERM, 0)]:
        check(while_loading(options, number) == expected, f"{number.name} while it loads")


def while_loading(options, number):
    """Sends a signal to a server that does not listen yet; its exit code, `None` if it goes on."""
    port = free_port()
    command = [options.program, "-q", "serve", options.run, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen([str(word) for word in command]) as process:
        while process.poll() is None and not handles(process, number):
            time.sleep(0.001)
        process.send_signal(number)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            check(False, f"{number.name} is handled before it listens")
        time.sleep(3)
        code = process.poll()
        process.kill()
    return code


def handles(process, number):
    """Whether a process has a handler for a signal."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return int(mask, 16) >> (number - 1) & 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, help="sentences, one a line")
    parser.add_argument("--lines", type=int, default=50)
    parser.add_argument("--node-modules", type=pathlib.Path, default="node_modules")
    parser.add_argument("--only", choices=["clients", "signals"])
    options = parser.parse_args()
    lines = read_lines(options.text)[:options.lines]
    done = subprocess.run([options.program, "-q", "translate", options.run], input="\n".join(lines) + "\n", check=True,
                          capture_output=True, text=True)
    for part in (clients, signals):
        if options.only in (None, part.__name__):
            part(options, lines, done.stdout.splitlines())


if __name__ == "__main__":
    main()
