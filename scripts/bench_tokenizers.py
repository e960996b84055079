#!/usr/bin/env python3
"""Encodes parallel text with polyglow, Python's `tokenizers` and `sentencepiece`, in turns, and compares pairs a second.

    pip install tokenizers sentencepiece numpy
    python scripts/bench_tokenizers.py target/release/polyglow runs/multi30k-en-de \\
        --data datasets/multi30k-en-de/tok-lc/train --threads 2

The text is the training text of the run, repeated. polyglow and `tokenizers` encode with the run's tokenizer.json, and
must give the same ids for all of it, which are read from the run's id cache; `sentencepiece` encodes with a BPE and a
unigram vocabulary of the same size, learned here from the same text. All get 8 192 pairs at a time and as many threads.
Ours ends with lists of ids, `tokenizers` with its encodings, `sentencepiece` with lists of ids; ours is timed in the
program, without reading files. `encode_batch_fast` leaves out the offsets, as ours does. What follows encoding in
training is told beside it: writing the id cache, and making padded batches out of it.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

import numpy as np
import sentencepiece
from measurement import (
    describe, environment, in_turns, machine, polyglow, ratio, read_lines, save, spread, table, versions, written,
)
from tokenizers import Tokenizer

PAIRS_PER_CHUNK = 8192
HEADER_BYTES, COUNTS, WIDTH = 80, slice(40, 56), slice(64, 68)


def check_same_ids(run, tokenizer, sides):
    """Compares the ids of the run's cache with those that Python's tokenizer gives for the text; how many there are."""
    data = (run / "cache/train.ids").read_bytes()
    num_examples, num_ids = np.frombuffer(data[COUNTS], "<u8").tolist()
    kind = {2: "<u2", 4: "<u4"}[int.from_bytes(data[WIDTH], "little")]
    cached = np.frombuffer(data, kind, count=num_ids, offset=HEADER_BYTES)
    # The highest bit says that a token begins a word.
    cached = cached & np.iinfo(kind).max >> 1
    if num_examples != len(sides[0]):
        raise SystemExit(f"error: the run's cache has {num_examples} pairs, but the text has {len(sides[0])}")
    src, tgt = map(tokenizer.encode_batch, sides)
    found = np.fromiter((number for pair in zip(src, tgt) for side in pair for number in side.ids), kind)
    if not np.array_equal(cached, found):
        raise SystemExit("error: polyglow's ids and those of Python's `tokenizers` differ")
    return num_ids


def sentencepiece_model(directory, sides, kind, vocab_size):
    text = directory / "text"
    text.write_text("".join(f"{line}\n" for side in sides for line in side), encoding="utf-8")
    prefix = directory / kind
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(prefix), model_type=kind, vocab_size=vocab_size, character_coverage=1.0,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def pairs_per_second(encode, sides, count):
    """Encodes both sides, repeated to `count` pairs, a chunk at a time."""
    seconds, done = 0, 0
    while done < count:
        for start in range(0, len(sides[0]), PAIRS_PER_CHUNK):
            chunk = [side[start:start + min(PAIRS_PER_CHUNK, count - done)] for side in sides]
            started = time.perf_counter()
            for lines in chunk:
                encode(lines)
            seconds += time.perf_counter() - started
            done += len(chunk[0])
            if done >= count:
                break
    return done / seconds


def write_config(directory, run, sides, count):
    """Writes the text, repeated to `count` pairs, and a config that encodes it with the run's tokenizer."""
    for name, lines in zip(("src", "tgt"), sides):
        repeated = (lines[place % len(lines)] + "\n" for place in range(count))
        with (directory / f"train.{name}").open("w", encoding="utf-8") as file:
            file.writelines(repeated)
    config = directory / "config.toml"
    config.write_text(
        f"[data]\ntrain = '{directory / 'train'}'\nvalid = '{directory / 'train'}'\nsrc = 'src'\ntgt = 'tgt'\n"
        f"[tokenizer]\npath = '{run / 'tokenizer.json'}'\n[train]\nmax_steps = 1\n", encoding="utf-8",
    )
    return config


def measure(options, directory):
    result = machine(options.threads)
    sides = [read_lines(f"{options.data}.{side}") for side in (options.src, options.tgt)]
    tokenizer = Tokenizer.from_file(str(options.run / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    same_ids = check_same_ids(options.run, tokenizer, sides)
    config = write_config(directory, options.run, sides, options.pairs)
    encoders = {
        "tokenizers encode_batch": tokenizer.encode_batch, "tokenizers encode_batch_fast": tokenizer.encode_batch_fast,
    }
    for kind in ("bpe", "unigram"):
        model = sentencepiece_model(directory, sides, kind, tokenizer.get_vocab_size())
        encoders[f"sentencepiece {kind}"] = lambda lines, model=model: model.encode(lines, num_threads=options.threads)

    def ours():
        return json.loads(polyglow(options.program, "bench", "data", config, "--json", threads=options.threads)[1])

    def theirs(encode):
        return lambda: pairs_per_second(encode, sides, options.pairs)

    found = in_turns(options.rounds, {name: theirs(encode) for name, encode in encoders.items()} | {"polyglow": ours})
    reports = found.pop("polyglow")
    rates = [report["encode_pairs_per_second"] for report in reports]
    result |= {
        "versions": versions("tokenizers", "sentencepiece"), "pairs": options.pairs, "same_ids": same_ids,
        "polyglow": spread(rates), "peers": {}, "ours": {},
    }
    for name, peer in found.items():
        result["peers"][name] = {"pairs_per_second": spread(peer), "ratio": ratio(rates, peer)}
    for key in ("cache_pairs_per_second", "batched_pairs_per_second"):
        result["ours"][key] = spread([report[key] for report in reports])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the polyglow program")
    parser.add_argument("run", type=pathlib.Path, help="a run that was trained on the text")
    parser.add_argument("--data", required=True, help="the training text of the run, a prefix")
    parser.add_argument("--src", default="en")
    parser.add_argument("--tgt", default="de")
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    options.run = options.run.resolve()
    # The libraries read these at their first use.
    os.environ.update(environment(options.threads))
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, pathlib.Path(directory))
    print(describe(result))
    print(f"{result['same_ids']} ids of {options.data} are the same as those of Python's `tokenizers`")
    rows = [
        (name, written(peer["pairs_per_second"]), written(result["polyglow"]), written(peer["ratio"], 2))
        for name, peer in result["peers"].items()
    ]
    print(table(["pairs/s", "theirs", "polyglow", "ours / theirs"], rows))
    cache, batches = result["ours"].values()
    print(f"polyglow writes the id cache at {written(cache)} pairs/s, and makes batches of {written(batches)} pairs/s")
    save(result, options.json)


if __name__ == "__main__":
    main()
