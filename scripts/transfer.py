#!/usr/bin/env python3
"""Compares a translator of few pairs that starts from a parent with one that starts anew.

    scripts/fetch.sh multi30k && scripts/fetch.sh tatoeba-en-de
    python3 scripts/transfer.py target/release/polyglow

For each seed, a parent learns the first sentences of Tatoeba (short ones of everyday life), and its children the first pairs of
Multi30k (captions of photographs): one anew with a vocabulary of its own, one from the parent with the parent's, one from
the parent with a vocabulary of its own. Prints BLEU on Multi30k's test set for each, and the p-value of each beside the child
that began anew (approximate randomization). Takes about forty minutes on two cores with AVX-512.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The parent's.
VOCABULARY = 8000
CONFIG = """
[data]
train = "{data}/{corpus}/train"
valid = "{data}/{corpus}/valid"
test = "{data}/multi30k-en-de/test2016"
max_examples = {pairs}
src = "en"
tgt = "de"

[tokenizer]
kind = "bpe"
vocab_size = {vocabulary}

[model]
preset = "tiny"
num_encoder_layers = 2
num_decoder_layers = 2
norm = "pre"
dropout = 0.3

[train]
max_steps = {steps}
max_tokens = 2048
warmup_steps = {warmup}
lr = {lr}
best_metric = "bleu"
validate_every = {every}
save_every = {every}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the built polyglow")
    parser.add_argument("--data", type=Path, default=ROOT / "datasets", help="with both corpora (default: datasets)")
    parser.add_argument("--pairs", type=int, default=3000, help="of the children (default: %(default)s)")
    parser.add_argument("--parent-pairs", type=int, default=100_000, help="of the parent (default: %(default)s)")
    parser.add_argument("--parent-steps", type=int, default=2500, help="of the parent (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=800, help="of each child (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds from 1 on (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        compare(arguments, Path(directory))


def compare(arguments: argparse.Namespace, directory: Path) -> None:
    def polyglow(*command: object) -> str:
        program = [arguments.program.resolve(), "-q", *map(str, command)]
        return subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout

    data = arguments.data.resolve()
    shared = {"data": data, "every": 100}
    parent_toml, child_toml = directory / "parent.toml", directory / "child.toml"
    parent_toml.write_text(CONFIG.format(**shared | {"every": 500}, corpus="tatoeba-en-de", pairs=arguments.parent_pairs,
                                         vocabulary=VOCABULARY, steps=arguments.parent_steps, warmup=300, lr=2e-3))
    child_toml.write_text(CONFIG.format(**shared, corpus="multi30k-en-de", pairs=arguments.pairs, vocabulary=2000,
                                        steps=arguments.steps, warmup=100, lr=2e-3))
    source, reference = (data / "multi30k-en-de" / f"test2016.{side}" for side in ("en", "de"))
    scores: dict[str, list[float]] = {}
    for seed in range(1, arguments.seeds + 1):
        # What began anew is first, since the others are compared with it.
        kinds = ("anew", "parent alone", "child", "child, own vocabulary")
        anew, parent, child, own = (directory / f"{kind}-{seed}" for kind in kinds)
        by_seed, of_parent = ("--set", f"seed={seed}"), ("--set", f"tokenizer.vocab_size={VOCABULARY}")
        polyglow("train", child_toml, *by_seed, "--run", anew)
        polyglow("train", parent_toml, *by_seed, "--run", parent)
        polyglow("train", child_toml, *by_seed, *of_parent, "--run", parent, "--fork", child)
        polyglow("train", child_toml, *by_seed, "--run", parent, "--fork", own, "--new-vocabulary")
        outputs = []
        for kind, run in zip(kinds, (anew, parent, child, own)):
            outputs.append(run.with_suffix(".de"))
            outputs[-1].write_text(polyglow("translate", run, source))
            score = polyglow("metrics", outputs[-1], reference, "--score-only", "--width", 2)
            scores.setdefault(kind, []).append(float(score))
        others = [word for output in outputs[1:] for word in ("--hypothesis", output)]
        print(polyglow("metrics", outputs[0], reference, *others, "--paired-ar"), flush=True)
    for kind, values in scores.items():
        print(f"{kind:24} {statistics.mean(values):5.2f}  of {', '.join(f'{value:.2f}' for value in values)}")


if __name__ == "__main__":
    main()
