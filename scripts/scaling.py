#!/usr/bin/env python3
"""Measures how polyglow's time and memory grow with threads, sequence length, vocabulary and corpus, as Markdown tables.

    pip install matplotlib  # for --plot only
    python scripts/scaling.py target/release/polyglow runs/multi30k-en-de \\
        --data datasets/multi30k-en-de/tok-lc/train --plot docs/scaling.svg
    python scripts/scaling.py target/release/polyglow runs/multi30k-en-de \\
        --data datasets/multi30k-en-de/tok-lc/train --tables corpus --largest 10000000

Each row is a process of its own, rows take turns, and the ratio to the row before is the median over the rounds. Beside
it stands the ratio that arithmetic predicts. For a training step that is the one of its floating-point operations, two
for each number that a matrix product multiplies, and the backward pass does twice what the forward pass does. With S
source and T target places in a batch, sentences of s and t, width d, inner width f, V tokens and L layers a side:

    encoder layer   S (4 d^2 + 2 d f + 2 d s)
    decoder layer   T (6 d^2 + 2 d f + 2 d (s + t)) + 2 S d^2
    step            6 (L encoder layers + L decoder layers + T d V)

Threads should divide the time by their number. A corpus is the text repeated, with a counter of eight digits at the end
of every line, so that no two are the same; its time should grow as its pairs do, since nothing is kept of a pair but its
lengths and its place. The corpora above a million pairs are measured once.
"""

import argparse
import json
import math
import pathlib
import tempfile

from measurement import describe, in_turns, machine, polyglow, ratio, read_lines, save, spread, table

TABLES = ("threads", "length", "vocabulary", "corpus")
# Width, inner width, layers of each side.
TINY, BASE = (128, 256, 4), (512, 2048, 6)
LENGTHS = [16, 32, 64, 128, 256, 512, 1024]
VOCABULARIES = [1000, 2000, 4000, 8000, 16000, 32000, 64000]
CORPORA = [10_000, 100_000, 1_000_000, 10_000_000]
ONCE_ABOVE = 1_000_000
COUNTER = "{} {:08d}\n"


def flops(sizes, shape, vocab_size):
    """Floating-point operations of a step, by the formula above."""
    (d_model, d_ff, num_layers), (rows, src_len, tgt_len) = sizes, shape
    src, tgt, inner = rows * src_len, rows * tgt_len, 2 * d_model * d_ff
    encoder = src * (4 * d_model**2 + inner + 2 * d_model * src_len)
    decoder = tgt * (6 * d_model**2 + inner + 2 * d_model * (src_len + tgt_len)) + 2 * src * d_model**2
    return 6 * (num_layers * (encoder + decoder) + tgt * d_model * vocab_size)


def step(options, name, sizes, shape, vocab_size, threads):
    """What to call to measure steps; `work` of its result is what the time should be proportional to."""
    operations = flops(sizes, shape, vocab_size)

    def run():
        command = ["bench", "step", "--json", "--repetitions", options.repetitions, "--shape", "x".join(map(str, shape)),
                   "--vocab-size", vocab_size, "--set", f"model.preset={'tiny' if sizes == TINY else 'base'}"]
        report = json.loads(polyglow(options.program, *command, threads=threads)[1])
        bucket = report["buckets"][0]
        if not math.isclose(bucket["flops"], operations):
            raise SystemExit(f"error: polyglow counts {bucket['flops']} operations where the formula gives {operations}")
        return {
            "row": name, "seconds": bucket["step"]["median"], "tokens_per_second": bucket["target_tokens_per_second"],
            "flops_per_second": bucket["flops_per_second"], "peak_memory": report["peak_memory"],
            "work": operations / threads,
        }

    return run


def corpus(options, directory, count):
    """What to call to measure the way of `count` pairs from text to batches."""
    prefix, config = directory / str(count), directory / f"{count}.toml"
    config.write_text(
        f"[data]\ntrain = '{prefix}'\nvalid = '{prefix}'\nsrc = 'src'\ntgt = 'tgt'\n[train]\nmax_steps = 1\n"
        f"[tokenizer]\npath = '{options.run / 'tokenizer.json'}'\n", encoding="utf-8",
    )
    for name, side in (("src", options.src), ("tgt", options.tgt)):
        lines = read_lines(f"{options.data}.{side}")
        with prefix.with_suffix(f".{name}").open("w", encoding="utf-8") as file:
            file.writelines(COUNTER.format(lines[place % len(lines)], place) for place in range(count))

    def run():
        report = json.loads(polyglow(options.program, "bench", "data", config, "--json", threads=options.threads)[1])
        cache = report["pairs"] / report["cache_pairs_per_second"]
        batches = report["batches"] / report["batches_per_second"]
        return {
            "row": count, "cache_seconds": cache, "plan_seconds": report["plan_seconds"], "batch_seconds": batches,
            "seconds": cache + report["plan_seconds"] + batches, "peak_memory": report["peak_memory"], "work": count,
            "tokens_per_second": report["target_tokens_per_second"],
        }

    return run


def subjects(options, directory, name):
    """What to measure for a table, by row."""
    if name == "threads":
        models = {"tiny 128x16x16": (TINY, (128, 16, 16), 9708), "base 40x25x25": (BASE, (40, 25, 25), 8000)}
        return {
            f"{model}, {threads}": step(options, f"{model}, {threads}", *shape, threads)
            for model, shape in models.items() for threads in options.thread_counts
        }
    if name == "length":
        shapes = [(max(options.tokens // length, 1), length, length) for length in LENGTHS]
        return {shape: step(options, "x".join(map(str, shape)), TINY, shape, 9708, options.threads) for shape in shapes}
    if name == "vocabulary":
        shape = (options.tokens // 32, 16, 16)
        return {size: step(options, size, TINY, shape, size, options.threads) for size in VOCABULARIES}
    return {count: corpus(options, directory, count) for count in CORPORA if count <= options.largest}


def measure(options, name, directory):
    """The rows of a table, with medians, and with the ratio to the row before, as measured and as predicted."""
    all_rows = subjects(options, directory, name)
    many = {row: run for row, run in all_rows.items() if name != "corpus" or row <= ONCE_ABOVE}
    found = in_turns(options.rounds, many)
    found |= in_turns(1, {row: run for row, run in all_rows.items() if row not in many})
    rows, before = [], None
    for measured in found.values():
        keys = [key for key in measured[0] if key not in ("row", "work")]
        row = {key: measured[0][key] for key in ("row", "work")}
        row |= {key: spread([one[key] for one in measured]) for key in keys}
        # The first row of another model has no row before it.
        if before and (name != "threads" or str(before[0]["row"]).split(",")[0] == str(row["row"]).split(",")[0]):
            seconds = [[one["seconds"] for one in side[:len(measured)]] for side in (measured, before)]
            row["ratio"] = ratio(*seconds)
            row["predicted"] = row["work"] / before[0]["work"]
        rows.append(row)
        before = measured
    return rows


def printed(name, rows):
    """A table of the medians, in seconds, and of the ratios with their spread."""
    if name == "corpus":
        header = ["pairs", "cache s", "µs/pair", "plan s", "batches s", "target tokens/s"]
        cells = [
            [row["row"], f"{row['cache_seconds']['median']:.2f}", f"{row['cache_seconds']['median'] / row['row'] * 1e6:.1f}",
             f"{row['plan_seconds']['median']:.3f}", f"{row['batch_seconds']['median']:.2f}",
             f"{row['tokens_per_second']['median']:.0f}"] for row in rows
        ]
    else:
        header = [name, "step s", "target tokens/s", "GFLOP/s"]
        cells = [
            [row["row"], f"{row['seconds']['median']:.3f}", f"{row['tokens_per_second']['median']:.0f}",
             f"{row['flops_per_second']['median'] / 1e9:.0f}"] for row in rows
        ]
    header += ["peak MiB", "times the row before", "predicted"]
    for row, line in zip(rows, cells, strict=True):
        line.append(f"{row['peak_memory']['median'] / 2**20:.0f}")
        has_ratio = "ratio" in row
        line.append("{median:.2f} ({least:.2f} to {most:.2f})".format(**row["ratio"]) if has_ratio else "")
        line.append(f"{row['predicted']:.2f}" if has_ratio else "")
    return table(header, cells)


def plot(tables, path):
    """Time against size, beside lines for what is predicted from the first row, on logarithmic axes."""
    import matplotlib.pyplot as plt

    shown = [name for name in TABLES[1:] if name in tables]
    figure, panels = plt.subplots(1, len(shown), figsize=(4.5 * len(shown), 3.5), squeeze=False, layout="constrained")
    sizes = {"length": LENGTHS, "vocabulary": VOCABULARIES, "corpus": CORPORA}
    for name, panel in zip(shown, panels[0], strict=True):
        rows = tables[name]
        places = sizes[name][:len(rows)]
        seconds = [row["seconds"] for row in rows]
        predicted = [seconds[0]["median"] * row["work"] / rows[0]["work"] for row in rows]
        panel.fill_between(places, [one["least"] for one in seconds], [one["most"] for one in seconds], alpha=0.25)
        panel.plot(places, [one["median"] for one in seconds], marker="o", label="measured")
        panel.plot(places, predicted, linestyle="--", color="gray", label="predicted from the first row")
        labels = {"length": "tokens in a sentence", "vocabulary": "tokens in the vocabulary", "corpus": "pairs"}
        panel.set(xscale="log", yscale="log", xlabel=labels[name],
                  ylabel="s for cache, plan and batches" if name == "corpus" else "s/step")
        panel.legend()
        panel.grid(alpha=0.3)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the polyglow program")
    parser.add_argument("run", type=pathlib.Path, help="a run, for its tokenizer")
    parser.add_argument("--data", required=True, help="the text to repeat, a prefix")
    parser.add_argument("--src", default="en")
    parser.add_argument("--tgt", default="de")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--threads", type=int, default=1, help="threads, except in the table of threads")
    parser.add_argument("--thread-counts", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a side in a batch; half of it for vocabularies")
    parser.add_argument("--repetitions", type=int, default=5, help="steps in a row of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="pairs of the largest corpus")
    parser.add_argument("--plot", metavar="FILE", help="draw the tables here, as SVG or PNG by the name")
    parser.add_argument("--json", metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    options.run = options.run.resolve()
    result = machine(options.threads) | {"tables": {}}
    print(describe(result))
    with tempfile.TemporaryDirectory() as directory:
        for name in options.tables:
            result["tables"][name] = measure(options, name, pathlib.Path(directory))
            print(f"\n{printed(name, result['tables'][name])}", flush=True)
    if options.plot:
        plot(result["tables"], options.plot)
    save(result, options.json)


if __name__ == "__main__":
    main()
