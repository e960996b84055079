"""What the benchmarks share: taking turns, spreads, tables, the environment of a program, and a word on the machine."""

import contextlib
import gzip
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time


def in_turns(rounds, subjects):
    """Calls every subject once in each round, so that all of them meet the same machine; the results by name."""
    results = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, measure in subjects.items():
            results[name].append(measure())
    return results


def spread(values):
    """The median, the least and the most of some numbers."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratio(ours, theirs):
    """Ours to theirs, round by round: neighbors in time are compared, and then the median of the ratios is taken."""
    return spread([left / right for left, right in zip(ours, theirs, strict=True)])


def written(figures, digits=0):
    """A spread as text: the median, and the least to the most."""
    return "{median:.{0}f} ({least:.{0}f} to {most:.{0}f})".format(digits, **figures)


def table(header, rows):
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def environment(threads):
    """The variables of a process in which every library that is measured here runs so many threads."""
    count = str(threads)
    return os.environ | {
        "RAYON_NUM_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count,
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
    }


def polyglow(program, *arguments, threads):
    """Runs polyglow; its seconds, from start to end, and what it prints."""
    command = [str(program), *map(str, arguments)]
    started = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment(threads))
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"error: `{' '.join(command)}` failed:\n{done.stderr}")
    return seconds, done.stdout


def translation(program, run, file, threads, *options):
    """Seconds to translate a file with a run, without starting the program and reading the model, and the lines.

    The file and its first line alone are timed, and the difference counts.
    """
    command = ["-q", "translate", run, *options]
    with tempfile.TemporaryDirectory() as directory:
        first = pathlib.Path(directory) / "first"
        first.write_text(read_lines(file)[0] + "\n", encoding="utf-8")
        seconds, output = polyglow(program, *command, file, threads=threads)
        start, _ = polyglow(program, *command, first, threads=threads)
    return seconds - start, output.splitlines()


def read_lines(path):
    """The lines of a text file, or of the same with `.gz`."""
    path = pathlib.Path(path)
    packed = path if path.suffix == ".gz" else path.with_name(path.name + ".gz")
    data = path.read_bytes() if path.exists() and path != packed else gzip.decompress(packed.read_bytes())
    return data.decode("utf-8").removesuffix("\n").split("\n")


def machine(threads):
    """What the figures depend on, beside the programs: processor, cores, load and the commit of this checkout."""
    name = platform.processor()
    with contextlib.suppress(OSError):
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    affinity = getattr(os, "sched_getaffinity", None)
    git = ["git", "-C", pathlib.Path(__file__).parent, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "processor": name, "cores": os.cpu_count(), "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": threads, "load_average": os.getloadavg()[0], "commit": commit, "python": platform.python_version(),
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }


def versions(*packages):
    """The installed version of each package."""
    return {package: importlib.metadata.version(package) for package in packages}


def describe(result):
    """One line on a machine, as `machine` tells it."""
    return (f"{result['processor']}, {result['usable_cores']} of {result['cores']} cores, {result['threads']} threads, "
            f"load {result['load_average']:.1f} at the start, commit {result['commit']}, {result['time']}")


def save(result, path):
    """Writes a result as JSON where a file is named."""
    if path:
        pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
