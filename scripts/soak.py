#!/usr/bin/env python3
"""Trains for a long time and watches the memory and the speed of the program: the soak test of docs/reliability.md.

    scripts/soak.py --minutes 65 --out soak --run runs/multi30k-en-de -- \\
        target/release/polyglow train configs/multi30k-en-de.toml

Every five seconds the resident memory of the program is written to OUT/memory.csv. After the given time the program is
asked to stop (SIGTERM), as Ctrl-C would, and OUT/soak.svg shows the memory and, from the run's metrics.jsonl, the
target tokens per second. Exit code 1 if the program ends early or fails, or if memory grows: the median of the last
quarter may be at most a twentieth above that of the second. Needs Linux and Python's matplotlib.
"""

import argparse
import csv
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

SECONDS_PER_SAMPLE = 5
# What a training ends with that is saved, and not done.
STOPPED = 75
MOST_GROWTH = 0.05


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory for what is measured")
    parser.add_argument("--run", type=pathlib.Path, required=True, help="run directory that the command trains in")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


def watch(process, minutes):
    """Seconds since the start and resident memory in MiB, until the time is over or the program ends."""
    samples, started = [], time.monotonic()
    while (elapsed := time.monotonic() - started) < minutes * 60 and process.poll() is None:
        memory = resident_mib(process.pid)
        if memory is not None:
            samples.append((elapsed, memory))
        time.sleep(SECONDS_PER_SAMPLE)
    return samples


def speeds(run, first_step):
    """Seconds of training and target tokens per second, for each report after `first_step`."""
    seconds, points = 0.0, []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "train" and record["step"] > first_step:
            seconds += record["seconds"]
            points.append((seconds, record["tokens_per_second"]))
    return points


def last_step(run):
    path = run / "checkpoints" / "last" / "state.json"
    return json.loads(path.read_text())["step"] if path.is_file() else 0


def draw(samples, points, path):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, sharex=True, figsize=(8, 5))
    above.plot([time / 60 for time, _ in samples], [memory for _, memory in samples])
    above.set(ylabel="resident memory (MiB)", ylim=(0, None))
    below.plot([time / 60 for time, _ in points], [speed for _, speed in points])
    below.set(ylabel="target tokens per second", xlabel="minutes", ylim=(0, None))
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    first_step = last_step(options.run)
    process = subprocess.Popen(options.command)
    samples = watch(process, options.minutes)
    early = process.poll() is not None
    process.send_signal(signal.SIGTERM)
    code = process.wait()
    with open(options.out / "memory.csv", "w", newline="") as file:
        csv.writer(file).writerows([("seconds", "resident_mib"), *samples])
    points = speeds(options.run, first_step)
    draw(samples, points, options.out / "soak.svg")
    quarter = len(samples) // 4
    if quarter == 0:
        sys.exit(f"the program ended after {len(samples)} samples, with exit code {code}")
    before = statistics.median(memory for _, memory in samples[quarter : 2 * quarter])
    after = statistics.median(memory for _, memory in samples[3 * quarter :])
    rates = [speed for _, speed in points]
    spread = (min(rates), statistics.median(rates), max(rates))
    print(f"{samples[-1][0] / 60:.0f} minutes, {last_step(options.run) - first_step} steps, exit code {code}")
    print(f"resident memory: median of the second quarter {before:.0f} MiB, of the last {after:.0f} MiB")
    print("target tokens per second: least {:.0f}, median {:.0f}, most {:.0f}".format(*spread))
    grown = after > before * (1 + MOST_GROWTH)
    if early or code != STOPPED or grown:
        sys.exit("the program ended early" if early else f"exit code {code}" if code != STOPPED else "memory grows")


if __name__ == "__main__":
    main()
