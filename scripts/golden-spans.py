#!/usr/bin/env python3
"""Writes seqeval's spans and scores of random tagged sentences, for the tests of polyglow-metrics.

    pip install seqeval==1.2.2
    python3 scripts/golden-spans.py

It writes `scores.json` in crates/polyglow-metrics/tests/golden/spans. Of each sentence the file has
the tags of the hypothesis and of the reference, the reference's spans as seqeval's `get_entities`
gives them (kind, first and last token), and precision, recall and F1; then those of all sentences
and of some ranges of them. Many sentences are ill-formed on purpose, and some have tags that mark
no spans.
"""

import json
import pathlib
import random
import warnings

from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

CRATES = pathlib.Path(__file__).parent.parent / "crates"
GOLDEN = CRATES / "polyglow-metrics/tests/golden/spans/scores.json"
SENTENCES, RANGES, LONGEST = 1000, 40, 9

KINDS = ["PER", "LOC", "ORG"]
PARTS_OF_SPEECH = "NOUN NOUN VERB DET PUNCT SYM X O INTJ NP-SBJ . , ``".split()
ODD_TAGS = (
    "B I E S B- I- - -- -PER O-PER .-PER b-PER i-PER BPER B-PER-LOC I-PER-LOC L-PER U-PER M-PER "
    "B_PER Ä-PER B-Ä I-Ä 人 B-人 _ B-_ PER-B PER"
).split()


def marked(rng, length, scheme):
    """Tags of a scheme, as they should be."""
    tags = []
    while len(tags) < length:
        size = min(rng.choice([1, 1, 2, 3]), length - len(tags))
        kind = rng.choice(KINDS)
        if rng.random() < 0.4:
            tags += ["O"] * size
        elif scheme == "IOB2":
            tags += [f"B-{kind}"] + [f"I-{kind}"] * (size - 1)
        elif scheme == "IOB1":
            first = "B" if tags and tags[-1].endswith(kind) else "I"
            tags += [f"{first}-{kind}"] + [f"I-{kind}"] * (size - 1)
        elif scheme == "IOE2":
            tags += [f"I-{kind}"] * (size - 1) + [f"E-{kind}"]
        elif size == 1:
            tags.append(f"S-{kind}")
        else:
            tags += [f"B-{kind}"] + [f"I-{kind}"] * (size - 2) + [f"E-{kind}"]
    return tags


def any_tag(rng, family):
    if family == "prefixes":
        prefix = rng.choice("BIIESO")
        return "O" if prefix == "O" else f"{prefix}-{rng.choice(KINDS[:2])}"
    if family == "parts of speech":
        return rng.choice(PARTS_OF_SPEECH)
    if rng.random() < 0.6:
        return rng.choice(ODD_TAGS)
    return any_tag(rng, rng.choice(["prefixes", "parts of speech"]))


def sentence(rng):
    """The hypothesis and the reference, of equal length."""
    length = rng.randint(0, LONGEST) if rng.random() < 0.9 else 1
    family = rng.choice(["prefixes", "parts of speech", "odd"])
    if rng.random() < 0.4:
        family = "prefixes"
        reference = marked(rng, length, rng.choice(["IOB2", "IOB1", "IOE2", "IOBES"]))
    else:
        reference = [any_tag(rng, family) for _ in range(length)]
    changed = rng.choice([0.0, 0.1, 0.3, 1.0])
    hypothesis = [any_tag(rng, family) if rng.random() < changed else tag for tag in reference]
    return hypothesis, reference


def scores(hypotheses, references):
    metrics = [precision_score, recall_score, f1_score]
    return [float(metric(references, hypotheses)) for metric in metrics]


def line(values):
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def main():
    warnings.simplefilter("ignore")
    rng = random.Random(46)
    sentences = [sentence(rng) for _ in range(SENTENCES)]
    hypotheses, references = zip(*sentences)
    hypotheses, references = list(hypotheses), list(references)
    ranges = [[0, SENTENCES]]
    for _ in range(RANGES):
        start = rng.randrange(SENTENCES)
        ranges.append([start, rng.randint(start + 1, min(start + 60, SENTENCES))])
    sentence_lines = []
    for hypothesis, reference in sentences:
        tags = [" ".join(hypothesis), " ".join(reference)]
        values = scores([hypothesis], [reference])
        sentence_lines.append(line([*tags, get_entities(reference), *values]))
    range_lines = []
    for start, end in ranges:
        values = scores(hypotheses[start:end], references[start:end])
        range_lines.append(line([start, end, *values]))
    parts = (",\n".join(sentence_lines), ",\n".join(range_lines))
    text = '{"sentences":[\n%s\n],"ranges":[\n%s\n]}\n' % parts
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
