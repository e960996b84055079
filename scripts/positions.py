#!/usr/bin/env python3
"""Compares ways to say where a token stands: sinusoidal, learned and rotary positions, and none at all.

    pip install matplotlib  # for --plot only
    python3 scripts/positions.py target/release/polyglow --plot docs/positions.svg --json positions.json

Trains configs/digits.toml and configs/quickstart.toml with each kind of position and several seeds, and scores them on
what is as long as the training text (`test`), and on what is longer or deeper (`test_long`, `test_deep`). Prints
Markdown tables with the mean over the seeds, and the least and the most.
"""

import argparse
import json
import pathlib
import tempfile

from measurement import describe, machine, polyglow, save, spread, table

KINDS = ["sinusoidal", "learned", "rotary", "none"]
CORPORA = {
    "digits": ("configs/digits.toml", ["test", "test_long"], ["exact_match", "token_accuracy"]),
    "mini-en-de": ("configs/quickstart.toml", ["test", "test_deep"], ["bleu", "token_accuracy"]),
}
NAMES = {"exact_match": "exact match", "token_accuracy": "token accuracy", "bleu": "BLEU"}


def measure(options, corpus, kind, seed, directory):
    """The scores on each set of a training with one kind of position and one seed."""
    config, sets, keys = CORPORA[corpus]
    run = pathlib.Path(directory) / f"{corpus}-{kind}-{seed}"
    settings = ["--set", f"model.position={kind}", "--set", f"seed={seed}"]
    if options.steps:
        settings += ["--set", f"train.max_steps={options.steps}"]
    polyglow(options.program, "-q", "train", config, "--run", run, *settings, threads=options.threads)
    scores = {}
    for name in sets:
        _, output = polyglow(options.program, "-q", "evaluate", run, "--split", name, "--json", threads=options.threads)
        found = json.loads(output)
        scores[name] = {key: found[key] for key in keys}
    return scores


def collect(options):
    """The scores by corpus, set, key and kind, one for each seed."""
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for corpus, (_, sets, keys) in CORPORA.items():
            found[corpus] = {name: {key: {kind: [] for kind in KINDS} for key in keys} for name in sets}
            for seed in range(1, options.seeds + 1):
                for kind in KINDS:
                    scores = measure(options, corpus, kind, seed, directory)
                    for name, values in scores.items():
                        for key, value in values.items():
                            found[corpus][name][key][kind].append(value)
    return found


def columns(found):
    """What a table has a column for: set and key, with its scores by kind."""
    return [(name, key, kinds) for name, keys in found.items() for key, kinds in keys.items()]


def cell(values, digits):
    """The mean of some scores, and the least and the most."""
    figures = spread(values)
    mean = sum(values) / len(values)
    return f"{mean:.{digits}f} ({figures['least']:.{digits}f} to {figures['most']:.{digits}f})"


def written(found):
    """A Markdown table of a corpus."""
    header = ["position", *(f"{NAMES[key]} on `{name}`" for name, key, _ in columns(found))]
    rows = [
        [kind, *(cell(kinds[kind], 1 if key == "bleu" else 3) for _, key, kinds in columns(found))] for kind in KINDS
    ]
    return table(header, rows)


def plot(found, path):
    """A panel for each corpus and score: bars for the sets, a dot for each seed."""
    import matplotlib.pyplot as plt

    panels = [(corpus, key) for corpus, (_, _, keys) in CORPORA.items() for key in keys]
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.2), layout="constrained")
    for axis, (corpus, key) in zip(axes, panels, strict=True):
        sets = list(found[corpus])
        for place, name in enumerate(sets):
            kinds = found[corpus][name][key]
            offsets = [at + 0.4 * place - 0.2 for at in range(len(KINDS))]
            axis.bar(offsets, [sum(kinds[kind]) / len(kinds[kind]) for kind in KINDS], 0.38, label=f"`{name}`")
            for offset, kind in zip(offsets, KINDS, strict=True):
                axis.plot([offset] * len(kinds[kind]), kinds[kind], "k.", markersize=3)
        axis.set_xticks(range(len(KINDS)), KINDS, rotation=20)
        axis.set(title=f"{corpus}: {NAMES[key]}", ylim=(0, 100 if key == "bleu" else 1))
        axis.legend(fontsize="small")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the polyglow program")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind on each corpus")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="in place of the configs' own, to try the script")
    parser.add_argument("--plot", metavar="FILE", help="draw the scores here, as SVG or PNG by the name")
    parser.add_argument("--json", metavar="FILE", help="write all scores here, too")
    options = parser.parse_args()
    result = {"machine": machine(options.threads), "scores": collect(options)}
    print(describe(result["machine"]))
    for corpus, found in result["scores"].items():
        print(f"\n{corpus}, {options.seeds} seeds: the mean, and the least to the most\n\n{written(found)}")
    if options.plot:
        plot(result["scores"], options.plot)
    save(result, options.json)


if __name__ == "__main__":
    main()
