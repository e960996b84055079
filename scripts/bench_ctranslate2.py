#!/usr/bin/env python3
"""Translates a file with a run's model in CTranslate2 and in polyglow, in turns, and compares rates and output.

    pip install ctranslate2 tokenizers sacrebleu
    python scripts/bench_ctranslate2.py target/release/polyglow runs/my input.en --ref reference.de --threads 2

The weights are the same: those of the checkpoint, as `polyglow export` writes them. CTranslate2 runs in f32 and with int8
weights. Rates are of target tokens of the best hypotheses, without starting the program and reading the model in both
cases: ours is timed on the file and on its first line alone, and the difference counts. Both work on one batch for each thread,
which for small models is faster than all threads on one batch. `--ours-int8 NAME` also times the
checkpoint of that name, which `polyglow quantize` made of the same weights. Models with a shared vocabulary only.

A model that is hardly trained does not end its translations. `--tokens N` compares rates with one all the same: of the text it takes
the lines of the most frequent length, and all translations have N tokens, or ours up to ten fewer if the model ends them.
"""

import argparse
import collections
import pathlib
import subprocess
import tempfile
import time
import tomllib

import ctranslate2
from measurement import describe, in_turns, machine, ratio, read_lines, save, spread, translation, versions
from tokenizers import Tokenizer


def theirs(translator, sources, beam_size: int, max_tokens: int, tokens: int | None):
    started = time.monotonic()
    results = translator.translate_batch(
        sources, beam_size=beam_size, length_penalty=1.0, max_batch_size=max_tokens, batch_type="tokens",
        min_decoding_length=tokens or 1, max_decoding_length=tokens or 512,
    )
    return time.monotonic() - started, [result.hypotheses[0] for result in results]


def bleu(hypotheses, reference):
    import sacrebleu

    return sacrebleu.corpus_bleu(hypotheses, [read_lines(reference)], tokenize="none", force=True).score


def of_one_length(tokenizer, lines):
    """The lines of the most frequent length in tokens, and that length."""
    lengths = [len(tokenizer.encode(line).tokens) for line in lines]
    length, _ = collections.Counter(lengths).most_common(1)[0]
    return [line for line, found in zip(lines, lengths, strict=True) if found == length], length


def measure(options, tokenizer, translators, beam_size: int) -> dict:
    """Rates and output of each way to translate, in turns, and how ours compares with the others."""
    sources = [tokenizer.encode(line).tokens for line in read_lines(options.text)]
    lengths = []
    if options.tokens:
        # Ours may have ten more than the ratio says, which is rounded up.
        ratio_of_lengths = (options.tokens - 10.5) / len(sources[0])
        lengths = [word for end in ("min", "max") for word in ("--set", f"search.{end}_len_ratio={ratio_of_lengths}")]
    max_tokens = tomllib.loads((options.run / "config.toml").read_text())["train"]["max_tokens"]

    def rate(seconds, lines):
        """Of both programs from their text, which may have other tokens than those that a hardly trained model wrote it with."""
        return sum(len(tokenizer.encode(line).tokens) for line in lines) / seconds, lines

    def peer(translator):
        def run():
            seconds, hypotheses = theirs(translator, sources, beam_size, max_tokens, options.tokens)
            ids = [[tokenizer.token_to_id(token) for token in tokens] for tokens in hypotheses]
            return rate(seconds, tokenizer.decode_batch(ids))

        return run

    def ours(checkpoint):
        def run():
            return rate(*translation(options.program, options.run, options.text, options.threads, "--beam-size",
                                     beam_size, "--checkpoint", checkpoint, *lengths))

        return run

    ways = {kind: peer(translator) for kind, translator in translators.items()} | {"ours": ours(options.checkpoint)}
    if options.ours_int8:
        ways["our int8"] = ours(options.ours_int8)
    found = in_turns(options.rounds, ways)
    rates = {kind: [rate for rate, _ in results] for kind, results in found.items()}
    texts = {kind: results[-1][1] for kind, results in found.items()}
    rows = {}
    for kind, text in texts.items():
        same = sum(left == right for left, right in zip(text, texts["ours"], strict=True)) / len(sources)
        rows[kind] = {"rate": spread(rates[kind]), "ratio": ratio(rates["ours"], rates[kind]), "same_lines": same}
        if options.ref:
            rows[kind]["bleu"] = bleu(text, options.ref)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--ours-int8", metavar="NAME", help="a checkpoint of `polyglow quantize`, as `int8`")
    parser.add_argument("--ref", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, metavar="N", help="the length of all translations, above 10")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--json", metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    if options.tokens and (options.tokens <= 10 or options.ref):
        parser.error("--tokens takes more than 10, and translations of one length are not compared with --ref")
    tokenizer = Tokenizer.from_file(str(options.run / "tokenizer.json"))
    result = machine(options.threads) | {"versions": versions("ctranslate2", "tokenizers"), "beams": {}}
    print(describe(result))
    with tempfile.TemporaryDirectory() as directory:
        if options.tokens:
            lines, length = of_one_length(tokenizer, read_lines(options.text))
            options.text = pathlib.Path(directory) / "text"
            options.text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            print(f"{len(lines)} lines of {length} tokens")
        model = pathlib.Path(directory) / "model"
        subprocess.run([options.program, "export", options.run, "--to", "ctranslate2", "--checkpoint", options.checkpoint,
                        "--verify", "0", "--out", model], check=True)
        translators = {
            kind: ctranslate2.Translator(
                str(model), device="cpu", compute_type=kind, inter_threads=options.threads, intra_threads=1
            )
            for kind in ("float32", "int8")
        }
        for beam_size in options.beams:
            rows = measure(options, tokenizer, translators, beam_size)
            result["beams"][beam_size] = rows
            for kind, row in rows.items():
                score = f"  BLEU {row['bleu']:.2f}" if "bleu" in row else ""
                print(f"beam {beam_size}  {kind:8} {row['rate']['median']:8.0f} target tokens/s, "
                      f"{row['ratio']['median']:.2f} of it is our rate; {row['same_lines']:.1%} of lines as ours{score}")
    save(result, options.json)


if __name__ == "__main__":
    main()
