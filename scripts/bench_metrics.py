#!/usr/bin/env python3
"""Times `polyglow metrics` and sacreBLEU's command on the same files, the start of each program included.

    pip install sacrebleu==2.6.0
    cargo build --release -p polyglow
    python3 scripts/bench_metrics.py --polyglow target/release/polyglow

The text is drawn from a seed: sentences of words from a Zipf distribution, and hypotheses in which words are replaced,
left out, added, and phrases moved. The two commands run in turns; what counts is the ratio of their median times. A
ratio is printed only if both say the same score.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

VOCABULARY_SIZE = 20_000
SYLLABLES = ["ka", "ne", "ri", "to", "mu", "sol", "ber", "gin", "ta", "ve", "lo", "chen", "un", "ge", "schi", "er", "ab"]


def sentences(generator, num_lines):
    """Yields the words of each sentence, 4 to 44 and most often about 20, and the vocabulary they are drawn from."""
    words = ["".join(generator.choices(SYLLABLES, k=generator.randint(1, 4))) for _ in range(VOCABULARY_SIZE)]
    weights = [1 / (rank + 3) for rank in range(VOCABULARY_SIZE)]
    for _ in range(num_lines):
        length = int(generator.triangular(4, 44, 20))
        yield generator.choices(words, weights, k=length), words


def damaged(generator, words, vocabulary):
    """A translation that is mostly right: every tenth word is wrong, and a phrase is moved in every other sentence."""
    result = []
    for word in words:
        chance = generator.random()
        if chance < 0.06:
            result.append(generator.choice(vocabulary))
        elif chance < 0.09:
            result += [word, generator.choice(vocabulary)]
        elif chance >= 0.12:
            result.append(word)
    if generator.random() < 0.5 and len(result) > 6:
        start, length = generator.randrange(len(result) - 4), generator.randint(1, 4)
        phrase = result[start : start + length]
        del result[start : start + length]
        target = generator.randrange(len(result))
        result[target:target] = phrase
    return result


def line(words):
    """A sentence as it is written."""
    return " ".join(words).capitalize().replace(" un ", ", un ") + ".\n"


def write_text(folder, num_lines, seed):
    """Writes the files `hypotheses` and `references`."""
    generator = random.Random(seed)
    with open(folder / "hypotheses", "w") as hypotheses, open(folder / "references", "w") as references:
        for words, vocabulary in sentences(generator, num_lines):
            references.write(line(words))
            hypotheses.write(line(damaged(generator, words, vocabulary)))


def run(command):
    """Runs a command and returns its score and its time in seconds."""
    started = time.perf_counter()
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    seconds = time.perf_counter() - started
    return json.loads(output)["score"], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--polyglow", default="target/release/polyglow", help="the program")
    parser.add_argument("--sacrebleu", default=str(pathlib.Path(sys.executable).with_name("sacrebleu")))
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--metrics", nargs="+", default=["bleu", "chrf", "ter"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_text(folder, arguments.lines, seed=1)
        hypotheses, references = str(folder / "hypotheses"), str(folder / "references")
        for metric in arguments.metrics:
            options = ["--metrics", metric, "--width", "6"]
            commands = {
                "polyglow": [arguments.polyglow, "metrics", hypotheses, references, *options, "--json"],
                "sacrebleu": [arguments.sacrebleu, references, "-i", hypotheses, *options, "--format", "json"],
            }
            results = {program: [] for program in commands}
            for _ in range(arguments.runs):
                for program, command in commands.items():
                    results[program].append(run(command))
            scores = {score for pairs in results.values() for score, _ in pairs}
            if len(scores) != 1:
                sys.exit(f"error: the scores differ: {sorted(scores)}")
            medians = {program: statistics.median(time for _, time in pairs) for program, pairs in results.items()}
            print(
                f"{metric:<5} {arguments.lines} lines, score {scores.pop()}: "
                f"polyglow {medians['polyglow']:.3f} s, sacrebleu {medians['sacrebleu']:.3f} s, "
                f"ratio {medians['sacrebleu'] / medians['polyglow']:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
