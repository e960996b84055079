#!/usr/bin/env python3
"""Compares a classifier that starts from an encoder that found hidden tokens with one that starts anew, on few labels.

    python3 scripts/pretraining.py target/release/polyglow

Trains `configs/masked.toml` once, and `configs/encoder.toml` on the first labels of its training text with and without it,
by as many steps, for each seed; prints the accuracy on every test set. Both know all words. It takes a few minutes on
two cores.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

LEARNING_RATE = 1e-3
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the built polyglow")
    parser.add_argument("--labels", type=int, default=200, help="labeled texts to train on (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds from 1 on (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="steps of each classifier (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        compare(arguments, Path(directory))


def compare(arguments: argparse.Namespace, directory: Path) -> None:
    masked = directory / "masked"

    def polyglow(*command: object) -> str:
        program = [arguments.program.resolve(), "-q", *map(str, command)]
        return subprocess.run(program, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    polyglow("train", "configs/masked.toml", "--run", masked)
    accuracies: dict[tuple[str, str], list[float]] = {}
    for seed in range(1, arguments.seeds + 1):
        few = ["train", "configs/encoder.toml"]
        settings = {"data.max_examples": arguments.labels, "train.max_steps": arguments.steps, "train.lr": LEARNING_RATE}
        for key, value in (settings | {"seed": seed}).items():
            few += ["--set", f"{key}={value}"]
        anew, forked = directory / f"anew-{seed}", directory / f"forked-{seed}"
        polyglow(*few, "--run", anew)
        polyglow(*few, "--run", masked, "--fork", forked)
        for kind, run in (("anew", anew), ("pretrained", forked)):
            for split in ("test", "test_comp"):
                scores = json.loads(polyglow("evaluate", run, "--split", split, "--json"))
                accuracies.setdefault((split, kind), []).append(scores["accuracy"])
    for (split, kind), values in sorted(accuracies.items()):
        print(f"{split:10} {kind:11} {statistics.mean(values):.3f}  of {', '.join(f'{value:.3f}' for value in values)}")


if __name__ == "__main__":
    main()
