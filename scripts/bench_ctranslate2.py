#!/usr/bin/env python3
"""Translates a file with a run's model in CTranslate2 and in polyglow, in turns, and compares rates and output.

    pip install ctranslate2 tokenizers safetensors sacrebleu
    python scripts/bench_ctranslate2.py target/release/polyglow runs/my input.en --ref reference.de --threads 2

The weights are the same: those of the checkpoint, converted here, with our table of positions. CTranslate2 runs in f32
and with int8 weights. Rates are of target tokens of the best hypotheses, without starting the program and reading the
model in both cases: ours is timed on the file and on its first line alone, and the difference counts. Models with
sinusoidal positions, ReLU or GELU, and a shared vocabulary only.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ROUNDS = 3
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


def ours(options, file: pathlib.Path, beam_size: int):
    command = [options.program, "-q", "translate", str(options.run), str(file), "--beam-size", str(beam_size),
               "--checkpoint", options.checkpoint]
    started = time.monotonic()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return time.monotonic() - started, output.splitlines()


def bleu(hypotheses, reference):
    if reference is None:
        return ""
    import sacrebleu

    lines = reference.read_text(encoding="utf-8").splitlines()
    return f"  BLEU {sacrebleu.corpus_bleu(hypotheses, [lines], tokenize='none', force=True).score:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--ref", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.run / "tokenizer.json"))
    lines = options.text.read_text(encoding="utf-8").splitlines()
    sources = [tokenizer.encode(line).tokens for line in lines]
    max_tokens = tomllib.loads((options.run / "config.toml").read_text())["train"]["max_tokens"]
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        convert(options.run, options.checkpoint, directory / "model")
        first = directory / "first"
        first.write_text(lines[0] + "\n", encoding="utf-8")
        translators = {
            kind: ctranslate2.Translator(
                str(directory / "model"), device="cpu", compute_type=kind, inter_threads=1, intra_threads=options.threads
            )
            for kind in ("float32", "int8")
        }
        for beam_size in options.beams:
            times = {kind: [] for kind in (*translators, "ours")}
            texts, counts = {}, {}
            for _ in range(ROUNDS):
                for kind, translator in translators.items():
                    seconds, hypotheses = theirs(translator, sources, beam_size, max_tokens)
                    times[kind].append(seconds)
                    counts[kind] = sum(len(tokens) for tokens in hypotheses)
                    ids = [[tokenizer.token_to_id(token) for token in tokens] for tokens in hypotheses]
                    texts[kind] = tokenizer.decode_batch(ids)
                seconds, output = ours(options, options.text, beam_size)
                start, _ = ours(options, first, beam_size)
                times["ours"].append(seconds - start)
                texts["ours"] = output
                counts["ours"] = sum(len(tokenizer.encode(line).tokens) for line in output)
            rate = {kind: counts[kind] / statistics.median(seconds) for kind, seconds in times.items()}
            for kind in times:
                same = sum(left == right for left, right in zip(texts[kind], texts["ours"])) / len(lines)
                print(f"beam {beam_size}  {kind:8} {rate[kind]:8.0f} target tokens/s, {rate['ours'] / rate[kind]:.2f} of "
                      f"it is our rate; {same:.1%} of lines as ours{bleu(texts[kind], options.ref)}")


if __name__ == "__main__":
    main()
