#!/usr/bin/env python3
"""Kills a command again and again at random moments, gives it again, and compares what it writes in the end.

    scripts/kills.py --kills 20 --compare 'train.*' --compare report.json -- \\
        target/release/polyglow clean my.toml --out {out}

`{out}` stands for a directory. First the command runs to its end, into one directory; then into another, where it is
ended by SIGKILL, SIGINT or SIGTERM at moments drawn from the time that the first took. Where it comes to its end before
enough kills, its files are compared and it begins anew. Files are compared that match one of the patterns, at any depth;
what else the command prints and writes is not. Exit code 1 if a file differs, or is missing or superfluous, or if the
command fails by itself. Needs Python's standard library.
"""

import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]
# What a training ends with that is saved, and not done.
STOPPED = 75


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare", action="append", required=True, metavar="PATTERN")
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def start(command, out, log):
    words = [word.replace("{out}", str(out)) for word in command]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log)


def files(directory, patterns):
    """The content of each file that a pattern matches, by its path in the directory."""
    paths = {path for pattern in patterns for path in directory.rglob(pattern) if path.is_file()}
    return {path.relative_to(directory): path.read_bytes() for path in sorted(paths)}


def differences(expected, actual):
    return [str(path) for path in sorted(expected.keys() | actual.keys()) if expected.get(path) != actual.get(path)]


def main():
    args = arguments()
    moments = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        with open(work / "log", "w+") as log:
            began = time.monotonic()
            if start(args.command, work / "whole", log).wait() != 0:
                sys.exit(f"the command fails:\n{(work / 'log').read_text()[-2000:]}")
            seconds = time.monotonic() - began
            expected = files(work / "whole", args.compare)
            if not expected:
                sys.exit("no file matches the patterns")
            out, kills, ends = work / "killed", 0, 0
            while kills < args.kills or ends == 0:
                process, sent = start(args.command, out, log), None
                try:
                    # After the last kill it may take the time that it needs.
                    code = process.wait(moments.uniform(0, seconds) if kills < args.kills else None)
                except subprocess.TimeoutExpired:
                    sent = moments.choice(SIGNALS)
                    process.send_signal(sent)
                    code = process.wait()
                    kills += code != 0
                expected_codes = (0,) if sent is None else (0, STOPPED, -sent, 128 + sent)
                if code not in expected_codes:
                    sys.exit(f"exit code {code} after {kills} kills:\n{(work / 'log').read_text()[-2000:]}")
                wrong = differences(expected, files(out, args.compare))
                if code == 0 and wrong:
                    sys.exit(f"after {kills} kills these files differ: {', '.join(wrong)}")
                # A command that was ended when all of its files were there has come to its end, too.
                if not wrong:
                    ends += 1
                    shutil.rmtree(out)
    print(f"{kills} kills, {ends} times to the end: {len(expected)} files, always the same bytes")


if __name__ == "__main__":
    main()
