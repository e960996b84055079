#!/usr/bin/env python3
"""Exports a run, and compares what it says in CTranslate2 and in transformers with what it says here.

    pip install ctranslate2 tokenizers torch torchvision pillow transformers sacrebleu tensorboard
    python scripts/compare_formats.py target/release/polyglow runs/my test.en --ref test.de

Of an encoder-decoder Transformer with one tokenizer for both sides, with tags or without, every line must become the same text in f32, by greedy search
and with a beam of 5, and the log-probability of every token of our translations must be the same within 1e-4 for transformers; how
many lines are the same in 16 and 8 bits, and their BLEU, is printed. A language model must go on as here, and a Vision Transformer
give the same labels. TensorBoard must read every number of the run's records from its event file. Fails where one is not the same.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile
import tomllib

import ctranslate2
import sacrebleu
import torch
from PIL import Image
from measurement import describe, machine, polyglow, read_lines, versions
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tokenizers import Tokenizer
from transformers import (
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    logging,
)

BEAMS = [1, 5]
# Lines whose tokens' probabilities are compared.
SCORED = 100


def by_length(lengths):
    """Places of lines of equal length, and the longest output that polyglow allows for them: programs have one for a batch."""
    groups = {}
    for place, length in enumerate(lengths):
        groups.setdefault(length, []).append(place)
    return [(2 * length + 10, places) for length, places in groups.items()]


def in_ctranslate2(directory, lines, compute_type, beam_size, threads, tags):
    """The translations; `None` for those that did not end: then programs differ in what they give back."""
    model = ctranslate2.Translator(str(directory), device="cpu", compute_type=compute_type, intra_threads=threads)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    before, prefix = tags
    sources = [before + tokenizer.encode(line).tokens for line in lines]
    texts = [None] * len(lines)
    for longest, places in by_length(map(len, sources)):
        # By default CTranslate2 keeps no empty hypothesis, which takes a place among those that a search of ours ends with.
        found = model.translate_batch([sources[place] for place in places], beam_size=beam_size, length_penalty=1.0,
                                      target_prefix=[prefix] * len(places) if prefix else None,
                                      max_batch_size=4096, batch_type="tokens", min_decoding_length=0,
                                      max_decoding_length=longest)
        for place, one in zip(places, found, strict=True):
            if len(one.hypotheses[0]) < longest:
                texts[place] = tokenizer.decode([tokenizer.token_to_id(token) for token in one.hypotheses[0]])
    return texts


def in_transformers(model, tokenizer, lines, beam_size):
    """The same."""
    sources = [tokenizer(line)["input_ids"] for line in lines]
    texts = [None] * len(lines)
    for longest, places in by_length(len(source) - 1 for source in sources):
        batch = torch.tensor([sources[place] for place in places])
        # Beginning and end count, and the last token is always the end.
        with torch.no_grad():
            found = model.generate(batch, num_beams=beam_size, early_stopping=beam_size > 1, max_length=longest + 2)
        for place, ids in zip(places, found, strict=True):
            if (ids != model.config.pad_token_id).sum() < longest + 2:
                texts[place] = tokenizer.decode(ids, skip_special_tokens=True)
    return texts


def largest_difference(model, tokenizer, sources, targets, records):
    """Of the log-probabilities of all tokens of the targets, with the end mark."""
    largest = 0.0
    for source, target, record in zip(sources, targets, records, strict=True):
        batch = tokenizer(source, return_tensors="pt")
        labels = tokenizer(target, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        tag = model.generation_config.forced_bos_token_id
        begin = [model.config.decoder_start_token_id] + ([] if tag is None else [tag])
        with torch.no_grad():
            logits = model(**batch, decoder_input_ids=torch.tensor([begin + labels[:-1]])).logits
        theirs = logits[0, len(begin) - 1:].log_softmax(-1).gather(-1, torch.tensor(labels)[:, None])[:, 0]
        ours = torch.tensor([token["log_prob"] for token in record["tokens"]])
        if len(ours) != len(theirs):
            sys.exit(f"error: `{target}` has {len(ours)} tokens here and {len(theirs)} in transformers")
        largest = max(largest, (ours - theirs).abs().max().item())
    return largest


def in_tensorboard(directory):
    """Values by name and step, in f32."""
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0}).Reload()
    return {(tag, event.step): event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)}


def recorded(path):
    """The same from `metrics.jsonl`."""
    values = {}
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        name = record.get("split", record["kind"])
        numbers = {key: value for key, value in record.items() if isinstance(value, int | float)}
        values |= {(f"{name}/{key}", record["step"]): value for key, value in numbers.items()
                   if key not in ("step", "seconds")}
    return values


def compare_translation(options, run, place, lines, wrong):
    """Text by greedy search and with a beam, and log-probabilities."""
    references = read_lines(options.ref)[:options.lines] if options.ref else None
    (place / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = tomllib.loads((options.run / "config.toml").read_text())["data"]
    tags = [[data[key]] if key in data else [] for key in ("src_tag", "tgt_tag")]
    ways = {}
    for precision in ["float32", "float16", "int8"]:
        seconds, _ = run("export", options.run, "--to", "ctranslate2", "--checkpoint", options.checkpoint, "--precision",
                         precision, "--out", place / precision)
        print(f"exported to CTranslate2 in {precision} and verified in {seconds:.1f} s")
        # In 16 bits it computes on GPUs only; on a CPU, the numbers become f32 again.
        kind = "int8" if precision == "int8" else "float32"
        ways[f"CTranslate2 {precision}"] = lambda beam_size, out=place / precision, kind=kind: in_ctranslate2(
            out, lines, kind, beam_size, options.threads, tags)
    seconds, _ = run("export", options.run, "--to", "huggingface", "--checkpoint", options.checkpoint, "--out",
                     place / "huggingface")
    print(f"exported to transformers and verified in {seconds:.1f} s")
    model = AutoModelForSeq2SeqLM.from_pretrained(place / "huggingface").eval()
    tokenizer = AutoTokenizer.from_pretrained(place / "huggingface")
    ways[f"transformers ({type(model).__name__})"] = lambda beam_size: in_transformers(model, tokenizer, lines, beam_size)
    for beam_size in BEAMS:
        _, output = run("translate", options.run, place / "text", "--checkpoint", options.checkpoint, "--beam-size", beam_size)
        ours = output.splitlines()
        if references:
            print(f"beam {beam_size}  ours: BLEU {sacrebleu.corpus_bleu(ours, [references], force=True).score:.2f}")
        for name, translate in ways.items():
            theirs = translate(beam_size)
            ended = [number for number, text in enumerate(theirs) if text is not None]
            same = sum(ours[number] == theirs[number] for number in ended)
            text = [text or "" for text in theirs]
            score = f", BLEU {sacrebleu.corpus_bleu(text, [references], force=True).score:.2f}" if references else ""
            print(f"beam {beam_size}  {name}: {same} of {len(ended)} lines that ended are the same{score}")
            if same < len(ended) and "int8" not in name and "float16" not in name:
                wrong.append(f"{name}, beam {beam_size}")
                for number in ended:
                    if ours[number] != theirs[number]:
                        print(f"    {lines[number]}\n      ours   {ours[number]}\n      theirs {theirs[number]}")
            if len(ended) < 0.9 * len(lines):
                sys.exit(f"error: only {len(ended)} of {len(lines)} lines ended in {name}: train the model further")
    (place / "ours").write_text("\n".join(ours[:SCORED]) + "\n", encoding="utf-8")
    (place / "first").write_text("\n".join(lines[:SCORED]) + "\n", encoding="utf-8")
    _, output = run("score", options.run, place / "first", place / "ours", "--json", "--checkpoint", options.checkpoint)
    records = [json.loads(record) for record in output.splitlines()]
    largest = largest_difference(model, tokenizer, lines[:SCORED], ours[:SCORED], records)
    print(f"largest difference of a token's log-probability: {largest:.2g}")
    if largest > 1e-4:
        wrong.append("log-probabilities")


def compare_language(options, run, place, lines, wrong):
    """The most probable continuation of the first three words of each line."""
    run("export", options.run, "--to", "huggingface", "--checkpoint", options.checkpoint, "--out", place / "huggingface")
    model = AutoModelForCausalLM.from_pretrained(place / "huggingface").eval()
    tokenizer = AutoTokenizer.from_pretrained(place / "huggingface")
    same, prompts = 0, [" ".join(line.split()[:3]) for line in lines[:20]]
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            found = model.generate(**ids, do_sample=False, max_length=65)[0]
        theirs = tokenizer.decode(found, skip_special_tokens=True)
        # The beginning counts there.
        _, output = run("generate", options.run, "--prompt", prompt, "--top-k", 1, "--max-len", 63, "--checkpoint",
                        options.checkpoint)
        ours = output.removesuffix("\n")
        same += ours == theirs
        if ours != theirs:
            print(f"    {prompt}\n      ours   {ours}\n      theirs {theirs}")
    print(f"transformers ({type(model).__name__}): {same} of {len(prompts)} texts are the same")
    if same < len(prompts):
        wrong.append("texts")


def compare_images(options, run, place, files, wrong):
    """The most probable label of each picture, and its probability."""
    run("export", options.run, "--to", "huggingface", "--checkpoint", options.checkpoint, "--out", place / "huggingface")
    model = AutoModelForImageClassification.from_pretrained(place / "huggingface").eval()
    processor = AutoImageProcessor.from_pretrained(place / "huggingface")
    _, output = run("classify", options.run, *files, "--checkpoint", options.checkpoint)
    largest, same = 0.0, 0
    for file, line in zip(files, output.splitlines(), strict=True):
        label, probability = line.split("\t")[:2]
        with torch.no_grad():
            scores = model(**processor(Image.open(file).convert("RGB"), return_tensors="pt")).logits.softmax(-1)[0]
        same += model.config.id2label[scores.argmax().item()] == label
        largest = max(largest, abs(scores.max().item() - float(probability)))
    print(f"transformers ({type(model).__name__}): {same} of {len(files)} labels are the same, probabilities within "
          f"{largest:.2g}")
    # Four digits are printed.
    if same < len(files) or largest > 1.5e-4:
        wrong.append("labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path, help="a text, or for a Vision Transformer a folder with PNG files")
    parser.add_argument("--ref", type=pathlib.Path)
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    print(describe(machine(options.threads) | versions("ctranslate2", "transformers", "torch")))
    model = tomllib.loads((options.run / "config.toml").read_text())["model"]
    print(f"arch = \"{model['arch']}\", norm = \"{model['norm']}\"")
    compare = {"transformer": compare_translation, "lm": compare_language, "vit": compare_images}[model["arch"]]
    data = sorted(options.data.rglob("*.png"))[:100] if options.data.is_dir() else read_lines(options.data)[:options.lines]
    wrong = []

    def run(*arguments):
        return polyglow(options.program, "-q", *arguments, threads=options.threads)

    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        compare(options, run, place, data, wrong)
        run("report", options.run, "--tensorboard", place / "events")
        theirs, ours = in_tensorboard(place / "events"), recorded(options.run / "metrics.jsonl")
        print(f"TensorBoard reads {len(theirs)} numbers of {len(ours)}")
        if theirs.keys() != ours.keys() or any(not math.isclose(theirs[key], ours[key], rel_tol=1e-6) for key in ours):
            wrong.append("TensorBoard")
    if wrong:
        sys.exit(f"error: not the same: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
