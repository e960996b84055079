#!/usr/bin/env python3
"""Writes what sacreBLEU says about a few texts, for the tests of polyglow-metrics and `polyglow metrics` to compare with.

    pip install sacrebleu==2.6.0
    python3 scripts/golden-metrics.py                                # writes crates/polyglow*/tests/golden/*.json
    python3 scripts/golden-metrics.py --random SEED LINES            # prints one random text with its scores
    python3 scripts/golden-metrics.py --random-commands SEED LINES   # prints what the command prints about another

`polyglow/tests/golden/metrics.json` holds a few files and what sacreBLEU's own command prints about them. Each other file holds one text, its hypotheses and references, and for every metric and choice of options the corpus score,
the sentence scores and the signature. All numbers come from sacreBLEU; nothing here computes a score.
"""

import argparse
import json
import logging
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

VERSION = "2.6.0"
CRATES = pathlib.Path(__file__).parent.parent / "crates"
GOLDEN = CRATES / "polyglow-metrics/tests/golden"
GOLDEN_COMMANDS = CRATES / "polyglow/tests/golden/metrics.json"

BLEU_OPTIONS = [
    *({"tokenize": name} for name in ("13a", "intl", "char", "zh", "none")),
    {"tokenize": "intl", "lowercase": True},
    *(
        {"smooth_method": method, "smooth_value": value, "effective_order": effective}
        for method, value in (
            ("exp", None), ("floor", None), ("floor", 0.0), ("floor", 0.01), ("add-k", None), ("add-k", 0.5),
            ("none", None),
        )
        for effective in (False, True)
    ),
    {"max_ngram_order": 1},
    {"max_ngram_order": 6, "effective_order": True},
]
CHRF_OPTIONS = [
    {},
    {"word_order": 2},
    {"word_order": 2, "lowercase": True},
    {"whitespace": True},
    {"eps_smoothing": True},
    {"word_order": 2, "eps_smoothing": True},
    {"char_order": 0, "word_order": 1},
    {"char_order": 9, "word_order": 3, "beta": 3},
    {"char_order": 1, "beta": 0},
]
TER_OPTIONS = [
    {},
    {"case_sensitive": True},
    {"normalized": True},
    {"no_punct": True},
    {"normalized": True, "asian_support": True},
    {"no_punct": True, "asian_support": True},
    {"normalized": True, "no_punct": True, "asian_support": True, "case_sensitive": True},
]

ENGLISH = (
    """The council approved the plan on Tuesday, after three hours of debate.
"We can't wait any longer," she said.
Prices rose by 3.5% to $1,299.00 in 2023-24.
The ship's captain's log was found (unopened) in the archive.
He left at 5.
Nobody knows why; nobody asked -- not even the well-known e-mail team.
AT&amp;T and R&amp;D cost &lt;10&gt; &quot;units&quot; <skipped> each.
The old bridge across the river was closed for repairs last winter.
It rained all day.
yes
Around 1.000.000 people, i.e. 12,5 percent, live in the capital today.
the the the the the the the""".split("\n"),
    """On Tuesday the council approved the plan after three hours of debate.
"We cannot wait any longer", she said.
Prices went up by 3.5% to $1,299 in 2023-24.
The captain's log of the ship was found, unopened, in the archives.
He left at 5 .
No one knows why; no one asked -- not even the well known e-mail team.
AT&T and R&D cost <10> "units" each.
Last winter the old bridge across the river was closed for repair.
It rained the whole day.
no
About 1.000.000 people, that is 12.5 percent, live today in the capital.
the cat is on the mat""".split("\n"),
    """The plan was approved by the council on Tuesday after a three-hour debate.
"We can wait no longer," she said.
Prices rose 3.5 % to 1,299.00 $ in 2023/24.
The log of the ship's captain was found (unopened) in an archive.
At 5, he left.
Nobody knows why, and nobody asked - not even the famous email team!
AT&T and R&D cost <10> units each.
The old river bridge was closed last winter for repairs.
Rain fell all day long.
yes, yes
Around one million people, i.e., 12.5 percent, live in the capital today.
there is a cat on the mat""".split("\n"),
)
CHINESE = (
    ["他在2019年去了北京。", "我喜欢吃苹果,香蕉和PEAR!", "今天天气很好", "“你好”——他说…", "これはペンです。", "カタカナ と ひらがな",
     "㈱東京 ㌔ １２３", "𠀀𠀁 不是 BMP", "Größe: 5 ℃ → 10 ℃", "한국어 문장입니다."],
    ["2019年他去了北京。", "我爱吃苹果、香蕉和pear!", "今天的天气真好。", "“您好”，他说……", "それはペンです。", "ひらがな と カタカナ",
     "東京㈱ ㌔ １２３４", "𠀁𠀀 不在 BMP 里", "Größe: 5 ℃ bis 10 ℃", "이것은 한국어 문장입니다."],
)
EDGES = (
    ["", "a", " \t", "", "ΟΔΟΣ ΣΑΣ", "İstanbul DŽ ẞ", "a\u001cb\u001fc\u0085d\u00a0e\u200bf\u2028g\ufeff", "a-\nb\nc",
     "x.", ".5,6.7,", "1-2 3- -4 5-", "... ,,, .,.", "(a) \"b\" 'c' d's e's", "b a", "a b c d e f g h", "&amp;amp; &quot",
     "a b", "🏳️‍🌈 é é"],
    ["", "", "a b", "a", "οδος σας", "i̇stanbul dž ß", "a b c d e\u200bf g", "a-b c",
     "x .", ".5, 6.7 ,", "1-2 3-4 5 -", "..., ,., .", "a b c d's e", "a b", "e f g h a b c d", "&amp; \"",
     "a b c", "🏳️‍🌈 é é"],
    ["", "b", "", "", "ΟΔΟΣ", "istanbul", "abcdefg", "a b c",
     "y.", "0.5", "1 - 2", "", "b", "c", "a b c d e f h g", "&",
     "a", "x"],
)


def random_text(generator, num_lines, num_streams=3):
    """Makes streams of random characters in which each line is a shuffled and damaged copy of that in the one before."""
    pieces = [
        *"aaeeiinnrstAEST", *"0123459", *".,-.,-'\"!?()&;:%$/<>_", "'s", "&amp;", "&lt;", "<skipped>", ".5", "1-",
        *"ΣσςΑΟΔİßſǅ", *"äöüéñæ", *"中文字日本語、。，「」", *"ひらカタ한글", *"«»„“–—…¿€£±×→°²½٣४", *"𝔘🙂\u0301\u200b\u200d\ufeff\u00ad",
        *"\u001c\u001d\u001e\u001f\u0085\u00a0\u1680\u2003\u2028\u3000\t\n",
    ]

    def piece():
        if generator.random() < 0.9:
            return generator.choice(pieces)
        while True:
            character = chr(generator.randrange(0x110000 if generator.random() < 0.3 else 0x3400))
            if unicodedata.category(character) not in ("Cn", "Cs"):
                return character

    def word():
        return "".join(piece() for _ in range(generator.choice((1, 1, 1, 2, 3, 5, 8))))

    def damaged(line):
        words = line.split(" ")
        for _ in range(generator.randrange(4)):
            start = generator.randrange(len(words))
            end = start + generator.randrange(5)
            block, words = words[start:end], words[:start] + words[end:]
            action = generator.randrange(4)
            if action == 0:
                block = [word() for _ in block]
            elif action == 1:
                block = [text.swapcase() for text in block]
            target = generator.randrange(len(words) + 1)
            words = words[:target] + (block if action else []) + words[target:]
            words = words or [""]
        return " ".join(words)

    streams = [[] for _ in range(num_streams)]
    for _ in range(num_lines):
        vocabulary = [word() for _ in range(generator.choice((1, 5, 40)))]
        # sacreBLEU takes seconds for the TER of a long line with many equal words, so there are few of them.
        length = generator.choice((0, 1, 3, 5, 5, 8, 8, 12, 20)) if generator.random() < 0.98 else 70
        line = " ".join(generator.choice(vocabulary) for _ in range(length))
        for stream in streams:
            line = damaged(line)
            stream.append(line)
    return streams


def scores(metric, kwargs, hypotheses, references):
    """Scores the corpus and its sentences."""
    score = metric.corpus_score(hypotheses, references)
    signature = str(metric.get_signature())
    sentences = [metric.sentence_score(hyp, refs).score for hyp, *refs in zip(hypotheses, *references)]
    return {
        "options": {key: value for key, value in kwargs.items() if value is not None},
        "signature": signature.removesuffix(f"|version:{VERSION}"),
        "line": str(score),
        "score": score.score,
        "sentences": sentences,
    }


def golden(hypotheses, *references):
    """Everything sacreBLEU says about one text."""
    references = [list(stream) for stream in references]
    bleu = []
    for kwargs in BLEU_OPTIONS:
        metric = BLEU(force=True, **kwargs)
        case = scores(metric, kwargs, hypotheses, references)
        score = metric.corpus_score(hypotheses, references)
        bleu.append({
            **case, "precisions": list(score.precisions), "bp": score.bp, "sys_len": score.sys_len,
            "ref_len": score.ref_len,
        })
    return {
        "hypotheses": hypotheses,
        "references": references,
        "tokens": {
            name: [BLEU(tokenize=name).tokenizer(line).split() for line in hypotheses]
            for name in ("13a", "intl", "char", "zh", "none")
        },
        "bleu": bleu,
        "chrf": [scores(CHRF(**kwargs), kwargs, hypotheses, references) for kwargs in CHRF_OPTIONS],
        "ter": [scores(TER(**kwargs), kwargs, hypotheses, references) for kwargs in TER_OPTIONS],
    }


def significance(num_samples, num_trials, seed, *streams):
    """What the paired tests say about a baseline and a system, the first two streams; the others are references."""
    os.environ["SACREBLEU_SEED"] = str(seed)
    first, second, *references = [list(stream) for stream in streams]
    systems = [first, second]
    tests = []
    for name, metric, kwargs in (
        ("bleu", BLEU, {"smooth_method": "exp"}),
        ("bleu", BLEU, {"smooth_method": "floor"}),
        ("bleu", BLEU, {"smooth_method": "add-k", "smooth_value": 0.5, "effective_order": True}),
        ("chrf", CHRF, {}),
        ("chrf", CHRF, {"word_order": 2, "eps_smoothing": True}),
        ("ter", TER, {}),
    ):
        def paired(test_type, number, num_resamples=-1):
            named = [(str(index), lines) for index, lines in enumerate(systems)]
            metrics = {name: metric(**kwargs)}
            test = PairedTest(named, metrics, references, test_type, number, num_resamples)
            signatures, scores = test()
            ((key, signature),) = signatures.items()
            keys = ("score", "p_value", "mean", "ci")
            results = [{k: getattr(result, k) for k in keys} for result in scores[key]]
            results = [{k: v if v is None else float(v) for k, v in result.items()} for result in results]
            return {"signature": str(signature).removesuffix(f"|version:{VERSION}"), "results": results}

        single = metric(**kwargs)
        line = single.corpus_score(systems[0], references, n_bootstrap=num_samples).format(
            width=6, signature=str(single.get_signature()))
        tests.append({
            "metric": name,
            "options": kwargs,
            "line": line.replace(f"|version:{VERSION}", ""),
            "bootstrap": paired("bs", num_samples),
            "randomization": paired("ar", num_trials, num_samples),
        })
    return {
        "systems": systems, "references": references, "num_samples": num_samples, "num_trials": num_trials, "seed": seed,
        "tests": tests,
    }


def command_cases():
    """What the command is asked: references, systems, options, and whether the answer is JSON."""
    one, two = ["reference"], ["reference", "other-reference"]
    system, systems = ["hypothesis"], ["hypothesis", "system", "other-reference"]
    every_metric = ["--metrics", "ter", "bleu", "chrf"]
    for as_json in (False, True):
        for options in (
            [], every_metric, ["--width", "0"], [*every_metric, "--width", "5"], ["--score-only"],
            [*every_metric, "--score-only", "--width", "3"], ["--confidence"],
            [*every_metric, "--confidence", "--confidence-n", "50", "--width", "4"],
        ):
            yield two, system, options, as_json
        yield one, systems, every_metric, as_json
        yield one, systems, [*every_metric, "--paired-ar", "--paired-ar-n", "60"], as_json
        # With numpy 2, the command cannot write the JSON of a bootstrap test of chrF or TER.
        metrics = [] if as_json else every_metric
        yield one, systems, [*metrics, "--paired-bs", "--paired-bs-n", "60", "--width", "2"], as_json
    yield one, systems, ["--paired-bs", "--paired-bs-n", "60", "--short"], False
    yield two, system, [*every_metric, "--confidence", "--score-only"], False
    for metric in ("bleu", "chrf", "ter"):
        for options in ([], ["--score-only", "--width", "4"], ["--short"]):
            yield two, system, ["--metrics", metric, "--sentence-level", *options], False
    for options in (
        *(["--tokenize", name] for name in ("intl", "char", "zh", "none")),
        ["--lowercase"], ["--smooth-method", "floor"], ["--smooth-method", "add-k", "--smooth-value", "0.5"],
        ["--smooth-method", "none", "--short"],
        ["--metrics", "chrf", "--chrf-char-order", "3", "--chrf-word-order", "2", "--chrf-beta", "3"],
        ["--metrics", "chrf", "--chrf-whitespace", "--chrf-lowercase", "--chrf-eps-smoothing"],
        ["--metrics", "ter", "--ter-case-sensitive", "--ter-no-punct"],
        ["--metrics", "ter", "--ter-asian-support", "--ter-normalized"],
    ):
        yield one, system, [*options, "--width", "4"], False
    yield ["tabs"], system, [*every_metric, "--num-refs", "2", "--width", "4"], False


def commands(hypothesis, system, reference, other_reference):
    """What sacreBLEU's command prints about the lines of two systems and two references."""
    tabs = [first.replace("\t", " ") + "\t" + second for first, second in zip(reference, other_reference)]
    # A last reference that is blank would be cut off with its tab.
    tabs = [line if line.rstrip() == line else line + "x" for line in tabs]
    streams = {
        "hypothesis": hypothesis, "system": system, "reference": reference, "other-reference": other_reference,
        "tabs": tabs,
    }
    files = {name: "".join(line + "\n" for line in stream) for name, stream in streams.items()}
    environment = {**os.environ, "NO_COLOR": "1"}
    environment.pop("SACREBLEU_FORMAT", None)
    environment.pop("SACREBLEU_SEED", None)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (pathlib.Path(folder) / name).write_bytes(content.encode())
        for references, systems, options, as_json in command_cases():
            command = [sys.executable, "-m", "sacrebleu", *references, "--quiet", "--input", *systems, *options]
            command += ["--format", "json" if as_json else "text"]
            run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
            stdout = run.stdout.decode()
            if "--paired" in " ".join(options) and not as_json:
                # What the numbers mean, both programs say in words of their own.
                table, rest = stdout.split("\n\n", 1)
                stdout = table + "\n\n" + rest[rest.index("-----------------\nMetric signatures"):]
            for before in ("version:", "v:", '"version": "'):
                stdout = stdout.replace(before + VERSION, before + "{version}")
            cases.append({
                "references": references, "systems": systems, "options": options, "json": as_json, "stdout": stdout,
            })
    return {"files": files, "cases": cases}


def awkward_lines(seed, num_lines):
    """Random text for files: a line feed can only end a line there, but a carriage return can be anywhere."""
    streams = random_text(random.Random(seed), num_lines, 4)
    streams = [[line.replace("\n", "\r") for line in stream] for stream in streams]
    streams[0][0] = "\ufeff" + streams[0][0]
    streams[1] = [line + "\r" for line in streams[1]]
    return streams


def main():
    if sacrebleu.__version__ != VERSION:
        sys.exit(f"error: this needs sacrebleu {VERSION}, but found {sacrebleu.__version__}")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", nargs=2, type=int, metavar=("SEED", "LINES"))
    parser.add_argument("--random-significance", nargs=2, type=int, metavar=("SEED", "LINES"))
    parser.add_argument("--random-commands", nargs=2, type=int, metavar=("SEED", "LINES"))
    arguments = parser.parse_args()
    if arguments.random_commands:
        print(json.dumps(commands(*awkward_lines(*arguments.random_commands))))
        return
    if arguments.random:
        seed, num_lines = arguments.random
        print(json.dumps(golden(*random_text(random.Random(seed), num_lines))))
        return
    if arguments.random_significance:
        seed, num_lines = arguments.random_significance
        print(json.dumps(significance(1000, 1000, seed, *random_text(random.Random(seed), num_lines, 5))))
        return
    texts = {
        "english": ENGLISH,
        "english-one-reference": ENGLISH[:2],
        "chinese": CHINESE,
        "edges": EDGES,
        "edges-one-reference": EDGES[:2],
        "random": random_text(random.Random(1), 40),
    }
    (GOLDEN / "significance").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        content = json.dumps(golden(*text), ensure_ascii=True, separators=(",", ":"))
        (GOLDEN / f"{name}.json").write_text(content + "\n")
    # Coin flips, resamples and their mean are drawn and added in blocks; the sizes make partial ones.
    texts = {
        "english": significance(203, 101, 12345, *ENGLISH),
        "random": significance(97, 50, 2**40 + 7, *random_text(random.Random(2), 33, 5)),
    }
    for name, tests in texts.items():
        content = json.dumps(tests, ensure_ascii=True, separators=(",", ":"))
        (GOLDEN / "significance" / f"{name}.json").write_text(content + "\n")
    hypothesis, reference, other_reference = ENGLISH
    # A byte-order mark, ends of lines as on Windows, and a return inside a line.
    system = [line.lower() + " \r" for line in other_reference]
    content = commands(["\ufeff" + hypothesis[0], *hypothesis[1:-1], "the the\rthe"], system, reference, other_reference)
    GOLDEN_COMMANDS.write_text(json.dumps(content, ensure_ascii=True, indent=1) + "\n")


if __name__ == "__main__":
    main()
