#!/usr/bin/env python3
"""Trains and translates with JoeyNMT and with polyglow, in turns: the same model, vocabulary, text and batch size.

    python3.11 -m venv joeynmt
    joeynmt/bin/pip install joeynmt==2.3.0 torch==2.3.1 'numpy<2' 'setuptools<81' importlib_metadata \\
        tokenizers==0.23.3 safetensors
    joeynmt/bin/python scripts/bench_joeynmt.py target/release/polyglow runs/multi30k-en-de --checkpoint average \\
        --data datasets/multi30k-en-de/tok-lc/train --test datasets/multi30k-en-de/tok-lc/test_2016_flickr --threads 2

The run gives the shape of the model, its weights, the vocabulary and the batch size. JoeyNMT reads text that is already
split into subwords, and its tokens are ours; we read the plain text and split it.

Training is timed from one update to the next, so data, forward, backward, update and, for us, the report are in it and
building the vocabulary is not. Rates are of target tokens without padding, which are counted here in JoeyNMT's batches;
ours are those that the program reports for the same text, and over a whole epoch they must add up to what is counted
here. Batches hold the same number of places, padding included, on both sides.

Translation is from the same weights, converted here. Rates are of target tokens of the best hypotheses, without starting
the program and reading the model. Models with post-norm, sinusoidal positions, ReLU or GELU and a shared vocabulary only.
"""

import argparse
import json
import logging
import pathlib
import tempfile
import time
import tomllib

import torch
from joeynmt.config import parse_global_args
from joeynmt.prediction import predict, prepare
from joeynmt.training import TrainManager
from measurement import (
    describe, in_turns, machine, polyglow, ratio, read_lines, save, spread, table, translation, versions,
    written,
)
from safetensors.torch import load_file
from tokenizers import Tokenizer

SPECIAL = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
# JoeyNMT's first ids; ours are pad, bos, eos, unk.
ORDER = [3, 0, 1, 2]


def write_text(directory, tokenizer, options):
    """Writes the vocabulary, and training and test text as subwords with spaces between them."""
    tokens = [tokenizer.id_to_token(place) for place in range(tokenizer.get_vocab_size())]
    (directory / "vocabulary").write_text("\n".join([*SPECIAL.values(), *tokens[len(ORDER):]]) + "\n", encoding="utf-8")
    counts = {}
    for name, prefix in (("train", options.data), ("test", options.test)):
        for side in (options.src, options.tgt):
            lines = read_lines(f"{prefix}.{side}")
            encoded = tokenizer.encode_batch(lines)
            text = "".join(" ".join(encoding.tokens) + "\n" for encoding in encoded)
            (directory / f"{name}.{side}").write_text(text, encoding="utf-8")
            (directory / f"plain.{name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            counts[name, side] = sum(len(encoding.ids) + 1 for encoding in encoded)
    return counts


def their_config(directory, model, train, options):
    """JoeyNMT's configuration for the model and the optimizer of our run."""
    def stack(num_layers):
        embeddings = {"embedding_dim": model["d_model"], "scale": True, "dropout": model["dropout"]}
        return {
            "type": "transformer", "num_layers": num_layers, "num_heads": model["num_heads"], "embeddings": embeddings,
            "hidden_size": model["d_model"], "ff_size": model["d_ff"], "dropout": model["dropout"],
            "layer_norm": "post", "activation": model["activation"],
        }

    def side(lang):
        return {"lang": lang, "level": "word", "voc_file": str(directory / "vocabulary")}

    special = {f"{name}_{kind}": value for place, (name, token) in enumerate(SPECIAL.items())
               for kind, value in (("id", place), ("token", token))}
    return {
        "name": "bench", "model_dir": str(directory), "use_cuda": False, "joeynmt_version": "2.3.0",
        "data": {"train": str(directory / "train"), "dev": str(directory / "test"), "dataset_type": "plain",
                 "src": side(options.src), "trg": side(options.tgt), "special_symbols": special},
        "model": {"tied_embeddings": True, "tied_softmax": True, "encoder": stack(model["num_encoder_layers"]),
                  "decoder": stack(model["num_decoder_layers"])},
        "training": {
            "optimizer": "adam", "adam_betas": train["betas"], "learning_rate": train["lr"], "normalization": "tokens",
            "label_smoothing": train["label_smoothing"], "clip_grad_norm": train["clip_norm"],
            "learning_rate_min": 0.0, "batch_size": train["max_tokens"], "batch_type": "token", "epochs": 1000,
            "updates": options.warmup + options.updates + 1, "validation_freq": 10**9, "logging_freq": 1000,
            "scheduling": "warmupinversesquareroot", "learning_rate_warmup": train["warmup_steps"],
        },
        "testing": {"batch_size": options.sentences, "batch_type": "sentence", "max_output_length": 200, "beam_alpha": 1.0},
    }


def converted(weights, model):
    """Our weights under JoeyNMT's names."""
    rows = ORDER + list(range(len(ORDER), weights["src_embedding.weight"].shape[0]))
    embedding = weights["src_embedding.weight"][rows]
    theirs = dict.fromkeys(["src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"], embedding)

    def linear(names, name):
        matrices, biases = weights[f"{name}.weight"].T.chunk(len(names)), weights[f"{name}.bias"].chunk(len(names))
        for target, matrix, bias in zip(names, matrices, biases, strict=True):
            theirs[f"{target}.weight"], theirs[f"{target}.bias"] = matrix, bias

    def norm(target, name):
        theirs[f"{target}.weight"], theirs[f"{target}.bias"] = weights[f"{name}.gamma"], weights[f"{name}.beta"]

    for side, attention, first_norm in (
        ("encoder", "src_src_att", "layer_norm"), ("decoder", "trg_trg_att", "x_layer_norm")
    ):
        for number in range(model[f"num_{side}_layers"]):
            layer = f"{side}.layers.{number}"
            linear([f"{layer}.{attention}.{part}_layer" for part in "qkv"], f"{layer}.self_attention.qkv")
            linear([f"{layer}.{attention}.output_layer"], f"{layer}.self_attention.output")
            norm(f"{layer}.{first_norm}", f"{layer}.self_attention_residual.norm")
            if side == "decoder":
                linear([f"{layer}.src_trg_att.q_layer"], f"{layer}.cross_attention.query")
                linear([f"{layer}.src_trg_att.{part}_layer" for part in "kv"], f"{layer}.cross_attention.key_value")
                linear([f"{layer}.src_trg_att.output_layer"], f"{layer}.cross_attention.output")
                norm(f"{layer}.dec_layer_norm", f"{layer}.cross_attention_residual.norm")
            linear([f"{layer}.feed_forward.pwff_layer.0"], f"{layer}.feed_forward.inner")
            linear([f"{layer}.feed_forward.pwff_layer.3"], f"{layer}.feed_forward.outer")
            norm(f"{layer}.feed_forward.layer_norm", f"{layer}.feed_forward_residual.norm")
    return theirs


class TimedTrainer(TrainManager):
    """Notes when each update begins, and how many target tokens it learns from."""

    def _train_step(self, batch):
        tokens = int((batch.trg != self.model.pad_index).sum())
        self.begun = [*getattr(self, "begun", []), (time.perf_counter(), tokens)]
        return super()._train_step(batch)


class Theirs:
    """JoeyNMT with its data, its model and our weights."""

    def __init__(self, config, weights, options):
        self.options, self.args = options, parse_global_args(config, mode="train")
        self.model, self.train_data, self.test_data, _ = prepare(self.args, rank=0, mode="train")
        self.weights = converted(weights, tomllib.loads((options.run / "config.toml").read_text())["model"])

    def train(self):
        """Target tokens a second, from the first update after the warm-up to the last."""
        trainer = TimedTrainer(
            rank=0, model=self.model, model_dir=self.args.model_dir, device=self.args.device, seed=self.args.seed,
            autocast=self.args.autocast, train_args=self.args.train, dev_args=self.args.test,
        )
        trainer.train_and_validate(train_data=self.train_data, valid_data=self.test_data)
        (start, _), *_, (end, _) = measured = trainer.begun[self.options.warmup:]
        return sum(tokens for _, tokens in measured[:-1]) / (end - start)

    def translate(self, beam_size):
        """Target tokens a second of the best hypotheses, and their tokens."""
        missing = self.model.load_state_dict(self.weights, strict=False).missing_keys
        if any(not name.endswith(".pe") for name in missing):
            raise SystemExit(f"error: no weights for {missing}")
        args = self.args.test._replace(beam_size=beam_size)
        started = time.perf_counter()
        tokens = predict(self.model, self.test_data, self.args.device, 0, args=args, autocast=self.args.autocast)[3]
        seconds = time.perf_counter() - started
        tokens = [[token for token in line if token not in SPECIAL.values()] for line in tokens]
        return sum(map(len, tokens)) / seconds, tokens


def our_training(directory, tokenizer, expected, options):
    """Target tokens a second of our training, without its first reports: the first batches allocate memory."""
    prefix = directory / "plain.train"
    tiny = directory / "tiny"
    for side in (options.src, options.tgt):
        tiny.with_suffix(f".{side}").write_text(read_lines(f"{prefix}.{side}")[0] + "\n", encoding="utf-8")
    run = pathlib.Path(tempfile.mkdtemp(dir=directory)) / "run"
    length = f"train.max_steps={options.our_updates}" if options.our_updates else "train.max_epochs=1"
    config = directory / "config.toml"
    text = (options.run / "config.toml").read_text(encoding="utf-8")
    removed = ("max_steps", "max_epochs", "path", "test")
    kept = [line for line in text.splitlines() if line.split("=")[0].strip() not in removed]
    config.write_text("\n".join(kept) + "\n", encoding="utf-8")
    settings = [
        f"data.train='{prefix}'", f"data.valid='{tiny}'", f"tokenizer.path='{options.run / 'tokenizer.json'}'", length,
        "train.accumulate_steps=1", "train.log_every=5", "train.save_every=1000000", "train.validate_every=1000000",
    ]
    overrides = [part for setting in settings for part in ("--set", setting)]
    polyglow(options.program, "-q", "train", config, "--run", run, *overrides, threads=options.threads)
    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    reports = [report for report in reports if report["kind"] == "train"]
    tokens = sum(report["tokens"] for report in reports)
    if not options.our_updates and not 0.98 * expected <= tokens <= expected:
        raise SystemExit(f"error: polyglow reports {tokens} target tokens in an epoch, but the text has {expected}")
    counted = reports[options.warmup:]
    return sum(report["tokens"] for report in counted) / sum(report["seconds"] for report in counted)


def our_translation(directory, tokenizer, beam_size, options):
    """As `Theirs.translate`, ours."""
    file = directory / f"plain.test.{options.src}"
    seconds, lines = translation(options.program, options.run, file, options.threads, "--beam-size", beam_size,
                                 "--checkpoint", options.checkpoint)
    return sum(len(encoding.ids) for encoding in tokenizer.encode_batch(lines)) / seconds, lines


def measure(options, directory):
    tokenizer = Tokenizer.from_file(str(options.run / "tokenizer.json"))
    config = tomllib.loads((options.run / "config.toml").read_text(encoding="utf-8"))
    model = config["model"]
    if (model["norm"], model["position"], model["tie_embeddings"]) != ("post", "sinusoidal", "all"):
        raise SystemExit('error: only norm = "post", position = "sinusoidal" and tie_embeddings = "all" are converted')
    counts = write_text(directory, tokenizer, options)
    weights = load_file(options.run / "checkpoints" / options.checkpoint / "model.safetensors")
    theirs = Theirs(their_config(directory, model, config["train"], options), weights, options)
    result = machine(options.threads) | {"versions": versions("joeynmt", "torch", "tokenizers"), "rows": []}

    def add(name, rates, **more):
        figures = {kind: spread(values) for kind, values in rates.items()}
        row = {"what": name, "ratio": ratio(rates["polyglow"], rates["joeynmt"])} | figures | more
        result["rows"].append(row)

    expected = counts["train", options.tgt]
    add("training", in_turns(options.rounds, {
        "joeynmt": theirs.train, "polyglow": lambda: our_training(directory, tokenizer, expected, options),
    }))
    for beam_size in options.beams:
        found = in_turns(options.rounds, {
            "joeynmt": lambda: theirs.translate(beam_size),
            "polyglow": lambda: our_translation(directory, tokenizer, beam_size, options),
        })
        ids = [[tokenizer.token_to_id(token) for token in line] for line in found["joeynmt"][-1][1]]
        lines = zip(tokenizer.decode_batch(ids), found["polyglow"][-1][1], strict=True)
        same = sum(left == right for left, right in lines) / len(ids)
        rates = {kind: [rate for rate, _ in values] for kind, values in found.items()}
        add("greedy" if beam_size == 1 else f"beam {beam_size}", rates, same_lines=same)
    return result


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the polyglow program")
    parser.add_argument("run", type=pathlib.Path, help="a trained run: model, weights, tokenizer")
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--data", required=True, help="training text, a prefix")
    parser.add_argument("--test", required=True, help="text to translate, a prefix")
    parser.add_argument("--src", default="en")
    parser.add_argument("--tgt", default="de")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=2, help="JoeyNMT's updates, and our reports, before the clock starts")
    parser.add_argument("--updates", type=int, default=10, help="JoeyNMT's updates in a round")
    parser.add_argument("--our-updates", type=int, help="our updates in a round; an epoch if not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=64, help="sentences that JoeyNMT translates at a time")
    parser.add_argument("--json", metavar="FILE", help="write the figures here, too")
    return parser.parse_args()


def main():
    options = arguments()
    options.run = options.run.resolve()
    torch.set_num_threads(options.threads)
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, pathlib.Path(directory))
    print(describe(result))
    rows = [
        (row["what"], written(row["joeynmt"]), written(row["polyglow"]), written(row["ratio"], 1),
         f"{row['same_lines']:.1%}" if "same_lines" in row else "")
        for row in result["rows"]
    ]
    print(table(["target tokens/s", "JoeyNMT", "polyglow", "ours / theirs", "same lines"], rows))
    save(result, options.json)


if __name__ == "__main__":
    main()
