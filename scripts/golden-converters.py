#!/usr/bin/env python3
"""Writes folders with CTranslate2's own converters, and what CTranslate2 translates with them.

    pip install ctranslate2==4.8.5 transformers==5.23.0 torch==2.15.0 sentencepiece safetensors pyyaml
    python scripts/golden-converters.py

`converters` in tests/golden of polyglow-formats gets one folder for each case, as `ct2-transformers-converter` or
`ct2-opus-mt-converter` wrote it, from models of a toy language of some 6,000 parameters that are trained here for half a minute:

    marian-QUANTIZATION   MarianMT with `--copy_files source.spm target.spm`, in six of the converter's quantizations
    opus-mt               the same weights as Marian's own program saves them, without any tokenizer, as that converter leaves it
    m2m100, m2m100-int8   M2M100 with `--copy_files sentencepiece.bpe.model`: byte pair encoding, language tokens, T2T's sinusoids
    pegasus               pre-norm with sinusoids, from a `tokenizer.json`
    bart, t5              random models that polyglow refuses

`answers.json` beside them has, for each folder that is read, CTranslate2's greedy and beam search (computed in float32) of some
sentences: source tokens, target prefix, tokens, text and score.
"""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ctranslate2
import numpy as np
import sentencepiece
import torch
import yaml
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from transformers import (BartConfig, BartForConditionalGeneration, M2M100Config, M2M100ForConditionalGeneration,
                          M2M100Tokenizer, MarianConfig, MarianMTModel, MarianTokenizer, PegasusConfig,
                          PegasusForConditionalGeneration, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration)

toy = importlib.import_module("golden-formats")

OUT = toy.OUT / "converters"
SIZES = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32, "dropout": 0.0, "init_std": 0.1}
QUANTIZATIONS = ["float32", "float16", "bfloat16", "int8", "int8_float16", "int16"]
PROBES = ["the dog sees the cat.", "the woman likes the bird today.", "the man", "the horse knows the man in the garden.",
          "the zebra sees a dog?", "the child hears the child at home.", "a"]
GERMAN = ["der Hund sieht die Katze.", "die Frau mag den Vogel heute.", "das Kind hört das Kind zu Hause."]
LONGEST = 24


def converter(name: str, *arguments: str) -> None:
    program = pathlib.Path(sys.executable).parent / name
    subprocess.run([program, *map(str, arguments), "--force"], check=True, env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"})


def shake(model) -> None:
    """Leaves nothing at its neutral value, or an importer could leave it out unnoticed."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.02)


# What CTranslate2 answers.

def answers(folder: str, requests: list[dict], decode) -> list[dict]:
    """`requests` have `source`, what polyglow is given, and `tokens` and `prefix`, what CTranslate2 is given."""
    translator = ctranslate2.Translator(str(OUT / folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)
    tokens, prefixes = [request["tokens"] for request in requests], [request.get("prefix") or None for request in requests]
    prefixes = prefixes if any(prefixes) else None
    options = {"target_prefix": prefixes, "max_decoding_length": LONGEST, "return_scores": True}
    greedy = translator.translate_batch(tokens, beam_size=1, **options)
    beam = translator.translate_batch(tokens, beam_size=4, length_penalty=1, num_hypotheses=1, **options)
    found = []
    for request, first, best in zip(requests, greedy, beam):
        words = [hypothesis.hypotheses[0] for hypothesis in (first, best)]
        found.append({**request, "greedy_tokens": words[0], "greedy_text": decode(words[0]), "greedy_score": first.scores[0],
                      "beam_tokens": words[1], "beam_text": decode(words[1]), "beam_score": best.scores[0]})
    print(folder, [(answer["source"], answer["greedy_text"]) for answer in found[:3]])
    return found


# MarianMT, and the same weights of Marian's own program.

def marian_model(place: pathlib.Path):
    pairs = toy.corpus()
    models = [toy.train_spm([pair[side] for pair in pairs], size, "identity") for side, size in ((0, 60), (1, 70))]
    for name, model in zip(("source.spm", "target.spm"), models):
        (place / name).write_bytes(model)
    vocab = toy.vocabulary(models)
    (place / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    tokenizer = MarianTokenizer(*(str(place / name) for name in ("source.spm", "target.spm", "vocab.json")),
                                source_lang="en", target_lang="de")
    pad = len(vocab) - 1
    model = MarianMTModel(MarianConfig(
        vocab_size=len(vocab), decoder_vocab_size=len(vocab), activation_function="swish", scale_embedding=True,
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0, bos_token_id=None, **SIZES))
    toy.learn(model, tokenizer, pairs)
    shake(model)
    with torch.no_grad():
        model.final_logits_bias.normal_(0.0, 0.05)
        model.final_logits_bias[0, pad] = 0.0
        for stack in (model.get_encoder(), model.get_decoder()):
            stack.embed_tokens.weight[pad] = 0.0
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return model, tokenizer, vocab


def as_marian_saves_it(model, vocab: dict, place: pathlib.Path) -> None:
    """The weights as `model.npz` and `vocab.yml`, with the `decoder.yml` of an OPUS-MT folder."""
    state = {name.removeprefix("model."): tensor.float().numpy() for name, tensor in model.state_dict().items()}
    weights = {"Wemb": state["shared.weight"][:-1], "decoder_ff_logit_out_b": state["final_logits_bias"][:, :-1]}

    def linear(target: str, suffix: str, source: str) -> None:
        weights[f"{target}_W{suffix}"] = np.ascontiguousarray(state[f"{source}.weight"].T)
        weights[f"{target}_b{suffix}"] = state[f"{source}.bias"][None]

    def norm(target: str, source: str) -> None:
        weights[f"{target}_ln_scale"], weights[f"{target}_ln_bias"] = state[f"{source}.weight"][None], state[f"{source}.bias"][None]

    for stack, layers in (("encoder", SIZES["encoder_layers"]), ("decoder", SIZES["decoder_layers"])):
        for number in range(layers):
            source, target = f"{stack}.layers.{number}", f"{stack}_l{number + 1}"
            attentions = [("self", "self_attn")] + ([("context", "encoder_attn")] if stack == "decoder" else [])
            for short, long in attentions:
                for suffix, part in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
                    linear(f"{target}_{short}", suffix, f"{source}.{long}.{part}")
                norm(f"{target}_{short}_Wo", f"{source}.{long}_layer_norm")
            linear(f"{target}_ffn", "1", f"{source}.fc1"), linear(f"{target}_ffn", "2", f"{source}.fc2")
            norm(f"{target}_ffn_ffn", f"{source}.final_layer_norm")
    options = {"type": "transformer", "enc-depth": SIZES["encoder_layers"], "dec-depth": SIZES["decoder_layers"],
               "transformer-heads": SIZES["encoder_attention_heads"], "transformer-ffn-activation": "swish",
               "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
               "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
               "transformer-guided-alignment-layer": "last"}
    weights["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)
    np.savez(place / "model.npz", **weights)
    lines = [f"{json.dumps(token, ensure_ascii=False)}: {number}" for token, number in list(vocab.items())[:-1]]
    (place / "vocab.yml").write_text("\n".join(lines) + "\n")
    (place / "decoder.yml").write_text(yaml.safe_dump({"models": ["model.npz"], "vocabs": ["vocab.yml", "vocab.yml"]}))


def marian(found: dict) -> None:
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        model, tokenizer, vocab = marian_model(place)
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(place / "target.spm"))
        requests = [{"source": text, "tokens": tokenizer.tokenize(text) + ["</s>"]} for text in PROBES]
        for quantization in QUANTIZATIONS:
            folder = f"marian-{quantization}"
            converter("ct2-transformers-converter", "--model", place, "--output_dir", OUT / folder, "--copy_files", "source.spm",
                      "target.spm", "--quantization", quantization)
            found[folder] = answers(folder, requests, pieces.decode_pieces)
        as_marian_saves_it(model, vocab, place)
        # Its table of 2,048 positions would be 131 kB in float32.
        converter("ct2-opus-mt-converter", "--model_dir", place, "--output_dir", OUT / "opus-mt", "--quantization", "float16")
        # Tokens between spaces are what polyglow is given here; this converter leaves `</s>` to CTranslate2.
        words = [request["tokens"][:-1] for request in requests]
        found["opus-mt"] = answers("opus-mt", [{"source": " ".join(tokens), "tokens": tokens} for tokens in words], " ".join)


# M2M100.

def m2m_tokenizer(place: pathlib.Path) -> M2M100Tokenizer:
    lines = [line for pair in toy.corpus() for line in pair]
    model = toy.train_spm(lines, 90, "identity", kind="bpe")
    (place / "sentencepiece.bpe.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
    # As in the real one: another order than the model's, without one of its pieces, and with words that it lacks.
    kept = sorted(pieces[:-1], key=lambda piece: (len(piece), piece[::-1]))
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *kept, "▁nowhereinspm"]
    (place / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}, ensure_ascii=False))
    tokenizer = M2M100Tokenizer(str(place / "vocab.json"), str(place / "sentencepiece.bpe.model"))
    # As the real repository has them; transformers 5 would leave the languages out.
    config = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
              "model_max_length": 1024, "tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100", "num_madeup_words": 8}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    marks = {key: config[key] for key in config if key.endswith("_token")}
    languages = sorted(tokenizer.lang_token_to_id, key=tokenizer.lang_token_to_id.get)
    (place / "special_tokens_map.json").write_text(json.dumps(marks | {"additional_special_tokens": languages}))
    return M2M100Tokenizer.from_pretrained(place)


def m2m_batch(tokenizer, pairs: list, step: int) -> dict:
    chosen = [pairs[number * 7 % len(pairs)] for number in range(step * 64, step * 64 + 64)]
    source, target = ("en", "de") if step % 2 == 0 else ("de", "en")
    sides = [[pair[side] for pair in chosen] for side in ((0, 1) if source == "en" else (1, 0))]
    tokenizer.src_lang, tokenizer.tgt_lang = source, target
    batch = tokenizer(sides[0], text_target=sides[1], return_tensors="pt", padding=True)
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    return batch


def m2m100(found: dict) -> None:
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        tokenizer = m2m_tokenizer(place)
        model = M2M100ForConditionalGeneration(M2M100Config(
            vocab_size=tokenizer.encoder_size + 100 + 8, encoder_layerdrop=0.0, decoder_layerdrop=0.0, attention_dropout=0.0,
            activation_function="relu", **SIZES))
        optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
        for step in range(2 * toy.STEPS):
            model(**m2m_batch(tokenizer, toy.corpus(), step)).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step(), optimizer.zero_grad()
        shake(model)
        model.eval().save_pretrained(place)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(place / "sentencepiece.bpe.model"))
        requests = []
        for source, target, texts in (("en", "de", PROBES), ("de", "en", GERMAN)):
            tokenizer.src_lang = source
            requests += [{"source": f"__{source}__ {text}", "prefix": [f"__{target}__"],
                          "tokens": tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])} for text in texts]

        def decode(tokens: list[str]) -> str:
            return f"{tokens[0]} {processor.decode_pieces(tokens[1:])}"

        for folder, quantization in (("m2m100", "float32"), ("m2m100-int8", "int8")):
            converter("ct2-transformers-converter", "--model", place, "--output_dir", OUT / folder, "--copy_files",
                      "sentencepiece.bpe.model", "--quantization", quantization)
            found[folder] = answers(folder, requests, decode)


# Pegasus, and models that are refused.

def fast_tokenizer(place: pathlib.Path, marks: dict[str, str], first: list[str]) -> PreTrainedTokenizerFast:
    lines = [line for pair in toy.corpus() for line in pair]
    processor = sentencepiece.SentencePieceProcessor(model_proto=toy.train_spm(lines, 90, "identity"))
    pieces = [(processor.id_to_piece(number), processor.get_score(number)) for number in range(3, processor.get_piece_size())]
    inner = Tokenizer(Unigram([*((mark, 0.0) for mark in first), *pieces], unk_id=first.index("<unk>")))
    inner.pre_tokenizer, inner.decoder = Metaspace(prepend_scheme="always"), MetaspaceDecoder(prepend_scheme="always")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **marks)
    tokenizer.save_pretrained(place)
    return tokenizer


def pegasus(found: dict) -> None:
    torch.manual_seed(4)
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        marks = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        tokenizer = fast_tokenizer(place, marks, ["<pad>", "</s>", "<unk>"])
        model = PegasusForConditionalGeneration(PegasusConfig(
            vocab_size=len(tokenizer), scale_embedding=True, activation_function="relu", pad_token_id=0, eos_token_id=1,
            decoder_start_token_id=0, forced_eos_token_id=1, bos_token_id=None, normalize_before=True,
            normalize_embedding=False, **SIZES))
        pairs = [(f"{source}</s>", f"{target}</s>") for source, target in toy.corpus()]
        toy.learn(model, tokenizer, pairs)
        shake(model)
        model.save_pretrained(place)
        converter("ct2-transformers-converter", "--model", place, "--output_dir", OUT / "pegasus", "--copy_files", "tokenizer.json")
        requests = [{"source": text, "tokens": tokenizer.tokenize(f"{text}</s>")} for text in PROBES]
        found["pegasus"] = answers("pegasus", requests, lambda tokens: tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens)))


def refused() -> None:
    torch.manual_seed(5)
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        marks = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
        size = len(fast_tokenizer(place, marks, ["<s>", "<pad>", "</s>", "<unk>"]))
        small = {**SIZES, "d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
        BartForConditionalGeneration(BartConfig(
            vocab_size=size, scale_embedding=True, normalize_before=False, normalize_embedding=True, **small)).save_pretrained(place)
        converter("ct2-transformers-converter", "--model", place, "--output_dir", OUT / "bart", "--quantization", "int8")
        T5ForConditionalGeneration(T5Config(vocab_size=size, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
                                            decoder_start_token_id=1)).save_pretrained(place)
        converter("ct2-transformers-converter", "--model", place, "--output_dir", OUT / "t5", "--quantization", "int8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    results = {}
    marian(results)
    m2m100(results)
    pegasus(results)
    refused()
    (OUT / "answers.json").write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    for path in OUT.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
