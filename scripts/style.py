#!/usr/bin/env python3
"""How the code reads, in figures, one row a crate, beside other projects' figures.

    python3 scripts/style.py [CRATE ...] [--longest N]

Counts the files below `crates/*/src` without their test modules. It prints and judges nothing: a limit that is enforced
is met by packing code.
"""

import argparse
import re
import signal
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent

# From a review with a script that counts alike, tests left out: ripgrep's libraries at 3fce3b5b, burn-nn at 2c06be351, axum at 3d78036d, uv at
# 26a9dd4b. Tuple lets of all of them are from 0.9 to 5.9.
ANCHORS = [
    ("ripgrep's libraries", 0.6, None, 24.5, 0.42),
    ("burn-nn", 0.5, None, 26.3, 0.43),
    ("axum", 0.2, None, 25.6, 0.50),
    ("uv", 0.2, None, 25.0, 0.18),
]

NAMED_CLOSURE = re.compile(r"^\s*let (?:mut )?\w+(?:: [^=]+)? =\s*(?:move )?\|[^|]*\|")
# A closure whose parameters stand on the next line, as rustfmt breaks long ones.
BROKEN_CLOSURE = re.compile(r"^\s*let (?:mut )?\w+(?:: [^=]+)? =\s*$")
CLOSURE_START = re.compile(r"^\s*(?:move )?\|[^|]*\|")
TUPLE_LET = re.compile(r"^\s*let \((?!.*\) = \w[\w:.]*(?:\(|\[).*\??;$)")
FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:const |async |unsafe )*fn (\w+)")


def without_tests(text):
    """The lines of a file up to its test module, which is its last item."""
    return text.split("#[cfg(test)]\nmod ")[0].splitlines()


def functions(lines):
    """Names and lengths in lines of the functions of a file, by their indentation."""
    for start, line in enumerate(lines):
        match = FUNCTION.match(line)
        if match is None or line.rstrip().endswith(";"):
            continue
        end = f"{match.group(1)}}}"
        for count, inner in enumerate(lines[start:], 1):
            if inner.rstrip() == end:
                yield match.group(2), count
                break


class Figures:
    """What is counted of one crate."""

    def __init__(self):
        self.code = []
        self.comments = 0
        self.closures = 0
        self.tuples = 0
        self.functions = []

    def add(self, path):
        lines = without_tests(path.read_text())
        for index, line in enumerate(lines):
            text = line.strip()
            if not text:
                continue
            if text.startswith("//"):
                self.comments += 1
                continue
            self.code.append(len(text))
            following = lines[index + 1] if index + 1 < len(lines) else ""
            if NAMED_CLOSURE.match(line) or (BROKEN_CLOSURE.match(line) and CLOSURE_START.match(following)):
                self.closures += 1
            if TUPLE_LET.match(line):
                self.tuples += 1
        self.functions += [(count, name, path) for name, count in functions(lines)]

    def row(self):
        thousands = len(self.code) / 1000
        return self.closures / thousands, self.tuples / thousands, mean(self.code), self.comments / len(self.code)


def show(name, closures, tuples, characters, comments):
    tuples = "      " if tuples is None else f"{tuples:6.1f}"
    print(f"{name:<22} {closures:6.1f} {tuples} {characters:6.1f} {comments:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crates", nargs="*", metavar="CRATE")
    parser.add_argument("--longest", type=int, default=5, metavar="N", help="functions that are named, for each crate")
    args = parser.parse_args()
    crates = args.crates or sorted(path.parent.name for path in ROOT.glob("crates/*/src"))
    print("per 1 000 lines of code: named closures, lets of tuples; then characters of a line of code, and comments")
    print("(documentation included) as a share of the code\n")
    longest = {}
    for crate in crates:
        figures = Figures()
        for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
            if path.name != "tests.rs":
                figures.add(path)
        show(crate, *figures.row())
        longest[crate] = sorted(figures.functions, key=lambda function: function[0], reverse=True)[: args.longest]
    print()
    for anchor in ANCHORS:
        show(*anchor)
    for crate, found in longest.items():
        print(f"\nlongest functions of {crate}")
        for count, name, path in found:
            print(f"  {count:4}  {name}  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    # Ends quietly, as other programs do, when `| head` has read enough.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
