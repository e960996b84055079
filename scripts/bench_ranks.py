#!/usr/bin/env python3
"""How fast several processes train together: on the cores of this machine, and over networks that are made slow.

    cargo build --release -p polyglow-bench
    cargo build --release -p polyglow --features mpi
    scripts/fetch.sh multi30k
    python3 scripts/bench_ranks.py target/release/polyglow cores
    sudo python3 scripts/bench_ranks.py target/release/polyglow networks

`cores` trains with two cores as one rank of one thread, one of two threads, and two of one thread, in turns. Every step
has two micro-batches.

`networks` gives each of four ranks a network namespace of its own, as if it were a machine, and limits the rate between
them with `tc`; Linux and root are needed for that. A delay is made by a process that hands packets on later, so that no
module of the kernel (`sch_netem`) is needed. Beside the time of the sums of a step, as each run reports it, and the rest of the
step as a share of the whole, stands what `polyglow-bench ranks` expects, which is beside the program.
"""

import argparse
import fcntl
import json
import multiprocessing
import os
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CONFIG = """
[data]
train = "{train}"
src = "en"
tgt = "de"

[tokenizer]
vocab_size = 8000

[model]
preset = "{preset}"

[train]
max_tokens = {max_tokens}
accumulate_steps = {micro_batches}
max_steps = {steps}
log_every = {every}
save_every = 1000000
warmup_steps = 2
"""

# Gigabytes a second that a core copies, sends and adds, as `polyglow-bench ranks` has it.
HOST = 0.75
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def run(command, **options):
    done = subprocess.run(command, text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def records(path):
    """The reports of a training, without the first, in which memory is allocated."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "train"][1:]


class Bench:
    def __init__(self, args, directory):
        self.args = args
        self.directory = Path(directory)
        self.number = 0

    def train(self, launcher, preset, micro_batches, threads):
        """Trains some steps in a new run, and returns its reports."""
        self.number += 1
        args, path = self.args, self.directory / str(self.number)
        config = self.directory / "config.toml"
        config.write_text(
            CONFIG.format(
                train=args.train,
                preset=preset,
                max_tokens=args.max_tokens,
                micro_batches=micro_batches,
                steps=args.steps,
                every=args.every,
            )
        )
        command = [*launcher, str(args.program), "train", str(config), "--run", str(path)]
        command += [word for value in args.set for word in ("--set", value)]
        run(command, env={**os.environ, "RAYON_NUM_THREADS": str(threads)})
        return records(path)


def rate(reports):
    return statistics.median(report["tokens_per_second"] for report in reports)


def per_step(reports, key, every):
    return statistics.median(report[key] for report in reports) / every


def cores(bench, args):
    ways = {
        "1 rank, 1 thread": ([], 1),
        "1 rank, 2 threads": ([], 2),
        "2 ranks, 1 thread": ([*MPIRUN, "-n", "2"], 1),
    }
    print("| preset | " + " | ".join(f"{way}, tokens/s" for way in ways) + " | 2 ranks / 1 thread | 2 ranks / 2 threads |"
          " waiting | sums |")
    print("|---" * (len(ways) + 5) + "|")
    for preset in args.presets:
        rates, waits, sums = {way: [] for way in ways}, [], []
        for _ in range(args.rounds):
            for way, (launcher, threads) in ways.items():
                reports = bench.train(launcher, preset, 2, threads)
                rates[way].append(rate(reports))
                if launcher:
                    waits.append(per_step(reports, "wait_seconds", args.every))
                    sums.append(per_step(reports, "exchange_seconds", args.every))
        one, two, ranks = rates.values()
        ratio = lambda below: ", ".join(f"{above / one:.2f}" for above, one in zip(ranks, below))
        shown = " | ".join(f"{statistics.median(values):.0f}" for values in rates.values())
        wait, exchange = (1e3 * statistics.median(values) for values in (waits, sums))
        print(f"| {preset} | {shown} | {ratio(one)} | {ratio(two)} | {wait:.0f} ms | {exchange:.0f} ms |", flush=True)


def ip(*words):
    return run(["ip", *words])


@contextmanager
def machines(number, delay):
    """As many namespaces, each with an address on one network, on which a packet takes `delay` seconds; yields their names."""
    names = [f"polyglow{index}" for index in range(number)]
    switch = None
    try:
        for name in names:
            ip("netns", "add", name)
        if delay:
            switch = multiprocessing.Process(target=hand_on, args=(tunnels(names), delay), daemon=True)
            switch.start()
        else:
            bridge(names)
        for index, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.99.0.{index + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        if switch:
            switch.kill()
            switch.join()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", "polyglow-br"], capture_output=True)


def bridge(names):
    """Connects `eth0` of each namespace in the kernel."""
    ip("link", "add", "polyglow-br", "type", "bridge")
    ip("link", "set", "polyglow-br", "up")
    for index, name in enumerate(names):
        ip("link", "add", f"pgv{index}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"pgv{index}", "master", "polyglow-br", "up")


def tunnels(names):
    """Makes `eth0` of each namespace a file from which its packets are read, and to which those for it are written."""
    make, flags = 0x400454CA, 0x0001 | 0x1000  # TUNSETIFF; IFF_TUN | IFF_NO_PI, Linux's if_tun.h
    files = []
    for index, name in enumerate(names):
        files.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
        fcntl.ioctl(files[-1], make, struct.pack("16sH22x", f"pgt{index}".encode(), flags))
        ip("link", "set", f"pgt{index}", "netns", name, "name", "eth0")
        # Large packets, so that this process has little to do; and room for many.
        ip("-n", name, "link", "set", "eth0", "mtu", "60000", "txqueuelen", "10000")
    return files


def hand_on(files, delay):
    """Gives every packet to the one it is for, `delay` seconds after it came."""
    # Before all else on the machine, so that the delay is no longer than it should be.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    waiting = deque()
    while True:
        timeout = max(0.0, waiting[0][0] - time.perf_counter()) if waiting else None
        for file in select.select(files, [], [], timeout)[0]:
            packet = os.read(file, 65536)
            # Its last byte of the address of IPv4; what else the kernel sends by itself is for nobody here.
            if packet[0] >> 4 == 4 and 1 <= packet[19] <= len(files):
                waiting.append((time.perf_counter() + delay, packet))
        while waiting and waiting[0][0] <= time.perf_counter():
            packet = waiting.popleft()[1]
            os.write(files[packet[19] - 1], packet)


def limit(names, gigabits):
    """Limits what each machine sends; 0 is no limit."""
    for name in names:
        tc = ["tc", "-n", name, "qdisc"]
        subprocess.run([*tc, "del", "dev", "eth0", "root"], capture_output=True)
        if gigabits:
            burst = max(128, int(gigabits * 128))
            # Room for all that a step sends: what is dropped would be sent twice.
            queue = ["burst", f"{burst}kb", "limit", "500mb"]
            run([*tc, "add", "dev", "eth0", "root", "tbf", "rate", f"{gigabits}gbit", *queue])


def networks(bench, args):
    agent = bench.directory / "agent.sh"
    # What mpirun calls in place of ssh: the address of a machine, and a command for it, with a name of its own.
    agent.write_text(
        "#!/bin/sh\nhost=$1; shift\nindex=$((${host##*.} - 1))\n"
        'exec ip netns exec polyglow$index unshare --uts sh -c "hostname node$index; $*"\n'
    )
    agent.chmod(0o755)
    hosts = ",".join(f"10.99.0.{index + 1}:1" for index in range(args.ranks))
    options = ["--mca", "plm_rsh_agent", str(agent), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
    options += ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
    # Every namespace looks like a machine with cores of its own, which it has not: whoever waits gives its core away.
    options += ["--mca", "mpi_yield_when_idle", "1", "-H", hosts, "-n", str(args.ranks), "-x", "RAYON_NUM_THREADS"]
    print(f"{args.ranks} ranks on {os.cpu_count()} cores\n")
    print("| preset | Gbit/s | delay | tokens/s | sums of a step | expected | efficiency | expected |")
    print("|---" * 8 + "|")
    for preset in args.presets:
        for delay in args.delays:
            with machines(args.ranks, delay / 1e3) as names:
                launcher = ["ip", "netns", "exec", names[0], "unshare", "--uts", *MPIRUN, *options]
                for gigabits in [0, *args.rates]:
                    limit(names, gigabits)
                    reports = bench.train(launcher, preset, args.ranks, 1)
                    step, sums = (per_step(reports, key, args.every) for key in ("seconds", "exchange_seconds"))
                    alone, expected = step - sums, expect(args, preset, gigabits or 1000, delay)
                    print(f"| {preset} | {gigabits or 'unlimited'} | {delay} ms | {rate(reports):.0f} | {1e3 * sums:.0f} ms |"
                          f" {1e3 * expected:.0f} ms | {alone / step:.2f} | {alone / (alone + expected):.2f} |", flush=True)


def expect(args, preset, gigabits, delay):
    """What `polyglow-bench ranks` expects of the sums of a step, in seconds."""
    latency = str(20 + 1e3 * delay)
    command = [args.bench, "ranks", "--json", "--model", preset, "--vocab-size", "8000", "--micro-batch", "100"]
    # The rate of a host is that of a core, of which each rank here has one or a part.
    host = HOST * min(1.0, (os.cpu_count() or 1) / args.ranks)
    command += ["--network", f"{gigabits}G", "--latency", latency, "--host", str(host)]
    rows = json.loads(run(command))["rows"]
    return next(row["exchange_seconds"] for row in rows if row["ranks"] == args.ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("part", choices=["cores", "networks"])
    parser.add_argument("--train", default="data/multi30k-en-de/train", help="training text, English and German")
    parser.add_argument("--presets", nargs="+", default=["tiny", "small", "base"])
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--every", type=int, default=5, help="steps between reports")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rates", type=float, nargs="+", default=[1, 10, 25], help="in Gbit/s")
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 0.05, 0.5], help="in milliseconds, one way")
    parser.add_argument("--set", action="append", default=[], help="a key of the config, as in `train.lr=1e-4`")
    args = parser.parse_args()
    args.program = args.program.resolve()
    args.bench = args.program.with_name("polyglow-bench")
    if args.part == "networks" and not args.bench.is_file():
        sys.exit(f"{args.bench} is missing: `cargo build --release -p polyglow-bench`")
    with tempfile.TemporaryDirectory() as directory:
        {"cores": cores, "networks": networks}[args.part](Bench(args, directory), args)


if __name__ == "__main__":
    main()
