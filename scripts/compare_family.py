#!/usr/bin/env python3
"""Scores the runs of scripts/compare-family.sh: Markdown tables, and plots of scores by sentence length.

    pip install matplotlib  # for --plot only
    python3 scripts/compare_family.py target/release/polyglow family --plot docs/family.svg --json family.json

A row is the checkpoint with the best validation BLEU, searched with the config's beam. The alignment error rate is that
of attention to the source against the gold alignments of mini-en-de, of the best decoder layer. Tokens per second are
target tokens of the training, without padding, validations left out. Sentences are put into classes by the words of
their source, so that each class has a fair share of them; a class is scored by exact match, or by BLEU.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

from measurement import describe, machine, polyglow, read_lines, save, table

NAMES = {"exact_match": "exact match", "bleu": "BLEU"}
MODELS = {
    "rnn": "GRU, no attention", "rnn-tanh": "tanh network, attention", "rnn-bahdanau": "GRU, Bahdanau's decoder",
    "rnn-attention": "GRU, Luong's decoder", "transformer": "Transformer",
}
SETS = {"mini-en-de": ["test", "test_comp", "test_deep"], "multi30k": ["test"]}
CLASSES = 6


def scored_by(corpus, name):
    """What a class of sentences is scored by: text has many right translations, and deep nesting hardly gets one."""
    return "exact_match" if corpus == "mini-en-de" and name != "test_deep" else "bleu"


def rate(run):
    """Target tokens per second of a training, the median over its reports."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return statistics.median(record["tokens_per_second"] for record in records if record["kind"] == "train")


def sources_and_references(run, name, corpora, options):
    """Both sides of a set, of the embedded corpus or of the files that the run's config names, and what `info` says."""
    info = json.loads(polyglow(options.program, "info", run, "--json", threads=options.threads)[1])
    data = info["config"]["data"]
    if "corpus" in data:
        folder = corpora / data["corpus"]
        if not folder.exists():
            polyglow(options.program, "-q", "corpus", data["corpus"], folder, threads=options.threads)
        prefix, endings = folder / name, ("en", "de")
    else:
        prefix, endings = data[name], (data["src"], data["tgt"])
    return [read_lines(f"{prefix}.{ending}") for ending in endings], info


def bleu(rows, tokenize, folder, options):
    """BLEU of some (length, hypothesis, reference)."""
    files = [folder / "hypotheses", folder / "references"]
    for column, file in enumerate(files, start=1):
        file.write_text("".join(row[column] + "\n" for row in rows), encoding="utf-8")
    command = ["-q", "metrics", *files, "--tokenize", tokenize, "--score-only", "--width", "2"]
    return float(polyglow(options.program, *command, threads=options.threads)[1])


def by_length(sources, references, hypotheses, score_bleu):
    """Scores by the number of source words, in classes of about equal size."""
    rows = sorted((len(src.split()), hyp, ref) for src, ref, hyp in zip(sources, references, hypotheses, strict=True))
    classes, taken, size = [], 0, -(-len(rows) // CLASSES)
    while taken < len(rows):
        # A rest that would be too small for a class of its own goes with the last one.
        end = taken + size if taken + size + size // 2 < len(rows) else len(rows)
        while end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        part = rows[taken:end]
        exact_match = sum(hypothesis == reference for _, hypothesis, reference in part) / len(part)
        classes.append({
            "longest": part[-1][0], "sentences": len(part), "exact_match": exact_match, "bleu": score_bleu(part),
        })
        taken = end
    return classes


def score(run, corpus, corpora, options):
    """All scores of a run."""
    found = {"seconds": int((run / "seconds").read_text()), "tokens_per_second": rate(run), "sets": {}}
    for name in SETS[corpus]:
        gold = ["--alignments", "gold"] if corpus == "mini-en-de" and run.name != "rnn" else []
        command = ["-q", "evaluate", run, "--split", name, "--json", *gold]
        scores = json.loads(polyglow(options.program, *command, threads=options.threads)[1])
        (sources, references), info = sources_and_references(run, name, corpora, options)
        found["parameters"], tokenize = info["parameters"], info["config"]["train"]["tokenize"]
        file = corpora / f"{corpus}.{name}"
        file.write_text("\n".join(sources) + "\n", encoding="utf-8")
        hypotheses = polyglow(options.program, "-q", "translate", run, file, threads=options.threads)[1].splitlines()
        found["sets"][name] = {
            "bleu": scores["bleu"], "exact_match": scores["exact_match"],
            "aer": min(scores.get("alignment_error_rates", []), default=None),
            "by_length": by_length(
                sources, references, hypotheses, lambda rows: bleu(rows, tokenize, corpora, options)
            ),
        }
    return found


def written(results, sets):
    """A Markdown table of a corpus."""
    header = ["model", "parameters", "training tokens/s"]
    for name in sets:
        header += [f"BLEU on `{name}`", "exact match", "AER"]
    rows = []
    for model, found in results.items():
        row = [MODELS[model], f"{found['parameters']:,}", f"{found['tokens_per_second']:.0f}"]
        for name in sets:
            scores = found["sets"][name]
            aer = "" if scores["aer"] is None else f"{scores['aer']:.3f}"
            row += [f"{scores['bleu']:.1f}", f"{scores['exact_match']:.3f}", aer]
        rows.append(row)
    return table(header, rows)


def written_by_length(results, name, key):
    """A Markdown table of a score by sentence length."""
    first = next(iter(results.values()))["sets"][name]["by_length"]
    header = ["words of the source, at most", *(str(one["longest"]) for one in first)]
    rows = [["sentences", *(str(one["sentences"]) for one in first)]]
    for model, found in results.items():
        digits = 1 if key == "bleu" else 2
        rows.append([MODELS[model], *(f"{one[key]:.{digits}f}" for one in found["sets"][name]["by_length"])])
    return table(header, rows)


def plot(scores, path):
    """A panel for each set: a score by the length of the source."""
    import matplotlib.pyplot as plt

    panels = [(corpus, name) for corpus in scores for name in SETS[corpus]]
    figure, axes = plt.subplots(1, len(panels), figsize=(3.4 * len(panels), 3.2), squeeze=False, layout="constrained")
    for axis, (corpus, name) in zip(axes[0], panels, strict=True):
        key = scored_by(corpus, name)
        for model, found in scores[corpus].items():
            classes = found["sets"][name]["by_length"]
            axis.plot([one["longest"] for one in classes], [one[key] for one in classes], marker="o",
                      label=MODELS[model])
        axis.set(title=f"{corpus}, {name}", xlabel="words of the source, at most", ylabel=NAMES[key])
        axis.set_ylim(0, 1 if key == "exact_match" else None)
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize="small")
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the polyglow program")
    parser.add_argument("directory", type=pathlib.Path, help="where the runs are")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", metavar="FILE", help="draw scores by length here, as SVG or PNG by the name")
    parser.add_argument("--json", metavar="FILE", help="write all scores here, too")
    options = parser.parse_args()
    scores = {}
    with tempfile.TemporaryDirectory() as corpora:
        for corpus in SETS:
            runs = [options.directory / corpus / model for model in MODELS]
            if all(run.exists() for run in runs):
                scores[corpus] = {run.name: score(run, corpus, pathlib.Path(corpora), options) for run in runs}
    if not scores:
        parser.error(f"`{options.directory}` has no runs of all three models; scripts/compare-family.sh makes them")
    result = {"machine": machine(options.threads), "scores": scores}
    print(describe(result["machine"]))
    for corpus, results in scores.items():
        seconds = next(iter(results.values()))["seconds"]
        print(f"\n{corpus}, {seconds} seconds of training each\n\n{written(results, SETS[corpus])}")
        for name in SETS[corpus]:
            key = scored_by(corpus, name)
            print(f"\n{NAMES[key]} on `{name}` of {corpus}\n\n{written_by_length(results, name, key)}")
    if options.plot:
        plot(scores, options.plot)
    save(result, options.json)


if __name__ == "__main__":
    main()
