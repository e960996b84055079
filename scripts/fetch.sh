#!/usr/bin/env bash
# Fetches a public corpus to datasets/, where the configs expect it, and checks what arrived.
#
#   scripts/fetch.sh multi30k | tatoeba-en-de | iwslt-en-vi | wmt14-en-de
#
# datasets/README.md names the sources and licenses. Needs curl, gzip, and for tatoeba-en-de unzip and python3.
# A file that is already there and passes its check is not fetched again.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "error: $*" >&2
    exit 1
}

# fetch URL FILE: writes to a file beside first, so that FILE is never half there.
fetch() {
    mkdir -p "$(dirname "$2")"
    curl --fail --location --silent --show-error --retry 3 --output "$2.part" "$1" || fail "cannot fetch $1"
    mv "$2.part" "$2"
}

# has_sum TOOL SUM FILE: whether FILE is there with this checksum.
has_sum() {
    [[ -f "$3" && "$("$1" "$3" | cut -d ' ' -f 1)" == "$2" ]]
}

# fetch_with_sum TOOL SUM URL FILE: a URL that ends in .gz is unpacked; the checksum is that of the unpacked file.
fetch_with_sum() {
    if has_sum "$1" "$2" "$4"; then return; fi
    echo "fetching $4" >&2
    if [[ "$3" == *.gz ]]; then
        fetch "$3" "$4.gz"
        gzip --decompress --force "$4.gz"
    else
        fetch "$3" "$4"
    fi
    has_sum "$1" "$2" "$4" || fail "$4 is not the file that is expected: wrong checksum"
}

# fetch_with_lines LINES BYTES URL FILE: for files whose checksum we do not know.
fetch_with_lines() {
    is_whole() { [[ -f "$4" && "$(wc -l < "$4")" -eq "$1" && "$(wc -c < "$4")" -eq "$2" ]]; }
    if is_whole "$@"; then return; fi
    echo "fetching $4" >&2
    fetch "$3" "$4"
    is_whole "$@" || fail "$4 is not the file that is expected: not $1 lines and $2 bytes"
}

# The commit is pinned: raw text, and the lower-cased tokenized text (`tok-lc`) that published scores are on.
multi30k() {
    local from=https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1
    local to=datasets/multi30k-en-de sum source target
    while read -r sum source target; do
        fetch_with_sum sha256sum "$sum" "$from/$source" "$to/$target"
    done <<'FILES'
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6 raw/train.en.gz train.en
2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72 raw/train.de.gz train.de
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227 raw/val.en.gz valid.en
660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660 raw/val.de.gz valid.de
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182 raw/test_2016_flickr.en.gz test2016.en
4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16 raw/test_2016_flickr.de.gz test2016.de
08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119 tok/train.lc.norm.tok.en tok-lc/train.en
cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505 tok/train.lc.norm.tok.de tok-lc/train.de
46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec tok/val.lc.norm.tok.en tok-lc/val.en
97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00 tok/val.lc.norm.tok.de tok-lc/val.de
5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2 tok/test_2016_flickr.lc.norm.tok.en tok-lc/test_2016_flickr.en
c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4 tok/test_2016_flickr.lc.norm.tok.de tok-lc/test_2016_flickr.de
FILES
}

# The source grows with time, so there is nothing to check it against. An English sentence goes to a split by its hash:
# it is in one split only, whichever translations it has.
tatoeba-en-de() {
    local to=datasets/tatoeba-en-de
    if [[ -f "$to/train.de" ]]; then return; fi
    echo "fetching $to" >&2
    fetch https://www.manythings.org/anki/deu-eng.zip "$to/deu-eng.zip"
    unzip -o -q "$to/deu-eng.zip" -d "$to"
    python3 - "$to" <<'PYTHON'
import hashlib
import sys
from pathlib import Path

to = Path(sys.argv[1])
splits = {"train": [], "valid": [], "test": []}
for line in (to / "deu.txt").read_text(encoding="utf-8").split("\n"):
    en, _, rest = line.partition("\t")
    de = rest.partition("\t")[0]
    if en and de:
        draw = int.from_bytes(hashlib.sha256(en.encode()).digest()[:2], "big")
        split = "valid" if draw < 786 else "test" if draw < 1572 else "train"  # 1.2 % each
        splits[split].append((en, de))
for split, pairs in splits.items():
    for side, language in enumerate(["en", "de"]):
        lines = "".join(pair[side] + "\n" for pair in pairs)
        (to / f"{split}.{language}").write_text(lines, encoding="utf-8", newline="\n")
PYTHON
    rm "$to/deu-eng.zip" "$to/deu.txt"
}

iwslt-en-vi() {
    local from=https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi
    local lines bytes file
    while read -r lines bytes file; do
        fetch_with_lines "$lines" "$bytes" "$from/$file" "datasets/iwslt-en-vi/$file"
    done <<'FILES'
133317 13603614 train.en
133317 18074646 train.vi
1553 140250 tst2012.en
1553 188396 tst2012.vi
1268 132264 tst2013.en
1268 183855 tst2013.vi
FILES
}

wmt14-en-de() {
    local from=https://nlp.stanford.edu/projects/nmt/data/wmt14.en-de
    local sum file
    while read -r sum file; do
        fetch_with_sum md5sum "$sum" "$from/$file" "datasets/wmt14-en-de/$file"
    done <<'FILES'
7ac0d46a8f6db6dfce476c2a8e54121b train.en
5873aae4fe517aad42bb29d607b5d2a0 train.de
f3ce7816bb0acbd2de0364795e9688b1 newstest2013.en
5d48c9300649bfad1300e53ad1334aec newstest2013.de
4e4663b8de25d19c5fc1c4dab8d61703 newstest2014.en
06e8840abe90cbfbd45cf2729807605d newstest2014.de
FILES
}

case "${1:-}" in
multi30k | tatoeba-en-de | iwslt-en-vi | wmt14-en-de) "$1" ;;
*) fail "usage: scripts/fetch.sh multi30k | tatoeba-en-de | iwslt-en-vi | wmt14-en-de" ;;
esac
echo "done: datasets/ is ready for $1" >&2
