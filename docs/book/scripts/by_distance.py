#!/usr/bin/env python3
"""Measures how far back recurrent cells remember, and a Transformer beside them.

    python3 docs/book/scripts/by_distance.py --program target/release/polyglow
    python3 docs/book/scripts/by_distance.py --program target/release/polyglow --steps 200 --dry

A text is a letter, some noise, a question mark, and the first letter again. Language models learn such texts of all distances; then
each is asked for the last letter of new ones: right is what it finds more probable than the other three. The table goes into
the book; `--dry` prints it only. About ten minutes on two quiet cores.
"""

import argparse
import json
import random
import subprocess
import tempfile
from pathlib import Path

from chapter import provenance, put

LETTERS, NOISE = "ABCD", "efghijklmnopqrst"
# Noise between the letter and the question.
DISTANCES = [2, 4, 8, 16, 32, 64]
MODELS = {
    "tanh network": ["model.cell=tanh"],
    "GRU": ["model.cell=gru"],
    "LSTM": ["model.cell=lstm"],
    "Transformer": ["model.arch=lm", "model.num_heads=4", "model.d_ff=128", "model.norm=pre"],
}
CONFIG = """
[data]
train = "{place}/train.txt"
valid = "{place}/valid.txt"
[tokenizer]
kind = "word"
[model]
arch = "rnn-lm"
d_model = 64
num_decoder_layers = 1
dropout = 0.0
[train]
max_tokens = 2048
max_steps = {steps}
lr = 3e-3
warmup_steps = 100
schedule = "cosine"
label_smoothing = 0.0
clip_norm = 1.0
validate_every = {steps}
save_every = {steps}
"""


def text(rng, letter, distance):
    """A letter, noise, the question, and the letter."""
    return " ".join([letter, *rng.choices(NOISE, k=distance), "?", letter])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="polyglow")
    parser.add_argument("--steps", type=int, default=3000, help="updates of each model")
    parser.add_argument("--texts", type=int, default=200, help="questions for each distance")
    parser.add_argument("--dry", action="store_true", help="print the table and change no file")
    options = parser.parse_args()

    rng = random.Random(1)
    # Asked with each letter at the end.
    questions = {distance: [(rng.choice(LETTERS), rng.choices(NOISE, k=distance)) for _ in range(options.texts)]
                 for distance in DISTANCES}
    rows = [[f"{distance}"] for distance in DISTANCES]
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name, count in [("train", 50_000), ("valid", 500)]:
            lines = [text(rng, rng.choice(LETTERS), rng.choice(DISTANCES)) for _ in range(count)]
            (place / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (place / "config.toml").write_text(CONFIG.format(place=place, steps=options.steps), encoding="utf-8")
        for name, overrides in MODELS.items():
            run = place / name.replace(" ", "-")
            settings = [word for key in overrides for word in ("--set", key)]
            subprocess.run([options.program, "-q", "train", place / "config.toml", "--run", run, *settings], check=True)
            for row, distance in zip(rows, DISTANCES):
                row.append(f"{accuracy(options.program, run, questions[distance], place):.3f}")
    header = ["letters between", *MODELS]
    note = (f"Share of {options.texts} questions answered rightly, by chance 0.25, after {options.steps} updates; one layer, *d_model* = 64, "
            f"by `docs/book/scripts/by_distance.py`; {provenance()}.")
    if options.dry:
        print("\n".join(" ".join(map(str, row)) for row in [header, *rows]), note, sep="\n")
    else:
        put("by-distance", header, rows, note)


def accuracy(program, run, questions, place):
    """The share of questions whose answer is the most probable of all letters."""
    lines = [" ".join([first, *noise, "?", last]) for first, noise in questions for last in LETTERS]
    (place / "asked").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [program, "-q", "score", run, place / "asked", place / "asked", "--json"]
    records = [json.loads(line) for line in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    # The last token is the end mark.
    found = [record["tokens"][-2]["log_prob"] for record in records]
    right = 0
    for number, (first, _) in enumerate(questions):
        of_letters = found[number * len(LETTERS):][:len(LETTERS)]
        right += of_letters.index(max(of_letters)) == LETTERS.index(first)
    return right / len(questions)


if __name__ == "__main__":
    main()
