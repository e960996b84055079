#!/usr/bin/env python3
"""Compares the translations of a Transformer and of recurrent networks by the length of the source.

    python3 docs/book/scripts/by_length.py --program target/release/polyglow --runs runs
    python3 docs/book/scripts/by_length.py --program target/release/polyglow --runs /tmp/try --steps 200 --dry

Trains them on mini-en-de, unless the runs are there. The table goes into the book; `--dry` prints it only. About ten
minutes on two quiet cores.
"""

import argparse
import subprocess
from pathlib import Path

from chapter import BOOK, provenance, put

CONFIGS = BOOK.parent.parent / "configs"
MODELS = {
    "Transformer": ("quickstart.toml", []),
    "GRU with attention": ("rnn.toml", []),
    "GRU without attention": ("rnn.toml", ["model.attention=none"]),
}
# Words of the source, with the punctuation mark.
BUCKETS = [(3, 7), (8, 12), (13, 17), (18, 31)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="polyglow")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the runs are, or go")
    parser.add_argument("--steps", type=int, help="fewer updates, to try the script")
    parser.add_argument("--dry", action="store_true", help="print the table and change no file")
    options = parser.parse_args()

    def polyglow(*arguments, text=None):
        command = [options.program, *map(str, arguments)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, input=text, text=True).stdout

    corpus = options.runs / "book-corpus"
    polyglow("corpus", "mini-en-de", corpus)
    read = lambda split, side: (corpus / f"{split}.{side}").read_text(encoding="utf-8").splitlines()
    # Sentences of the kind that was trained on, and then deeper ones. The picture calls a group what stands before its
    # comma.
    pairs = {name: list(zip(read(name, "en"), read(name, "de"))) for name in ("test", "test_comp", "test_deep")}
    plain = pairs["test"] + pairs["test_comp"]
    groups = [(f"{least} to {most}", [pair for pair in plain if least <= len(pair[0].split()) <= most])
              for least, most in BUCKETS]
    groups.append(("nested deeper, 16 to 38", pairs["test_deep"]))

    rows = [[name, len(group)] for name, group in groups]
    for name, (config, overrides) in MODELS.items():
        run = options.runs / f"book-{name.replace(' ', '-').lower()}"
        if options.steps:
            overrides = [*overrides, f"train.max_steps={options.steps}"]
        polyglow("train", CONFIGS / config, "--run", run, *(word for key in overrides for word in ("--set", key)))
        for row, (_, group) in zip(rows, groups):
            found = polyglow("translate", run, text="".join(f"{src}\n" for src, _ in group)).splitlines()
            right = sum(hypothesis == tgt for hypothesis, (_, tgt) in zip(found, group, strict=True))
            row.append(f"{right / len(group):.3f}")
    header = ["words in the source", "sentences", *MODELS]
    if options.dry:
        print(*[header, *rows], sep="\n")
        return
    put("by-length", header, rows, "Share of sentences that are translated exactly as the reference, by "
        f"`docs/book/scripts/by_length.py`; {provenance()}.")


if __name__ == "__main__":
    main()
