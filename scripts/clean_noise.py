#!/usr/bin/env python3
"""Spoils parallel text in 23 ways, lets `polyglow clean` clean it, and counts what it found.

    scripts/clean_noise.py text.en text.de --test test.en test.de --foreign french.txt --share 0.5

The text must be clean: no two pairs that say the same, none with a test sentence. A share of its lines is
replaced by noise, in equal parts of each kind; lines of `--foreign` are of neither language. Noise
counts as handled if it is removed, or repaired to what it was; of copies all but one must go. A right
line is lost if it is removed and no copy of it stays.

With `--write DIR` nothing is cleaned: `DIR/noisy` is the spoiled text and `DIR/oracle` the lines that were
not spoiled, for `polyglow clean --prove --compare DIR/oracle`.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import subprocess
import tempfile
import unicodedata

MENUS = [
    ("Home | Contact | Imprint", "Start | Kontakt | Impressum"),
    ("Page {n} of {m}", "Seite {n} von {m}"),
    ("Read more ({n} comments)", "Mehr lesen ({n} Kommentare)"),
    ("Share on Facebook ({n})", "Auf Facebook teilen ({n})"),
    ("Copyright {m} The authors", "Copyright {m} Die Autoren"),
    ("Add to cart - {n} items", "In den Warenkorb - {n} Artikel"),
]
EMPTY = ["", "-", ".", "?", "1.", "…", "*"]
EMOJI = "😀😂😍🎉🔥👍🚀✨"


def words(text):
    """The words of a text; its characters if it has no blanks."""
    return text.split(" ") if " " in text else list(text)


def join(parts, like):
    return (" " if " " in like else "").join(parts)


def mojibake(text, times=1):
    """UTF-8 read as Windows-1252, where bytes without a character become control characters."""
    for _ in range(times):
        text = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in text.encode())
    return text


def surface(text, rng):
    """The same words with other case, marks or blanks."""
    change = rng.randrange(4)
    if change == 0:
        return text.lower() if text != text.lower() else text.upper()
    if change == 1:
        return text.rstrip(".!?。！？") or text
    if change == 2:
        return text.replace(" ", "  ", 1) if " " in text else text + " "
    return text.upper() if text != text.upper() else text + "!"


def edited(text, rng):
    """A text with other case, marks or blanks, or with a word less, another or more."""
    parts = words(text)
    change = rng.randrange(4)
    if change == 0 or len(parts) < 4:
        return surface(text, rng)
    index = rng.randrange(len(parts))
    new = [[], [rng.choice(parts)], [parts[index], rng.choice(parts)]][change - 1]
    return join(parts[:index] + new + parts[index + 1 :], text)


class Spoiler:
    """Makes noise of the pairs of a text."""

    def __init__(self, pairs, test, foreign, seed):
        self.pairs, self.test, self.foreign = pairs, test, foreign
        self.rng = random.Random(seed)
        self.copied = []

    def either(self, pair, change):
        """A pair with the source, the target or both changed."""
        sides = self.rng.choice([(0,), (1,), (0, 1)])
        return tuple(change(text) if side in sides else text for side, text in enumerate(pair))

    def spoil(self, kind, index):
        """Returns the spoiled pair, and the pair that it is a copy of, if any; None if it cannot be."""
        rng, (src, tgt) = self.rng, self.pairs[index]
        long = len(words(src)) >= 4 and len(words(tgt)) >= 4
        other = rng.randrange(len(self.pairs))
        accents = any(ord(c) > 127 for c in src + tgt)
        if kind == "number":
            found = re.findall(r"[1-9]\d*", tgt)
            if not found or sorted(found) != sorted(re.findall(r"[1-9]\d*", src)):
                return None
            wrong = str(int(found[0]) + rng.choice([1, 2, 3, 7, 20]))
            return (src, tgt.replace(found[0], wrong, 1)), None
        if kind in ("mojibake", "mojibake2"):
            times = 2 if kind.endswith("2") else 1
            return ((mojibake(src, times), mojibake(tgt, times)), None) if accents else None
        if kind == "mojibake_lossy":
            sign = rng.choice("?\ufffd")
            lose = lambda text: "".join(c if ord(c) < 128 else sign for c in text)
            return ((lose(src), lose(tgt)), None) if accents else None
        if kind == "html":
            form = rng.choice(["<p>{}</p>", "<b>{}</b><br/>", "&nbsp;{}&nbsp;", '<a href="x?a=1&amp;b=2">{}</a>'])
            return (self.either((src, tgt), form.format), None) if long else None
        if kind == "truncated":
            parts = words(tgt)
            kept = int(len(parts) * rng.uniform(0.3, 0.6))
            return ((src, join(parts[:kept], tgt)), None) if len(parts) >= 6 and kept else None
        if kind == "merged":
            side = rng.randrange(2)
            glue = lambda text, more: text + (" " if " " in text else "") + more
            merged = [src, tgt]
            merged[side] = glue(merged[side], self.pairs[other][side])
            return (tuple(merged), None) if long else None
        if kind == "repeat":
            parts = words(tgt)
            length = rng.randint(1, min(4, len(parts)))
            start = rng.randrange(len(parts) - length + 1)
            said = parts[start : start + length] * rng.randint(4, 8)
            return ((src, join(parts[:start] + said + parts[start + length :], tgt)), None) if long else None
        if kind == "char_spaced":
            return (self.either((src, tgt), lambda text: " ".join(text.replace(" ", ""))), None) if len(tgt) >= 8 else None
        if kind in ("leak", "near_leak"):
            leaked = rng.choice(self.test)
            if kind == "near_leak":
                return (edited(leaked[0], rng), edited(leaked[1], rng)), None
            side = rng.choice(["both", "both", 0, 1])
            return (leaked if side == "both" else (leaked[0], tgt) if side == 0 else (src, leaked[1])), None
        if kind in ("dup", "near_dup"):
            other = self.copied.pop()
            copy = self.pairs[other]
            return ((surface(copy[0], rng), surface(copy[1], rng)) if kind == "near_dup" else copy), other
        if kind == "misaligned_near":
            near = min(max(index + rng.choice([-1, 1]) * rng.randint(1, 39), 0), len(self.pairs) - 1)
            return ((src, self.pairs[near][1]), None) if near != index else None
        if kind == "misaligned_random":
            return ((src, self.pairs[other][1]), None) if other != index else None
        if kind == "copy":
            return ((src, src) if rng.random() < 0.75 else (tgt, tgt), None) if long else None
        if kind == "wrong_lang_tgt":
            return (src, rng.choice(self.foreign)), None
        if kind == "wrong_lang_src":
            return (rng.choice(self.foreign), tgt), None
        if kind == "swapped":
            return (tgt, src), None
        if kind == "menu":
            numbers = {"n": rng.randint(1, 99), "m": rng.randint(100, 2030)}
            return tuple(text.format(**numbers) for text in rng.choice(MENUS)), None
        if kind == "emoji_url":
            line = "".join(rng.choices(EMOJI, k=5)) + f" https://example.org/{rng.randrange(10**6)}"
            return ((line, line) if rng.random() < 0.5 else (src, f"{tgt} https://example.org/{index}")), None
        if kind == "too_short":
            return self.either((src, tgt), lambda _: rng.choice(EMPTY)), None
        invisible = rng.choice(["\ufeff", "\u200b", "\u00ad", "\u00a0\u2003\u0007 "])
        odd = lambda text: invisible + unicodedata.normalize("NFD", text)
        return (odd(src), odd(tgt)), None


KINDS = """number mojibake mojibake2 mojibake_lossy html truncated merged repeat char_spaced near_leak near_dup
misaligned_near misaligned_random copy wrong_lang_tgt wrong_lang_src swapped menu dup leak emoji_url too_short
unicode""".split()


def normal(text):
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src")
    parser.add_argument("tgt")
    parser.add_argument("--test", nargs=2, required=True)
    parser.add_argument("--foreign", required=True)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--polyglow", default="target/release/polyglow")
    parser.add_argument("--write", type=pathlib.Path, help="write the spoiled text there, and clean nothing")
    options = parser.parse_args()
    if options.write and pathlib.Path(options.src).suffix == pathlib.Path(options.tgt).suffix:
        parser.error("with --write both sides need endings of their own")
    pairs = list(zip(read(options.src), read(options.tgt), strict=True))
    test = list(zip(*map(read, options.test), strict=True))
    spoiler = Spoiler(pairs, test, read(options.foreign), options.seed)
    free = list(range(len(pairs)))
    spoiler.rng.shuffle(free)
    # What is copied stays as it is.
    num_copied = 2 * (int(len(pairs) * options.share) // len(KINDS))
    spoiler.copied, free = free[:num_copied], free[num_copied:]
    kinds, lines, copies = {}, list(pairs), collections.defaultdict(list)
    for kind in KINDS:
        wanted = int(len(pairs) * options.share) // len(KINDS)
        left = []
        for index in free:
            noise = spoiler.spoil(kind, index) if wanted else None
            if noise is None:
                left.append(index)
                continue
            wanted -= 1
            kinds[index] = kind
            lines[index] = tuple(text.replace("\n", " ").replace("\r", " ") for text in noise[0])
            if noise[1] is not None:
                copies[noise[1]].append(index)
        free = left
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        oracle = [pair for index, pair in enumerate(pairs) if index not in kinds]
        for name, texts in (("noisy", lines), ("oracle", oracle)):
            for side, path in enumerate((options.src, options.tgt)):
                text = "".join(pair[side] + "\n" for pair in texts)
                (options.write / (name + pathlib.Path(path).suffix)).write_text(text, encoding="utf-8")
        print(f"{len(lines)} noisy lines, {len(oracle)} of them are right")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for name, texts in (("train", lines), ("test", test)):
            for side, ending in enumerate(("aa", "bb")):
                (folder / f"{name}.{ending}").write_text("".join(pair[side] + "\n" for pair in texts), encoding="utf-8")
        config = "[data]\ntrain = 'train'\ntest = 'test'\nsrc = 'aa'\ntgt = 'bb'\n[train]\nmax_steps = 1\n"
        (folder / "c.toml").write_text(config)
        command = [pathlib.Path(options.polyglow).resolve(), "clean", "c.toml", "--out", "out", "--json"]
        report = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
        removed = {int(row.split("\t")[1].rsplit(":", 1)[1]) - 1 for row in read(folder / "out/removed.tsv")}
        kept = [index for index in range(len(lines)) if index not in removed]
        cleaned = dict(zip(kept, zip(read(folder / "out/train.aa"), read(folder / "out/train.bb"), strict=True)))
    same = lambda left, right: [normal(text) for text in left] == [normal(text) for text in right]
    found = collections.defaultdict(lambda: [0, 0])
    group = {copy: [first, *those] for first, those in copies.items() for copy in [first, *those]}
    lost = 0
    for index in range(len(lines)):
        kind = kinds.get(index)
        stays = index in cleaned
        others = [other for other in group.get(index, []) if other != index and kinds.get(other) in (None, "dup", "near_dup")]
        if kind is None:
            lost += not stays and not any(other in cleaned for other in others)
            continue
        if kind in ("dup", "near_dup"):
            is_handled = not stays or not any(other in cleaned for other in others)
        else:
            is_handled = not stays or same(cleaned[index], pairs[index])
        found[kind][0] += 1
        found[kind][1] += is_handled
    for kind in KINDS:
        count, handled = found[kind]
        if count:
            print(f"{kind:18} {count:6} {100 * handled / count:6.1f} %")
    count = sum(count for count, _ in found.values())
    handled = sum(handled for _, handled in found.values())
    if count:
        print(f"{'all noise':18} {count:6} {100 * handled / count:6.1f} %")
    print(f"{'right lines lost':18} {lost:6} {100 * lost / (len(lines) - count):6.2f} %")
    print("estimates:", report["estimates"])


main()
