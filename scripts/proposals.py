#!/usr/bin/env python3
"""Tries what `polyglow new` proposes: whether the training ends in its time, and whether other settings score higher in it.

    python3 scripts/proposals.py target/release/polyglow --hours 0.1 --src en --tgt de data/one data/two

For each folder of parallel text, a config is written and trained, and then the same with the size before and after, and with half and
twice the vocabulary, each by as many steps as `polyglow check` gives to the same time. Prints seconds and BLEU of the test set.
Takes five times the hours for each folder; nothing else should run.
"""

import argparse
import json
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

# Preset, layers and learning rate, as in crates/polyglow/src/proposal.rs.
SIZES = [("tiny", 2, 3e-3), ("small", 2, 2e-3), ("small", 3, 1.5e-3), ("base", 6, 7e-4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="the built polyglow")
    parser.add_argument("folders", type=Path, nargs="+", help="with train, valid and test")
    parser.add_argument("--src", required=True, help="source language")
    parser.add_argument("--tgt", required=True, help="target language")
    parser.add_argument("--hours", type=float, default=0.1, help="of each training (default: %(default)s)")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        with tempfile.TemporaryDirectory() as directory:
            compare(arguments, folder.resolve(), Path(directory))


def compare(arguments: argparse.Namespace, folder: Path, directory: Path) -> None:
    def polyglow(*command: object) -> str:
        program = [arguments.program.resolve(), "-q", *map(str, command)]
        return subprocess.run(program, check=True, capture_output=True, text=True, cwd=directory).stdout

    def train(name: str, settings: list[str]) -> None:
        begin = time.monotonic()
        polyglow("train", config, "--run", directory / name, *settings)
        seconds = time.monotonic() - begin
        bleu = json.loads(polyglow("evaluate", directory / name, "--json"))["bleu"]
        print(f"{folder.name:16} {name:36} {seconds:6.0f} s of {3600 * arguments.hours:.0f}  BLEU {bleu:.2f}", flush=True)

    config = directory / "proposed.toml"
    polyglow("new", config, "--src", arguments.src, "--tgt", arguments.tgt, "--data", folder, "--hours", arguments.hours)
    written = tomllib.loads(config.read_text())
    model, steps, vocabulary = written["model"], written["train"]["max_steps"], written["tokenizer"]["vocab_size"]
    place = [size[:2] for size in SIZES].index((model["preset"], model["num_encoder_layers"]))
    train(f"proposed: {model['preset']} {model['num_encoder_layers']}, {vocabulary}", [])

    others = {f"vocabulary {size}": [f"tokenizer.vocab_size={size}"] for size in (vocabulary // 2, vocabulary * 2)}
    for preset, layers, lr in (SIZES[number] for number in (place - 1, place + 1) if 0 <= number < len(SIZES)):
        others[f"{preset} {layers}"] = [f"model.preset={preset}", f"model.num_encoder_layers={layers}",
                                        f"model.num_decoder_layers={layers}", f"train.lr={lr}"]
    before = total(polyglow, config, [])
    for name, keys in others.items():
        settings = [word for key in keys for word in ("--set", key)]
        # Twice, since validations are a part of the time that does not follow the steps.
        count = steps
        for _ in range(2):
            by_count = [*settings, "--set", f"train.max_steps={count}", "--set", f"train.warmup_steps={count // 10}"]
            count = round(count * before / total(polyglow, config, by_count))
        train(name, [*settings, "--set", f"train.max_steps={count}", "--set", f"train.warmup_steps={count // 10}"])


def total(polyglow, config: Path, settings: list[str]) -> float:
    """The seconds that `check` gives to a training."""
    return json.loads(polyglow("check", config, "--json", *settings))["time"]["total_seconds"]


if __name__ == "__main__":
    main()
