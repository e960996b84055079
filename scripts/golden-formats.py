#!/usr/bin/env python3
"""Writes what the tests of foreign formats compare with, from the libraries whose formats these are.

    pip install torch transformers sentencepiece safetensors tokenizers ctranslate2 numpy
    python scripts/golden-formats.py

`marian` in tests/golden of polyglow-formats becomes a MarianMT model of a toy language, trained for a minute, in the layout
of OPUS-MT (F32 as `model.safetensors`), with what transformers makes of some sentences in `reference.json`: pieces, ids, greedy
search, a beam of 4 with its scores, and for some sentences logits. As in those models, `vocab.json` is the union of the pieces
of both sides in an order of its own, lacks some pieces, has `</s>` as 0 and `<pad>` last, and `<pad>`, a row of zeros, begins
every decoder input. Beside it are the same weights as both kinds of `pytorch_model.bin`, and a tensor in F16 and BF16.

`ctranslate2.json` holds SHA-256 of what CTranslate2's own converter writes for models of every variant, whose weights are
`weight()` of a tensor's number and place, so that the test makes the same ones.

fuzz/seeds gets the smallest models of each format, and `sentencepiece` of polyglow-data holds unigram models with SentencePiece's normalizations and a BPE model, and how SentencePiece cuts some lines with them.
"""

import hashlib
import io
import itertools
import json
import pathlib
import tempfile

import ctranslate2
import numpy as np
import sentencepiece
import torch
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.torch import save_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

CRATES = pathlib.Path(__file__).resolve().parent.parent / "crates"
OUT = CRATES / "polyglow-formats/tests/golden"
STEPS = 1000

# Marian: a toy language.

NOUNS = {"dog": "Hund", "cat": "Katze", "child": "Kind", "man": "Mann", "woman": "Frau", "bird": "Vogel", "horse": "Pferd"}
ARTICLES = {"Hund": "der den", "Katze": "die die", "Kind": "das das", "Mann": "der den", "Frau": "die die", "Vogel": "der den",
            "Pferd": "das das"}
VERBS = {"sees": "sieht", "hears": "hört", "finds": "findet", "knows": "kennt", "likes": "mag"}
PLACES = {"": "", " in the garden": " im Garten", " at home": " zu Hause", " today": " heute"}
PROBES = ["the dog sees the cat.", "the woman likes the bird today.", "the man", "the zebra sees a dog?", "The  Dog\tsees …",
          "日本 the child", "ﬁnds ½ the", " the horse knows the man in the garden. "]
# Of so many probes the reference has logits.
WITH_LOGITS = 3


def corpus() -> list[tuple[str, str]]:
    pairs = []
    for subject, verb, thing, place in itertools.product(NOUNS, VERBS, NOUNS, PLACES):
        first, second = ARTICLES[NOUNS[subject]].split()[0], ARTICLES[NOUNS[thing]].split()[1]
        pairs.append((f"the {subject} {verb} the {thing}{place}.",
                      f"{first} {NOUNS[subject]} {VERBS[verb]} {second} {NOUNS[thing]}{PLACES[place]}."))
    return pairs


def train_spm(lines: list[str], size: int, normalization: str, kind: str = "unigram", **options) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=size, character_coverage=1.0,
        normalization_rule_name=normalization, hard_vocab_limit=False, num_threads=1, minloglevel=2, **options,
    )
    return model.getvalue()


def vocabulary(models: list[bytes]) -> dict[str, int]:
    """The union of the pieces of both sides, less the rarest of each."""
    sides = []
    for model in models:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        sides.append([processor.id_to_piece(number) for number in range(3, processor.get_piece_size())])
    kept = sorted({piece for side in sides for piece in side[:-1]} - {side[-1] for side in sides})
    return {token: number for number, token in enumerate(["</s>", "<unk>", *kept, "<pad>"])}


def learn(model, tokenizer, pairs) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for step in range(STEPS):
        chosen = [pairs[number * 7 % len(pairs)] for number in range(step * 64, step * 64 + 64)]
        batch = tokenizer([pair[0] for pair in chosen], text_target=[pair[1] for pair in chosen], return_tensors="pt", padding=True)
        batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def answers(model, tokenizer, text: str, with_logits: bool) -> dict:
    batch = tokenizer([text], return_tensors="pt")
    greedy = model.generate(**batch, num_beams=1, do_sample=False, max_length=24)
    beam = model.generate(**batch, num_beams=4, num_return_sequences=4, max_length=24, return_dict_in_generate=True,
                          output_scores=True)
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=greedy[:, :-1]).logits[0]
    return {
        "source": text,
        "pieces": tokenizer.tokenize(text),
        "source_ids": batch["input_ids"][0].tolist(),
        "decoder_input_ids": greedy[0, :-1].tolist(),
        **({"logits": [[float(f"{value:.7g}") for value in row] for row in logits.tolist()]} if with_logits else {}),
        "greedy_ids": greedy[0].tolist(),
        "greedy_text": tokenizer.decode(greedy[0], skip_special_tokens=True),
        "beam_scores": beam.sequences_scores.tolist(),
        "beam_texts": tokenizer.batch_decode(beam.sequences, skip_special_tokens=True),
    }


def marian(out: pathlib.Path) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    pairs = corpus()
    models = [train_spm([pair[side] for pair in pairs], size, "identity") for side, size in ((0, 60), (1, 70))]
    for name, model in zip(("source.spm", "target.spm"), models):
        (out / name).write_bytes(model)
    vocab = vocabulary(models)
    (out / "vocab.json").write_text(json.dumps(vocab, indent=1, ensure_ascii=False))
    files = [str(out / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = MarianTokenizer(*files, source_lang="en", target_lang="de")
    pad = len(vocab) - 1
    config = MarianConfig(
        vocab_size=len(vocab), decoder_vocab_size=len(vocab), d_model=24, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=36, decoder_ffn_dim=36,
        activation_function="swish", max_position_embeddings=64, scale_embedding=True, dropout=0.0, pad_token_id=pad,
        decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0, bos_token_id=None, init_std=0.1,
    )
    model = MarianMTModel(config)
    learn(model, tokenizer, pairs)
    with torch.no_grad():  # nothing at its neutral value, or an importer could leave it out unnoticed
        model.final_logits_bias.normal_(0.0, 0.05)
        model.final_logits_bias[0, pad] = 0.0
        for stack in (model.get_encoder(), model.get_decoder()):
            stack.embed_tokens.weight[pad] = 0.0
    model.generation_config = GenerationConfig(
        bad_words_ids=[[pad]], decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0, max_length=64, num_beams=4,
        pad_token_id=pad, renormalize_logits=True,
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    model, tokenizer = MarianMTModel.from_pretrained(out).eval(), MarianTokenizer.from_pretrained(out)
    examples = [answers(model, tokenizer, text, place < WITH_LOGITS) for place, text in enumerate(PROBES)]
    (out / "reference.json").write_text(json.dumps({"examples": examples}, ensure_ascii=False, indent=1))
    for example in examples:
        print(f"{example['source']!r} -> {example['greedy_text']!r}")
    # PyTorch's own files, of all tensors: the test says that they hold what `model.safetensors` holds.
    state = {name: tensor for name, tensor in model.state_dict().items() if "embed_positions" not in name}
    torch.save(state, out / "pytorch_model.bin")
    torch.save(state, out / "pytorch_model.old.bin", _use_new_zipfile_serialization=False)
    small = {"norm": model.get_encoder().layers[0].final_layer_norm.weight.detach().clone()}
    for name, kind in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        save_file({key: value.to(kind) for key, value in small.items()}, out / f"{name}.safetensors")
    for path in out.iterdir():
        path.chmod(0o644)


# CTranslate2: the converter's bytes.

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
SIZES = {"d_model": 8, "d_ff": 12, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2}
VARIANTS = [  # norm, activation, position, tied, shared
    ("post", "relu", "sinusoidal", "all"), ("pre", "gelu", "learned", "decoder"), ("pre", "swiglu", "none", "none"),
    ("post", "swish", "sinusoidal", "all"),
]
ACTIVATIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU, "swiglu": common_spec.Activation.SWISH,
               "swish": common_spec.Activation.SWISH}
VOCABULARIES, MAX_LEN = (17, 19), 20


def weight(tensor: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers between -1 and 1 that any program computes alike: they are exact."""
    place = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((place * 7919 + tensor * 104729 + 13) % 2048 - 1024) / 1024).astype(np.float32).reshape(shape)


def sinusoids(rows: int, d_model: int) -> np.ndarray:
    angles = np.arange(rows)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)[None, :]
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(rows, d_model).astype(np.float32)


def parameters(norm: str, activation: str, position: str, tied: str) -> dict[str, np.ndarray]:
    """Weights by polyglow's names, numbered in the order of the names."""
    d, d_ff, shapes = SIZES["d_model"], SIZES["d_ff"], {}

    def linear(name, inputs, outputs):
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (inputs, outputs), (outputs,)

    def norm_of(name):
        shapes[f"{name}.gamma"] = shapes[f"{name}.beta"] = (d,)

    sizes = (VOCABULARIES[0],) * 2 if tied == "all" else VOCABULARIES
    shapes["src_embedding.weight"] = (sizes[0], d)
    if tied != "all":
        shapes["tgt_embedding.weight"] = (sizes[1], d)
    if tied == "none":
        shapes["output.weight"] = (d, sizes[1])
    if activation == "swish":
        shapes["output_bias"] = (sizes[1],)
    for side, layers in (("encoder", SIZES["num_encoder_layers"]), ("decoder", SIZES["num_decoder_layers"])):
        if position == "learned":
            shapes[f"{'src' if side == 'encoder' else 'tgt'}_position.weight"] = (MAX_LEN, d)
        if norm == "pre":
            norm_of(f"{side}.norm")
        for number in range(layers):
            name = f"{side}.layers.{number}"
            linear(f"{name}.self_attention.qkv", d, 3 * d), linear(f"{name}.self_attention.output", d, d)
            norm_of(f"{name}.self_attention_residual.norm")
            if side == "decoder":
                linear(f"{name}.cross_attention.query", d, d), linear(f"{name}.cross_attention.key_value", d, 2 * d)
                linear(f"{name}.cross_attention.output", d, d), norm_of(f"{name}.cross_attention_residual.norm")
            linear(f"{name}.feed_forward.inner", d, d_ff), linear(f"{name}.feed_forward.outer", d_ff, d)
            if activation == "swiglu":
                linear(f"{name}.feed_forward.gate", d, d_ff)
            norm_of(f"{name}.feed_forward_residual.norm")
    return {name: weight(number, shape) for number, (name, shape) in enumerate(sorted(shapes.items()))}


def specification(weights: dict, norm: str, activation: str, position: str, tied: str):
    """CTranslate2's own specification, filled in by hand."""
    spec = transformer_spec.TransformerSpec.from_config(
        (SIZES["num_encoder_layers"], SIZES["num_decoder_layers"]), SIZES["num_heads"], pre_norm=norm == "pre",
        activation=ACTIVATIONS[activation], ffn_glu=activation == "swiglu", alignment_layer=-1, alignment_heads=0,
    )

    def linear(target, name):
        target.weight, target.bias = np.ascontiguousarray(weights[f"{name}.weight"].T), weights[f"{name}.bias"]

    def norm_of(target, name):
        target.gamma, target.beta = weights[f"{name}.gamma"], weights[f"{name}.beta"]

    table = sinusoids(1024, SIZES["d_model"]) if position == "sinusoidal" else np.zeros((1024, SIZES["d_model"]), np.float32)
    for side, short, stack in (("encoder", "src", spec.encoder), ("decoder", "tgt", spec.decoder)):
        embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
        embeddings.weight = weights["src_embedding.weight" if tied == "all" else f"{short}_embedding.weight"]
        stack.position_encodings.encodings = weights[f"{short}_position.weight"] if position == "learned" else table
        if norm == "pre":
            norm_of(stack.layer_norm, f"{side}.norm")
        for number, layer in enumerate(stack.layer):
            name = f"{side}.layers.{number}"
            linear(layer.self_attention.linear[0], f"{name}.self_attention.qkv")
            linear(layer.self_attention.linear[1], f"{name}.self_attention.output")
            norm_of(layer.self_attention.layer_norm, f"{name}.self_attention_residual.norm")
            if side == "decoder":
                for place, part in enumerate(("query", "key_value", "output")):
                    linear(layer.attention.linear[place], f"{name}.cross_attention.{part}")
                norm_of(layer.attention.layer_norm, f"{name}.cross_attention_residual.norm")
            gated = activation == "swiglu"
            linear(layer.ffn.linear_0, f"{name}.feed_forward.{'gate' if gated else 'inner'}")
            if gated:
                linear(layer.ffn.linear_0_noact, f"{name}.feed_forward.inner")
            linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
            norm_of(layer.ffn.layer_norm, f"{name}.feed_forward_residual.norm")
    target = spec.encoder.embeddings[0].weight if tied == "all" else spec.decoder.embeddings.weight
    spec.decoder.projection.weight = np.ascontiguousarray(weights["output.weight"].T) if tied == "none" else target
    if "output_bias" in weights:
        spec.decoder.projection.bias = weights["output_bias"]
    sizes = (VOCABULARIES[0],) * 2 if tied == "all" else VOCABULARIES
    tokens = [SPECIAL + [f"w{number}" for number in range(4, size)] for size in sizes]
    spec.register_source_vocabulary(tokens[0])
    spec.register_target_vocabulary(tokens[1])
    spec.config.add_source_eos = True
    return spec


def ctranslate2_files(out: pathlib.Path) -> None:
    cases = []
    for variant in VARIANTS:
        files = {}
        for quantization in ("float32", "float16", "int8"):
            spec = specification(parameters(*variant), *variant)
            spec.validate()
            spec.optimize(None if quantization == "float32" else quantization)
            with tempfile.TemporaryDirectory() as directory:
                spec.save(directory)
                files[quantization] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                                       for path in sorted(pathlib.Path(directory).iterdir()) if path.name == "model.bin"}["model.bin"]
        cases.append(dict(zip(("norm", "activation", "position", "tie_embeddings"), variant)) | {"sha256": files})
    content = {"ctranslate2": ctranslate2.__version__, "sizes": SIZES, "max_len": MAX_LEN, "vocabularies": VOCABULARIES, "cases": cases}
    (out / "ctranslate2.json").write_text(json.dumps(content, indent=1) + "\n")


# SentencePiece: how it cuts lines.

LINES = ["the dog sees the cat.", "", " ", "  two  spaces ", "a\tb", "ﬁne ½ Ⅳ ＡＢＣ　ｄ", "日本語 ❤️ 🎉", "e\u0301", "\u00a0x\u200b",
         "नमस्ते", "der Hund  hört die Katze.", "THE DOG", "dogdogdogcat"]


def sentencepiece_models(out: pathlib.Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = [line for pair in corpus() for line in pair]
    models = {
        "identity": train_spm(text, 60, "identity"),
        "nmt_nfkc_cf": train_spm(text, 60, "nmt_nfkc_cf"),
        "spaces": train_spm(text, 60, "identity", remove_extra_whitespaces=False),
    }
    found = {}
    for name, model in models.items():
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        if name != "nmt_nfkc_cf":  # its table of characters has 240 kB: it is checked when this runs, by hand
            (out / f"{name}.model").write_bytes(model)
            found[name] = [{"line": line, "pieces": processor.encode(line, out_type=str)} for line in LINES]
    (out / "cuts.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    byte_pair_model(out, text)


def byte_pair_model(out: pathlib.Path, text: list[str]) -> None:
    """A BPE model that has learned from words of several lengths, and how it cuts them, alone and in lines."""
    model = train_spm(text, 110, "identity", kind="bpe")
    (out / "bpe.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [*LINES, *text[::37], "Katzen Hundehütte hörten dogs catbird", "tthheeddoogg"]
    cuts = [{"line": line, "pieces": processor.encode(line, out_type=str)} for line in lines]
    (out / "bpe-cuts.json").write_text(json.dumps(cuts, ensure_ascii=False, indent=1) + "\n")


# Fuzzing: whole models, as small as can be.


def join(*files: pathlib.Path) -> bytes:
    return b"\n=====\n".join(file.read_bytes() for file in files)


def fuzz_seeds(marian_files: pathlib.Path, sentencepiece_files: pathlib.Path) -> None:
    seeds = CRATES.parent / "fuzz/seeds"
    for name in ("ctranslate2", "huggingface", "sentencepiece"):
        (seeds / name).mkdir(parents=True, exist_ok=True)
    for path in sentencepiece_files.glob("*.model"):
        (seeds / "sentencepiece" / path.stem).write_bytes(path.read_bytes())
    learned = VARIANTS[1]
    for quantization in ("float32", "int8"):
        spec = specification(parameters(*learned), *learned)
        spec.validate()
        spec.optimize(None if quantization == "float32" else quantization)
        with tempfile.TemporaryDirectory() as directory:
            spec.save(directory)
            names = ("config.json", "source_vocabulary.json", "target_vocabulary.json", "model.bin")
            (seeds / "ctranslate2" / quantization).write_bytes(join(*(pathlib.Path(directory) / name for name in names)))
    vocab = json.loads((marian_files / "vocab.json").read_text())
    config = MarianConfig(
        vocab_size=len(vocab), d_model=2, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
        encoder_ffn_dim=2, decoder_ffn_dim=2, max_position_embeddings=8, scale_embedding=True, pad_token_id=len(vocab) - 1,
        decoder_start_token_id=len(vocab) - 1, eos_token_id=0,
    )
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory)
        model = MarianMTModel(config)
        model.save_pretrained(out)
        state = {name: tensor for name, tensor in model.state_dict().items() if "embed_positions" not in name}
        torch.save(state, out / "new.bin")
        torch.save(state, out / "old.bin", _use_new_zipfile_serialization=False)
        files = [out / "config.json", *(marian_files / name for name in ("vocab.json", "source.spm", "target.spm"))]
        for name, weights in (("safetensors", "model.safetensors"), ("new", "new.bin"), ("old", "old.bin")):
            (seeds / "huggingface" / name).write_bytes(join(*files, out / weights))


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    ctranslate2_files(OUT)
    sentencepiece_models(CRATES / "polyglow-data/tests/golden/sentencepiece")
    marian(OUT / "marian")
    fuzz_seeds(OUT / "marian", CRATES / "polyglow-data/tests/golden/sentencepiece")
