#!/usr/bin/env python3
"""Counts how many tags of HTML `polyglow serve` puts around the right words, by links of `polyglow align`.

    scripts/html_tags.py RUN valid.en train.en train.de

An element is put around one to three words of each of the first 500 sentences. The translations are aligned
together with the training text, and links that are more probable than 0.5 say which words of a translation
belong to the element. Where these do not stand together nothing is counted: an element is unbroken.
"""

import argparse
import html
import json
import pathlib
import random
import re
import socket
import subprocess
import tempfile
import time
import urllib.request

SENTENCES = 500
# A word, a mark, or the start or the end of the element.
TOKEN = re.compile(r"\w+|[^\w\s]")
START, END = "\ue000", "\ue001"


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")


def with_element(sentence, rng):
    """The sentence as HTML, with an element around some words."""
    words = [html.escape(word, quote=False) for word in sentence.split()]
    count = rng.choice([1, 2, 3])
    first = rng.randrange(max(1, len(words) - count + 1))
    inside, marks = re.fullmatch(r"(.*?)([.,!?]*)", " ".join(words[first : first + count])).groups()
    return " ".join([*words[:first], f"<b>{inside}</b>{marks}", *words[first + count :]])


def read_element(page):
    """The tokens of a page, and the positions of those inside the element."""
    text = html.unescape(page.replace("<b>", START).replace("</b>", END))
    tokens, inside, is_inside = [], set(), False
    for token in TOKEN.findall(text):
        if token in (START, END):
            is_inside = token == START
            continue
        if is_inside:
            inside.add(len(tokens))
        tokens.append(token)
    return tokens, inside


def translate(program, run, pages):
    """Translates pages by a server, which is started for that."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([program, "serve", run, "--listen", address, "-q"])
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                languages = json.load(urllib.request.urlopen(f"http://{address}/languages"))
                break
            except OSError:
                if server.poll() is not None:
                    raise SystemExit("the server did not start") from None
                time.sleep(0.2)
        else:
            raise SystemExit("the server did not answer")
        source = languages[0]["code"]
        target = next(code for code in languages[0]["targets"] if code != source)
        translated = []
        for start in range(0, len(pages), 20):
            body = {"q": pages[start : start + 20], "source": source, "target": target, "format": "html"}
            request = urllib.request.Request(
                f"http://{address}/translate", json.dumps(body).encode(), {"content-type": "application/json"}
            )
            translated += json.load(urllib.request.urlopen(request))["translatedText"]
        return translated
    finally:
        server.terminate()
        server.wait()


def align(program, pairs):
    """The links of pairs of token lists."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for side, path in enumerate(["src", "tgt"]):
            (folder / path).write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs), encoding="utf-8")
        files = ["--src", folder / "src", "--tgt", folder / "tgt", "--out", folder / "links"]
        subprocess.run([program, "align", *files, "--threshold", "0.5", "-q"], check=True)
        return [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines(folder / "links")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("sentences")
    parser.add_argument("train_source")
    parser.add_argument("train_target")
    parser.add_argument("--program", default="target/release/polyglow")
    arguments = parser.parse_args()
    rng = random.Random(1)
    pages = [with_element(sentence, rng) for sentence in lines(arguments.sentences)[:SENTENCES]]
    translated = [read_element(page) for page in translate(arguments.program, arguments.run, pages)]
    sources = [read_element(page) for page in pages]
    pairs = [(source[0], target[0]) for source, target in zip(sources, translated, strict=True)]
    train = zip(lines(arguments.train_source), lines(arguments.train_target), strict=True)
    pairs += [(TOKEN.findall(source), TOKEN.findall(target)) for source, target in train]
    links = align(arguments.program, pairs)
    count = exact = right = wrong = missed = 0
    for (_, element), (_, found), pair_links in zip(sources, translated, links):
        expected = {target for source, target in pair_links if source in element}
        if not expected or max(expected) - min(expected) + 1 != len(expected):
            continue
        count += 1
        exact += found == expected
        right += len(found & expected)
        wrong += len(found - expected)
        missed += len(expected - found)
    f1 = 2 * right / (2 * right + wrong + missed)
    print(f"{count} elements: {100 * exact / count:.1f} % around exactly the linked words, F1 of words {f1:.3f}")


if __name__ == "__main__":
    main()
