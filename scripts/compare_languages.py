#!/usr/bin/env python3
"""How often the language of a sentence is told right, beside other programs: the table of docs/cleaning.md.

    pip install langcodes pycld2 py3langid heliport lingua-language-detector eld eldc
    git clone https://github.com/MicrosoftTranslator/NTREX
    cargo build --release -p polyglow-data --example identify
    scripts/compare_languages.py NTREX/NTREX-128 target/release/examples/identify

Our program learns from lines 1 to 1000 of each language; every fourth line of the rest is a test, in full and cut to its
first three words (or eight characters, where a sentence has no blanks). Varieties of one language (en-GB, es-MX) are one,
and so are for all programs those that others do not tell apart (Serbian in both scripts, Chinese in both scripts). A
program that is not installed is left out of the table, and says so. Others are asked for one sentence at a time.
"""

import argparse
import importlib
import pathlib
import subprocess
import sys
import tempfile
import time

import langcodes

TRAINED = 1000
# Programs write one language in several ways.
SAME = {"no": "nb", "iw": "he", "in": "id", "jw": "jv", "ji": "yi", "tl": "fil", "sh": "hbs", "prs": "fa", "zsm": "ms", "swh": "sw", "azj": "az",
        "khk": "mn", "lvs": "lv", "plt": "mg", "pes": "fa", "als": "sq", "ydd": "yi", "ckb": "ckb", "kmr": "ku", "arb": "ar",
        "ekk": "et", "uzn": "uz", "nno": "nn", "nob": "nb", "npi": "ne", "ory": "or", "pbt": "ps", "quy": "qu", "gaz": "om",
        "cmn": "zh", "hat": "ht", "kaz": "kk", "dzo": "dz", "msa": "ms"}
# Languages that are hard to tell apart, for the column where those count as one.
CLOSE = [("hr", "bs", "sr"), ("id", "ms"), ("nb", "nn", "da"), ("zh", "yue"), ("zu", "xh", "ss", "nd"), ("fa", "ps"), ("cs", "sk"), ("es", "gl")]
CLOSE_NAMES = {code: group[0] for group in CLOSE for code in group}


def code_of(name):
    """The code of a language, however a program calls it; '' for none."""
    base = name.replace("_", "-").split("-")[0].lower()
    base = SAME.get(base, base)
    if not base or base in ("un", "unknown"):
        return ""
    try:
        code = langcodes.standardize_tag(base)
    except langcodes.tag_parser.LanguageTagError:
        return base
    return SAME.get(code, code)


# Languages that few programs know, for the table of languages of which there is little text.
NEW = tuple(map(code_of, ("wol", "fao", "tah", "bem", "glg", "nde", "ltz", "uig")))


def start_of(sentence):
    words = sentence.split()
    return " ".join(words[:3]) if len(words) > 3 else sentence[:8]


def cld2():
    module = importlib.import_module("pycld2")

    def identify(sentence):
        try:
            return module.detect(sentence, bestEffort=True)[2][0][1]
        except module.error:
            return ""

    return identify


def langid():
    module = importlib.import_module("py3langid")
    return lambda sentence: module.classify(sentence)[0]


def heliport():
    identifier = importlib.import_module("heliport").Identifier()
    return lambda sentence: str(identifier.identify(sentence))


def lingua():
    module = importlib.import_module("lingua")
    detector = module.LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()

    def identify(sentence):
        language = detector.detect_language_of(sentence)
        return language.iso_code_639_3.name.lower() if language else ""

    return identify


def eld():
    detector = importlib.import_module("eld").LanguageDetector()
    return lambda sentence: detector.detect(sentence).language or ""


def eldc():
    module = importlib.import_module("eldc")
    module.init()
    return lambda sentence: module.detect(sentence) or ""


PEERS = {"CLD2": cld2, "py3langid": langid, "heliport": heliport, "lingua (low accuracy mode)": lingua, "eld": eld, "eldc": eldc}


def ours(program, train, sentences):
    with tempfile.TemporaryDirectory() as directory:
        for name, lines in train.items():
            (pathlib.Path(directory) / name).write_text("\n".join(lines) + "\n")
        done = subprocess.run([program, directory], input="\n".join(sentences) + "\n", text=True, capture_output=True, check=True)
    rate = float(done.stderr.split()[-4])
    return [code_of(name) for name in done.stdout.splitlines()], rate


def peer(identify, sentences):
    began = time.process_time()
    names = [identify(sentence) for sentence in sentences]
    return [code_of(name) for name in names], len(sentences) / (time.process_time() - began)


def row(name, expected, whole, rate, start):
    """Prints a line of the table, and returns the languages that a program knows: those that it ever names rightly."""
    known = {code for code, guess in zip(expected, whole) if code == guess}

    def share(guesses, codes, names=lambda code: code):
        pairs = [(code, guess) for code, guess in zip(expected, guesses) if code in codes]
        return 100 * sum(names(code) == names(guess) for code, guess in pairs) / len(pairs)

    every = set(expected)
    merged = share(whole, every, lambda code: CLOSE_NAMES.get(code, code))
    print(f"| {name} | {len(known)} of {len(every)} | {share(whole, known):.1f} | {share(whole, every):.1f} | {merged:.1f} | "
          f"{share(start, known):.1f} | {share(start, every):.1f} | {rate:,.0f} |", flush=True)
    return known


def few_classes(program, train, expected, sentences, starts, known):
    """What our program reaches if it has learned the languages of another one alone."""
    train = {name: lines for name, lines in train.items() if code_of(name) in known}
    for title, texts in (("whole sentences", sentences), ("3 words", starts)):
        tests = [(text, code) for text, code in zip(texts, expected) if code in known]
        guesses, _ = ours(program, train, [text for text, _ in tests])
        right = sum(guess == code for guess, (_, code) in zip(guesses, tests))
        print(f"- polyglow with these {len(known)} languages alone, {title}: {100 * right / len(tests):.1f}")


def little_text(program, train, expected, sentences):
    """What is told right of languages that are learned from a few lines, beside others that have all of theirs."""
    print("\n| lines | " + " | ".join(NEW) + " | others taken for one of them |\n|---|" + "---|" * (len(NEW) + 1))
    for num_lines in (30, 100, 300, TRAINED):
        some = {name: lines[:num_lines] if code_of(name) in NEW else lines for name, lines in train.items()}
        guesses, _ = ours(program, some, sentences)
        pairs = list(zip(expected, guesses))

        def share(new):
            of_it = [guess for code, guess in pairs if code == new]
            return 100 * of_it.count(new) / len(of_it)

        others = [guess in NEW for code, guess in pairs if code not in NEW]
        shares = " | ".join(f"{share(new):.1f}" for new in NEW)
        print(f"| {num_lines} | {shares} | {100 * sum(others) / len(others):.2f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ntrex", type=pathlib.Path, help="directory with a file for each language")
    parser.add_argument("program", help="the example `identify`")
    args = parser.parse_args()
    train, expected, sentences = {}, [], []
    for path in sorted(args.ntrex.iterdir()):
        if not path.name.startswith("newstest2019-ref.") and not path.name.startswith("newstest2019-src."):
            continue
        name = path.name.split(".")[1]
        # Varieties: two letters of a country behind the language, but for Chinese, whose scripts differ.
        variety = name.split("-")
        if len(variety) == 2 and len(variety[1]) == 2 and variety[0] != "zho":
            continue
        lines = path.read_text().splitlines()
        train[name] = lines[:TRAINED]
        test = lines[TRAINED::4]
        sentences += test
        expected += [code_of(name)] * len(test)
    starts = [start_of(sentence) for sentence in sentences]
    print(f"{len(train)} files, {len(sentences)} sentences of {sum(map(len, sentences)) / len(sentences):.0f} characters\n")
    print("| program | languages | of those it knows | of all | close ones as one | 3 words, known | 3 words, all | sentences a second |")
    print("|---|---|---|---|---|---|---|---|")
    whole, rate = ours(args.program, train, sentences)
    row("polyglow, learned from the text", expected, whole, rate, ours(args.program, train, starts)[0])
    for name, load in PEERS.items():
        try:
            identify = load()
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        whole, rate = peer(identify, sentences)
        known = row(name, expected, whole, rate, peer(identify, starts)[0])
        if name == "eldc":
            few_classes(args.program, train, expected, sentences, starts, known)
    little_text(args.program, train, expected, sentences)


if __name__ == "__main__":
    main()
