#!/usr/bin/env python3
"""What another program on one of the cores costs a training: target tokens a second of `polyglow bench step` on all cores, beside
nothing, beside a busy program of the same priority and beside one of the lowest, and on one core less, in turns. Linux only.

    python scripts/bench_neighbor.py target/release/polyglow configs/quickstart.toml
    python scripts/bench_neighbor.py target/release/polyglow --shape 128x16x16
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys

from measurement import describe, in_turns, machine, polyglow, ratio, save, spread, table, written


@contextlib.contextmanager
def neighbor(niceness):
    """A program that is busy on the last core all the time; none if it has no niceness."""
    if niceness is None:
        yield
        return
    core = max(os.sched_getaffinity(0))

    def settle():
        os.sched_setaffinity(0, {core})
        os.nice(niceness)

    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=settle)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cores(usable):
    """Has what is started run on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, usable)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="a file for the result")
    options, step = parser.parse_known_args()
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        raise SystemExit("error: one core cannot be shared with a neighbor and be compared with one less")

    def rate(niceness=None, on=usable):
        def run():
            with cores(on), neighbor(niceness):
                _, output = polyglow(options.program, "bench", "step", *step, "--json", threads=len(on))
            report = json.loads(output)
            measured = report["stream"] or report["buckets"][0]
            return measured["target_tokens_per_second"]

        return run

    result = machine(len(usable))
    rates = in_turns(options.rounds, {
        "alone": rate(),
        "beside the same priority": rate(0),
        "beside the lowest": rate(19),
        "a core less": rate(on=usable - {max(usable)}),
    })
    result["rates"] = {name: spread(values) for name, values in rates.items()}
    result["of_alone"] = {name: ratio(values, rates["alone"]) for name, values in rates.items()}
    print(describe(result))
    rows = [[name, written(result["rates"][name]), written(result["of_alone"][name], 2)] for name in rates]
    print(table(["`bench step " + " ".join(step) + "`", "target tokens/s", "of alone"], rows))
    save(result, options.json)


if __name__ == "__main__":
    main()
