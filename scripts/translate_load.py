#!/usr/bin/env python3
"""Translates a million short lines with a hundred oddities among them and one line of 10 MB, and watches the memory.

    scripts/translate_load.py target/release/polyglow runs/quickstart [--lines 1000000]

As many lines must come out as went in, blank ones where blank ones went in. Prints the time, the lines per second and
the peak of the program's memory; exit code 1 if a line is lost or the program fails. Needs a Unix system.
"""

import argparse
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

WORDS = "the a dog cat house woman man sees buys sleeps reads old new small red in on with not today".split()

ODDITIES = [
    "", " ", "\t", "   \t  ", "\u00a0", "\u3000", "\u2028", "\u2029", "\x85", "\x0b\x0c", "\r", "a\rb", "a\r",
    "\0", "\0\0\0", "\x01\x02\x1b[31m", "\x7f", "\ufeff", "\ufeffthe dog", "\ufffd", "\uffff", "\U0010ffff", "\ue000",
    "<s>", "</s>", "<pad>", "<unk>", "<s></s><pad><unk>", "the <unk> dog", "▁", "Ġ", "</w>", "##ing", "@@", "@-@",
    "\u200b", "\u200d\u200d", "\u202e the dog", "\u2066x\u2069", "a\u0301" * 500, "\u0301" * 500, "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔",
    "👩‍👩‍👧‍👦", "🇩🇪🇬🇧", "🦀" * 300, "日本語のテキスト。", "我们去学校！", "العربية", "עברית", "हिन्दी", "ไทย", "한국어", "ελληνικά",
    "İstanbul ıI", "ß ẞ ﬁ ǆ", "ÅÅ", "ﷺ", "𝒯𝒽ℯ 𝒹ℴℊ", "ＦＵＬＬ", "½ ⅷ ²", "1" * 400, "-1e999", "NaN", "inf", "0x7fffffff",
    "x" * 10_000, "the " * 3_000, "." * 5_000, ". " * 2_000, ",;:!?" * 400, "(" * 1_000, "\"'`´’‘“”«»", "'; DROP TABLE x; --",
    "<script>alert(1)</script>", "{\"a\": [1, 2, {}]}", "[[[[[[", "%s%n%d", "${HOME} `ls` $(ls)", "../../etc/passwd", "\\n\\0\\x",
    "http://example.org/?q=the+dog#x", "a@b.c", "THE DOG SLEEPS", "tHe DoG", "thedogsleeps", "the  dog   sleeps", " the dog ",
    "the dog\tsleeps", "the\u00a0dog", "the\u200bdog", "the-dog", "the_dog", "the.dog", "the dog.", "the dog . . .", "...", "—", "?",
    "dog " * 300, "a " * 20_000, "\u0085a", "\u1680", "\u180e", "\u2060", "\U000e0001tag", "\u0000a\u0000", "end",
]


def lines(count, seed):
    """The lines to translate: short sentences, the oddities spread among them, and one of 10 MB in the middle."""
    generator = random.Random(seed)
    every = max(count // len(ODDITIES), 1)
    for number in range(count):
        if number == count // 2:
            yield "the old dog sees the new house . " * (10_000_000 // 33)
        elif number % every == every // 2 and number // every < len(ODDITIES):
            yield ODDITIES[number // every]
        else:
            yield " ".join(generator.choices(WORDS, k=generator.randint(1, 6)))


def is_blank(line):
    return not line.strip() and not any(mark in line for mark in "\x1c\x1d\x1e\x1f")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("run")
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        source, target = (pathlib.Path(directory) / name for name in ("source", "target"))
        with source.open("w", encoding="utf-8", newline="") as file:
            file.writelines(line + "\n" for line in lines(options.lines, seed=1))
        started = time.monotonic()
        command = [options.program, "-q", "translate", options.run, str(source), "-o", str(target), "--beam-size", "1"]
        code = subprocess.run(command, check=False).returncode
        seconds = time.monotonic() - started
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        if code != 0:
            sys.exit(f"exit code {code}")
        found = target.read_bytes().split(b"\n")[:-1]
    if len(found) != options.lines:
        sys.exit(f"{options.lines} lines in, {len(found)} lines out")
    wrong = [n for n, line in enumerate(lines(options.lines, seed=1)) if is_blank(line) and found[n]]
    if wrong:
        sys.exit(f"line {wrong[0] + 1} is blank and has a translation")
    rate = options.lines / seconds
    print(f"{options.lines} lines in and out in {seconds:.0f} s, {rate:.0f} lines a second, at most {peak:.0f} MiB")


if __name__ == "__main__":
    main()
