#!/usr/bin/env python3
"""Measures how far back recurrent cells remember, and a Transformer beside them.

    python3 docs/book/scripts/by_distance.py --program target/release/polyglow
    python3 docs/book/scripts/by_distance.py --program target/release/polyglow --steps 200 --dry

A source is a capital letter in the middle of noise, and its translation that letter. A recurrent network without attention reads
it from both ends, so that either way it has to remember the letter over half of the noise. A model for each distance learns such
pairs, and is asked about new ones. The table goes into the book; `--dry` prints it only. About three minutes on two cores.
"""

import argparse
import random
import subprocess
import tempfile
from pathlib import Path

from chapter import provenance, put

LETTERS, NOISE = "ABCD", "efghijklmnopqrst"
# Letters of noise on either side.
DISTANCES = [2, 4, 8, 16, 32, 64, 128]
MODELS = {
    "tanh network": 'arch = "rnn"\nattention = "none"\ncell = "tanh"',
    "GRU": 'arch = "rnn"\nattention = "none"\ncell = "gru"',
    "LSTM": 'arch = "rnn"\nattention = "none"\ncell = "lstm"',
    "Transformer": 'num_heads = 4\nd_ff = 128\nnorm = "pre"',
}
CONFIG = """
[data]
train = "{place}/train.tsv"
valid = "{place}/valid.tsv"
src = "noise"
tgt = "letter"
max_len = 300
max_length_ratio = 1000.0
[tokenizer]
kind = "word"
[model]
{model}
d_model = 64
num_encoder_layers = 1
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


def pair(rng, distance):
    """A letter in its noise, and the letter."""
    letter, noise = rng.choice(LETTERS), rng.choices(NOISE, k=2 * distance)
    return " ".join([*noise[:distance], letter, *noise[distance:]]), letter


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="polyglow")
    parser.add_argument("--steps", type=int, default=600, help="updates of each model")
    parser.add_argument("--texts", type=int, default=200, help="questions for each distance")
    parser.add_argument("--dry", action="store_true", help="print the table and change no file")
    options = parser.parse_args()

    rng, rows = random.Random(1), []
    for distance in DISTANCES:
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            for name, count in [("train", 10_000), ("valid", 200)]:
                pairs = [pair(rng, distance) for _ in range(count)]
                (place / f"{name}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
            questions = [pair(rng, distance) for _ in range(options.texts)]
            rows.append([distance, *(f"{share(options, place, model, questions):.3f}" for model in MODELS.values())])
    header = ["letters on either side", *MODELS]
    note = (f"Share of {options.texts} questions answered rightly, by chance 0.25, after {options.steps} updates; one layer a side, "
            f"*d_model* = 64, attention in the Transformer alone, by `docs/book/scripts/by_distance.py`; {provenance()}.")
    if options.dry:
        print("\n".join(" ".join(map(str, row)) for row in [header, *rows]), note, sep="\n")
    else:
        put("by-distance", header, rows, note)


def share(options, place, model, questions):
    """The share of questions that a model answers rightly, after it has learned."""
    config, run = place / "config.toml", place / f"run-{abs(hash(model))}"
    config.write_text(CONFIG.format(place=place, steps=options.steps, model=model), encoding="utf-8")
    train = [options.program, "-q", "train", config, "--run", run]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
    asked = "".join(f"{src}\n" for src, _ in questions)
    command = [options.program, "-q", "translate", run, "--beam-size", "1"]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, input=asked, text=True).stdout.splitlines()
    return sum(answer == tgt for answer, (_, tgt) in zip(found, questions, strict=True)) / len(questions)


if __name__ == "__main__":
    main()
