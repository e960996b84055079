#!/usr/bin/env python3
"""Writes the probabilities that KenLM gives to the embedded corpora, for the n-gram models of polyglow-data to compare with.

    pip download --no-deps --no-binary :all: kenlm==0.3.0            # build `lmplz` from it with cmake and Boost
    pip install kenlm==0.3.0
    polyglow corpus mini-en-de DIR/mini-en-de; polyglow corpus digits DIR/digits
    python3 scripts/golden-ngram.py LMPLZ DIR                        # writes crates/polyglow-data/tests/golden/ngram.json

Models are learned from the target side of `train`. The fifth word of each sentence that is scored is unknown to them.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import kenlm

GOLDEN = pathlib.Path(__file__).parent.parent / "crates/polyglow-data/tests/golden/ngram.json"
CASES = [("mini-en-de", "de", "valid", order) for order in (2, 3, 5)] + [("digits", "reversed", "test_long", 4)]
SENTENCES = 30


def main(lmplz, corpora):
    golden = []
    for corpus, ending, split, order in CASES:
        folder = pathlib.Path(corpora) / corpus
        with tempfile.NamedTemporaryFile(suffix=".arpa") as arpa:
            with open(folder / f"train.{ending}", encoding="utf-8") as text:
                command = [lmplz, "-o", str(order), "--discount_fallback", "-S", "10%"]
                subprocess.run(command, stdin=text, stdout=arpa, check=True)
            header = pathlib.Path(arpa.name).read_text(encoding="utf-8").split("\\1-grams:")[0]
            counts = [int(count) for count in re.findall(r"ngram \d+=(\d+)", header)]
            # Ours has no entry for the unknown word, which never occurs.
            counts[0] -= 1
            model = kenlm.Model(arpa.name)
        sentences = (folder / f"{split}.{ending}").read_text(encoding="utf-8").splitlines()[:SENTENCES]
        log10 = []
        for sentence in sentences:
            words = sentence.split(" ")
            words[4:5] = ["-unknown-"] * len(words[4:5])
            log10.append([round(score, 7) for score, _, _ in model.full_scores(" ".join(words))])
        case = {"corpus": corpus, "split": split, "order": order, "num_ngrams": counts, "log10": log10}
        golden.append(json.dumps(case))
    GOLDEN.write_text("[\n" + ",\n".join(golden) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
