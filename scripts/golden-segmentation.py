#!/usr/bin/env python3
"""Writes how MeCab, MeCab-ko and SentencePiece cut a few lines, for the tests of polyglow-metrics to compare with.

    apt-get install mecab-utils
    pip install mecab-python3==1.0.12 mecab-ko==1.0.3 sentencepiece==0.2.3
    python3 scripts/golden-segmentation.py            # writes crates/polyglow-metrics/tests/golden/segmentation/

The dictionary and the models are made here, small, with every kind of rule that the large ones have: a dictionary of some
fifty words, which both MeCabs read, and three models of a few hundred pieces. That the large dictionaries give sacreBLEU's
scores is checked by `scripts/compare_sacrebleu.py`.
"""

import json
import pathlib
import random
import subprocess
import tempfile

import MeCab
import mecab_ko
import sentencepiece

FOLDER = pathlib.Path(__file__).parent.parent / "crates/polyglow-metrics/tests/golden/segmentation"

# Surface, left and right side, cost, part of speech. The costs make some ways equal: the order of nodes then decides.
WORDS = """
東京,1,1,300,noun
東京都,1,1,500,noun
京都,1,1,300,noun
都,1,1,400,suffix
に,2,2,100,particle
は,2,2,100,particle
が,2,2,100,particle
を,2,2,100,particle
は,1,1,900,noun
住む,3,3,200,verb
住ん,3,3,150,verb
で,2,2,120,particle
でい,3,3,300,verb
いる,3,3,100,verb
い,3,3,100,verb
ます,3,3,100,verb
彼,1,1,200,noun
彼は,1,1,350,noun
すもも,1,1,300,noun
もも,1,1,300,noun
も,2,2,150,particle
の,2,2,150,particle
うち,1,1,300,noun
。,0,0,10,mark
、,0,0,10,mark
a,1,1,100,noun
aa,1,1,200,noun
aaa,1,1,300,noun
나,1,1,200,noun
는,2,2,100,particle
학교,1,1,300,noun
에,2,2,100,particle
갔,3,3,200,verb
다,2,2,100,particle
가,3,3,200,verb
가,2,2,150,particle
였다,3,3,300,verb
𠀀,1,1,100,noun
ゎ,2,2,100,particle
"""
UNKNOWN = """
DEFAULT,0,0,2000,mark
SPACE,0,0,10,mark
KANJI,1,1,1500,noun
KANJI,3,3,1600,verb
HIRAGANA,2,2,1400,particle
HIRAGANA,1,1,1700,noun
KATAKANA,1,1,900,noun
LATIN,1,1,900,noun
DIGIT,1,1,700,noun
HANGUL,1,1,1300,noun
"""
# Name, whether unknown words are made where a word is known, whether runs are one, characters up to which there are more.
CHARACTERS = """
DEFAULT 0 1 0
SPACE 0 1 0
KANJI 0 0 2
HIRAGANA 0 1 2
KATAKANA 1 1 2
LATIN 1 1 0
DIGIT 1 1 0
HANGUL 0 1 2
0x0009 SPACE
0x0020 SPACE
0x00D0 SPACE
0x0041..0x005A LATIN
0x0061..0x007A LATIN
0x0030..0x0039 DIGIT
0x3041..0x309F HIRAGANA
0x30A1..0x30FF KATAKANA
0x30FC KATAKANA HIRAGANA
0x4E00..0x9FA5 KANJI
0x4E00 DIGIT KANJI
0x4E8C DIGIT KANJI
0xAC00..0xD7A3 HANGUL
"""
SPACE_PENALTIES = "2,2700,3,1300"
SETTINGS = """cost-factor = 800
bos-feature = BOS/EOS,*
config-charset = UTF-8
eval-size = 1
unk-eval-size = 1
left-space-penalty-factor = {}
"""
MATRIX_SIZE = 4

LINES = [
    "", "彼は東京都に住んでいます。", "すもももももももものうち", "東京 都 に", "aaaa aaaaaaa", "彼 は 京都", "ゎゎ ゎ　ゎ",
    "나는 학교에 갔다.", "나 는 학교 에 갔다", "가가 가 가였다 였다가", "ラーメンー あーいー", "カタカナ" * 8, "か" * 25 + "に", "か" * 26,
    "１２３ 123abc456", "一二三 二千 一つ", "𠀀𠀁𠀀 🙂🏳️‍🌈", "e\u0301 \u200bÐÐaÐ", "Ð", "aÐ", "\tに\t\tは ", "한국어 문장입니다", "漢字漢字漢字漢", "ア", "\uffff에\ufffe",
    "Debian は、自由なソフトウェアを目指すOSです。", "   Ｄｅｂｉａｎ　　１２ ①②  ", "------------ ----- - ----", "ﾊﾟﾊﾟ ㈱ ﬁne", "x<sep>y <sep> です", "สวัสดีตอนเช้า", " x x  x ",
]


def write_dictionary(folder):
    """Compiles the dictionary, and leaves what MeCab reads."""
    generator = random.Random(7)
    parts = ["mark", "noun", "particle", "verb"]
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name)
        (source / "words.csv").write_text(WORDS.strip() + "\n")
        (source / "unk.def").write_text(UNKNOWN.strip() + "\n")
        (source / "char.def").write_text(CHARACTERS.strip() + "\n")
        sides = range(MATRIX_SIZE)
        costs = [f"{left} {right} {generator.randrange(-4, 5) * 50}" for left in sides for right in sides]
        (source / "matrix.def").write_text("\n".join([f"{MATRIX_SIZE} {MATRIX_SIZE}", *costs]) + "\n")
        (source / "pos-id.def").write_text("".join(f"{part} {number}\n" for number, part in enumerate(parts)))
        (source / "left-id.def").write_text("".join(f"{number} {part}\n" for number, part in enumerate(parts)))
        (source / "right-id.def").write_text("".join(f"{number} {part}\n" for number, part in enumerate(parts)))
        (source / "feature.def").write_text("")
        (source / "rewrite.def").write_text("[unigram rewrite]\n[left rewrite]\n[right rewrite]\n")
        (source / "dicrc").write_text(SETTINGS.format(SPACE_PENALTIES))
        command = ["/usr/lib/mecab/mecab-dict-index", "-d", source, "-o", folder, "-f", "utf-8", "-t", "utf-8"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (folder / "dicrc").write_text(SETTINGS.format(SPACE_PENALTIES))


def models():
    """Names of models, and how they are trained."""
    rules = {"Ｄ": "D", "ｅ": "e", "ﾊﾟ": "パ", "ﾊ": "ハ", "①": "1", "㈱": "(株)", "ﬁ": "fi", "\u3000": " ", "\t": " ", "\u200b": ""}
    lines = "".join(" ".join(f"{ord(c):X}" for c in one) + "\t" + " ".join(f"{ord(c):X}" for c in other) + "\n" for one, other in rules.items())
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.write(lines)
        file.flush()
        yield "rules", {"normalization_rule_tsv": file.name}
        yield "bytes", {"byte_fallback": True, "vocab_size": 520, "normalization_rule_tsv": file.name}
        marks = ["<sep>", "です", " x", "12"]
        yield "marks", {
            "normalization_rule_name": "identity", "user_defined_symbols": marks, "treat_whitespace_as_suffix": True,
            "remove_extra_whitespaces": False,
        }


def write_model(name, options):
    """Trains a model on the lines and on sentences of the dictionary's words."""
    generator = random.Random(5)
    words = [line.split(",")[0] for line in WORDS.strip().split("\n")] + "the cat sees a house and thinks of it".split()
    sentences = ["".join(generator.choice(words) + generator.choice(["", " "]) for _ in range(12)) for _ in range(300)]
    text = sentences + [line for line in LINES for _ in range(5)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in text if line.strip()), model_prefix=str(FOLDER / name), model_type="unigram",
        **{"vocab_size": 200, "character_coverage": 0.98, "num_threads": 1, "minloglevel": 2, **options},
    )
    (FOLDER / f"{name}.vocab").unlink()


def main():
    dictionary = FOLDER / "dictionary"
    dictionary.mkdir(parents=True, exist_ok=True)
    write_dictionary(dictionary)
    generator = random.Random(3)
    characters = "".join(LINES)
    lines = LINES + ["".join(generator.choice(characters) for _ in range(30)) for _ in range(40)]
    words = [line.split(",")[0] for line in WORDS.strip().split("\n")]
    lines += ["".join(generator.choice(words) + generator.choice(["", " "]) for _ in range(12)) for _ in range(60)]

    def cut(tagger):
        return [tagger.parse(line.strip()).split() for line in lines]

    arguments = f"-r /dev/null -d {dictionary} -Owakati"
    content = {
        "lines": lines, "mecab": cut(MeCab.Tagger(arguments)), "mecab-ko": cut(mecab_ko.Tagger(arguments)), "models": {},
    }
    for name, options in models():
        write_model(name, options)
        model = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / f"{name}.model"))
        content["models"][name] = [" ".join(model.encode_as_pieces(line)).split() for line in lines]
    (FOLDER / "lines.json").write_text(json.dumps(content, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
