#!/usr/bin/env python3
"""Compares ways to search with a trained run: BLEU, chrF, TER, and sentences per second, as a Markdown table.

    python scripts/search_table.py runs/my test.en test.de --ensemble runs/second --ensemble runs/third
    python scripts/search_table.py runs/my test.en test.de --program target/release/polyglow --tokenize none

Each row translates the whole file with `polyglow translate` and scores the output with `polyglow metrics`. The rate is
that of the command: it includes starting the program and loading the models. `--ensemble` names the models that decide
together with the run's in the row `ensemble`; `--average N` first writes the average of the newest N checkpoints.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path


def rows(options):
    beam = lambda size, penalty, alpha: ["--beam-size", str(size), "--set", f"search.length_penalty={penalty}",
                                         "--set", f"search.length_alpha={alpha}"]
    yield "greedy", ["--beam-size", "1"]
    yield "beam 4", beam(4, "none", 0)
    yield "beam 5, alpha 0.6", beam(5, "wu", 0.6)
    yield "beam 5, alpha 1.0", beam(5, "wu", 1.0)
    if options.ensemble:
        models = [word for path in options.ensemble for word in ("--ensemble", path)]
        yield f"ensemble of {len(options.ensemble) + 1}, beam 5, alpha 1.0", models + beam(5, "wu", 1.0)
    if options.average:
        yield f"average of the last {options.average}, beam 5, alpha 1.0", ["--checkpoint", "average"] + beam(5, "wu", 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--program", default="polyglow")
    parser.add_argument("--ensemble", action="append", default=[])
    parser.add_argument("--average", type=int)
    parser.add_argument("--tokenize", default="13a")
    options = parser.parse_args()

    def polyglow(*arguments):
        command = [options.program, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    if options.average:
        polyglow("average", options.run, "--last", options.average)
    count = len(options.source.read_text(encoding="utf-8").splitlines())
    print("| search | BLEU | chrF | TER | sentences/s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        for name, arguments in rows(options):
            started = time.perf_counter()
            polyglow("translate", options.run, options.source, "--output", output, *arguments)
            seconds = time.perf_counter() - started
            scores = polyglow("metrics", output, options.reference, "--metrics", "bleu", "chrf", "ter", "--tokenize",
                              options.tokenize, "--width", "2", "--json")
            values = " | ".join(f"{score['score']:.2f}" for score in json.loads(scores))
            print(f"| {name} | {values} | {count / seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
