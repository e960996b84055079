#!/usr/bin/env python3
"""Times a forward and a backward pass over one sentence, for a Transformer and a GRU of one layer a side.

    python3 docs/book/scripts/time_by_length.py --program target/release/polyglow

By `polyglow bench`. The table goes into the book; `--dry` prints it only. A minute.
"""

import argparse
import json
import subprocess

from chapter import provenance, put

LENGTHS = [16, 32, 64, 128, 256, 512]
ONE_LAYER = ["model.num_encoder_layers=1", "model.num_decoder_layers=1"]
MODELS = {"Transformer": ["model.arch=transformer"], "GRU": ["model.arch=rnn", "model.attention=none"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="polyglow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=10, help="of each round")
    parser.add_argument("--dry", action="store_true", help="print the table and change no file")
    options = parser.parse_args()

    def forward_and_backward(overrides):
        shapes = [word for length in LENGTHS for word in ("--shape", f"1x{length}x{length}")]
        keys = [word for key in [*ONE_LAYER, *overrides] for word in ("--set", key)]
        command = [options.program, "bench", "step", "--json", "--vocab-size", "100", "--repetitions",
                   str(options.repetitions), *shapes, *keys]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        # The least, because other programs can only make it longer.
        return [1e3 * (bucket["forward"]["least"] + bucket["backward"]["least"]) for bucket in report["buckets"]]

    # In turns, so that all meet the same machine.
    rounds = [[forward_and_backward(overrides) for overrides in MODELS.values()] for _ in range(options.rounds)]
    times = [[min(times) for times in zip(*model)] for model in zip(*rounds)]
    rows = [[length, *(f"{time:.1f}" for time in row), f"{row[1] / row[0]:.1f}"]
            for length, row in zip(LENGTHS, zip(*times))]
    header = ["words", *(f"{name}, ms" for name in MODELS), "ratio"]
    if options.dry:
        print(*[header, *rows], sep="\n")
        return
    count = options.rounds * options.repetitions
    note = f"Forward and backward pass over one sentence, the least of {count} times, one layer a side, *d_model* = 128, by "
    put("time-by-length", header, rows, f"{note}`docs/book/scripts/time_by_length.py`; {provenance()}.")


if __name__ == "__main__":
    main()
