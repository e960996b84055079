#!/usr/bin/env python3
"""Measures what links between words are worth to `polyglow clean`: for its rule of numbers, and for the words
that its examples mark.

    scripts/clean_links.py numbers NTREX/newstest2019-src.eng.txt NTREX/newstest2019-ref.deu.txt ...
    scripts/clean_links.py words text.en text.de

`numbers` exchanges one number in every second target that has one, of each target file, and counts how many
spoiled and how many right pairs are removed for their numbers: by the rule, and by the rule where `polyglow
align` links two of the numbers that have no partner.

`words` puts another target behind 200 right ones, and asks `--explain` which words have no partner.
"""

import argparse
import pathlib
import random
import re
import subprocess
import tempfile

WORD = re.compile(r"\d+|[^\W\d_]+")
# Digits with separators of thousands.
NUMBER = re.compile(r"\d+(?:[.,\s]\d{3}(?!\d))*")


def polyglow(program, *arguments):
    command = [program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines(path):
    return pathlib.Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")


def write(path, texts):
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def exchanged(text, rng):
    """The text with another number of as many digits; nothing if it has none."""
    numbers = [found for found in WORD.finditer(text) if re.fullmatch(r"[1-9][0-9]*", found[0])]
    if not numbers:
        return None
    number = rng.choice(numbers)
    low = 10 ** (len(number[0]) - 1)
    others = rng.sample(range(low, 10 * low), 2)
    other = others[0] if str(others[0]) != number[0] else others[1]
    return text[: number.start()] + str(other) + text[number.end() :]


def removed_for_numbers(program, folder, sources, targets):
    """The lines of pairs that the rule removes, with the numbers without a partner on both sides."""
    src, tgt = write(folder / "text.src", sources), write(folder / "text.tgt", targets)
    out = folder / "out"
    polyglow(program, "clean", "--src", src, "--tgt", tgt, "--out", out, "--without", "meaning,language,duplicates")
    rows = [row.split("\t") for row in lines(out / "removed.tsv") if row]
    removed = [int(row[1].rsplit(":", 1)[1]) - 1 for row in rows if row[0] == "numbers"]
    if not removed:
        return {}
    numbers = {}
    for line, text in zip(removed, explanations(program, src, tgt, removed), strict=True):
        sides = [re.search(rf"  {side} numbers without a partner: (.*)", text) for side in ("source", "target")]
        numbers[line] = [side[1].split(", ") for side in sides]
    return numbers


def explanations(program, src, tgt, numbers):
    """What `--explain` says of some lines."""
    explain = [option for line in numbers for option in ("--explain", line + 1)]
    output = polyglow(program, "clean", "--src", src, "--tgt", tgt, *explain)
    return re.split(r"^\S+:\d+$", output, flags=re.M)[1:]


def links_of(program, folder, sources, targets):
    """For each pair the links between its words that are more probable than 0.5."""
    sides = [[" ".join(WORD.findall(text.lower())) for text in side] for side in (sources, targets)]
    src, tgt = write(folder / "words.src", sides[0]), write(folder / "words.tgt", sides[1])
    polyglow(program, "align", "--src", src, "--tgt", tgt, "--out", folder / "links", "--threshold", 0.5)
    return [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines(folder / "links")]


def words_of_numbers(text, numbers):
    """The positions of the words of a text that are in one of the numbers, which may have separators."""
    spans = [found.span() for found in NUMBER.finditer(text) if value(found[0]) in numbers]
    return {
        position
        for position, word in enumerate(WORD.finditer(text))
        if any(start <= word.start() < end for start, end in spans)
    }


def value(number):
    return re.sub(r"[.,\s]", "", number).lstrip("0") or "0"


def measure_numbers(program, source, targets):
    rng = random.Random(1)
    counts = {key: [0, 0, 0] for key in ("right", "spoiled")}
    for path in targets:
        pairs = []
        for index, (src, tgt) in enumerate(zip(lines(source), lines(path), strict=True)):
            spoiled = exchanged(tgt, rng) if index % 2 == 0 else None
            pairs.append((src, spoiled or tgt, "spoiled" if spoiled else "right"))
        sources, texts, kinds = zip(*pairs)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            removed = removed_for_numbers(program, folder, sources, texts)
            links = links_of(program, folder, sources, texts)
        for line, kind in enumerate(kinds):
            counts[kind][0] += 1
            if line in removed:
                src_words, tgt_words = map(words_of_numbers, (sources[line], texts[line]), removed[line])
                counts[kind][1] += 1
                counts[kind][2] += not any(i in src_words and j in tgt_words for i, j in links[line])
    for kind, (pairs, removed, unlinked) in counts.items():
        print(f"{kind} pairs: {pairs}, removed {removed}, of which {unlinked} would stay for want of a link")


def measure_words(program, source, target):
    rng = random.Random(1)
    sources, targets = lines(source), lines(target)
    enough = [line for line, text in enumerate(sources) if len(WORD.findall(text)) >= 4]
    spoiled = sorted(rng.sample(enough, 200))
    rights = {line: targets[line] for line in spoiled}
    for line in spoiled:
        targets[line] += " " + rng.choice(targets)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        src, tgt = write(folder / "text.src", sources), write(folder / "text.tgt", targets)
        explained = explanations(program, src, tgt, spoiled)
    right = wrong = missed = 0
    for line, text in zip(spoiled, explained, strict=True):
        listed = re.search(r"  target words without a partner: (.*)", text)
        marked = listed[1].split(", ") if listed else []
        added = WORD.findall(targets[line][len(rights[line]) :])
        # By text, so that a word that stands on both sides of the border counts where it fits.
        found = sum(min(marked.count(word), added.count(word)) for word in set(added))
        right += found
        missed += len(added) - found
        wrong += len(marked) - found
    precision, recall = right / (right + wrong), right / (right + missed)
    f1 = 2 * precision * recall / (precision + recall)
    print(f"words that were added: precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["numbers", "words"])
    parser.add_argument("source")
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--program", default="target/release/polyglow")
    arguments = parser.parse_args()
    if arguments.what == "numbers":
        measure_numbers(arguments.program, arguments.source, arguments.targets)
    else:
        measure_words(arguments.program, arguments.source, *arguments.targets)


if __name__ == "__main__":
    main()
