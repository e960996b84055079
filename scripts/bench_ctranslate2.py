#!/usr/bin/env python3
"""Translates a file with a run's model in CTranslate2 and in polyglow, in turns, and compares rates and output.

    pip install ctranslate2 tokenizers safetensors sacrebleu
    python scripts/bench_ctranslate2.py target/release/polyglow runs/my input.en --ref reference.de --threads 2

The weights are the same: those of the checkpoint, converted here, with our table of positions. CTranslate2 runs in f32
and with int8 weights. Rates are of target tokens of the best hypotheses, without starting the program and reading the
model in both cases: ours is timed on the file and on its first line alone, and the difference counts. `--ours-int8 NAME`
also times the checkpoint of that name, which `polyglow quantize` made of the same weights. Models with
sinusoidal positions, ReLU or GELU, and a shared vocabulary only.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import time
import tomllib

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from measurement import describe, in_turns, machine, ratio, read_lines, save, spread, translation, versions
from safetensors.numpy import load_file
from tokenizers import Tokenizer

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def positions(length: int, d_model: int) -> np.ndarray:
    """Sines at even and cosines at odd places (Vaswani et al., 2017, section 3.5)."""
    angles = np.arange(length)[:, None] * np.exp(np.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))[None, :]
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model).astype(np.float32)


def convert(run: pathlib.Path, checkpoint: str, out: pathlib.Path) -> None:
    model = tomllib.loads((run / "config.toml").read_text())["model"]
    weights = load_file(run / "checkpoints" / checkpoint / "model.safetensors")
    if model["position"] != "sinusoidal" or model["activation"] == "swiglu" or model["tie_embeddings"] != "all":
        sys.exit("error: only sinusoidal positions, relu or gelu, and tie_embeddings = \"all\" are converted")
    activation = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}[model["activation"]]
    layers = model["num_encoder_layers"], model["num_decoder_layers"]
    spec = transformer_spec.TransformerSpec.from_config(
        layers, model["num_heads"], pre_norm=model["norm"] == "pre", activation=activation
    )
    embedding = weights["src_embedding.weight"]
    table = positions(1024, embedding.shape[1])

    def linear(target, name):
        target.weight, target.bias = np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]

    def norm(target, name):
        target.gamma, target.beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
        embeddings.weight, stack.position_encodings.encodings = embedding, table
        if model["norm"] == "pre":
            norm(stack.layer_norm, f"{side}.norm")
        for number, layer in enumerate(stack.layer):
            name = f"{side}.layers.{number}"
            linear(layer.self_attention.linear[0], f"{name}.self_attention.qkv")
            linear(layer.self_attention.linear[1], f"{name}.self_attention.output")
            norm(layer.self_attention.layer_norm, f"{name}.self_attention_residual.norm")
            if side == "decoder":
                for place, part in enumerate(("query", "key_value", "output")):
                    linear(layer.attention.linear[place], f"{name}.cross_attention.{part}")
                norm(layer.attention.layer_norm, f"{name}.cross_attention_residual.norm")
            linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
            linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
            norm(layer.ffn.layer_norm, f"{name}.feed_forward_residual.norm")
    spec.decoder.projection.weight = embedding
    vocabulary = json.loads((run / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = SPECIAL + [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1]) if token not in SPECIAL]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize()
    out.mkdir()
    spec.save(str(out))


def theirs(translator, sources, beam_size: int, max_tokens: int):
    started = time.monotonic()
    results = translator.translate_batch(
        sources, beam_size=beam_size, length_penalty=1.0, max_batch_size=max_tokens, batch_type="tokens",
        max_decoding_length=512,
    )
    return time.monotonic() - started, [result.hypotheses[0] for result in results]


def bleu(hypotheses, reference):
    import sacrebleu

    return sacrebleu.corpus_bleu(hypotheses, [read_lines(reference)], tokenize="none", force=True).score


def measure(options, tokenizer, translators, beam_size: int) -> dict:
    """Rates and output of each way to translate, in turns, and how ours compares with the others."""
    sources = [tokenizer.encode(line).tokens for line in read_lines(options.text)]
    max_tokens = tomllib.loads((options.run / "config.toml").read_text())["train"]["max_tokens"]

    def peer(translator):
        def run():
            seconds, hypotheses = theirs(translator, sources, beam_size, max_tokens)
            ids = [[tokenizer.token_to_id(token) for token in tokens] for tokens in hypotheses]
            return sum(map(len, hypotheses)) / seconds, tokenizer.decode_batch(ids)

        return run

    def ours(checkpoint):
        def run():
            seconds, lines = translation(options.program, options.run, options.text, options.threads, "--beam-size",
                                         beam_size, "--checkpoint", checkpoint)
            return sum(len(tokenizer.encode(line).tokens) for line in lines) / seconds, lines

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
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--json", metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.run / "tokenizer.json"))
    result = machine(options.threads) | {"versions": versions("ctranslate2", "tokenizers"), "beams": {}}
    print(describe(result))
    with tempfile.TemporaryDirectory() as directory:
        model = pathlib.Path(directory) / "model"
        convert(options.run, options.checkpoint, model)
        translators = {
            kind: ctranslate2.Translator(
                str(model), device="cpu", compute_type=kind, inter_threads=1, intra_threads=options.threads
            )
            for kind in ("float32", "int8")
        }
        checkpoints = {"ours": options.checkpoint}
        if options.ours_int8:
            checkpoints["our int8"] = options.ours_int8
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
