#!/usr/bin/env python3
"""Runs every comparison with a peer, ours and theirs in turns, and the tables of scaling; prints one table of ratios.

    pip install torch numpy ctranslate2 safetensors sacrebleu tokenizers sentencepiece matplotlib
    python scripts/bench.py target/release/polyglow runs/multi30k-en-de --checkpoint average \\
        --data datasets/multi30k-en-de/tok-lc/train --test datasets/multi30k-en-de/tok-lc/test_2016_flickr \\
        --joeynmt-python joeynmt/bin/python --threads 1 2 --json bench.json

JoeyNMT needs older packages and so an environment of its own: scripts/bench_joeynmt.py says which. A peer that is not
installed is left out, with a line that says so. `--quick` only shows that everything works: its figures say little.
The scripts that are called stand beside this one, and each can be run by itself.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from measurement import describe, environment, machine, read_lines, save, spread, table

SCRIPTS = pathlib.Path(__file__).parent
# Times the test text is repeated for a fast peer, for which starting the program would count otherwise.
REPEATS = 3
QUICK_LINES = 100
PRESETS = {
    "tiny": ["--rows", 128, "--src-len", 16, "--tgt-len", 16, "--vocab", 9708],
    "small": ["--rows", 64, "--src-len", 24, "--tgt-len", 24, "--vocab", 8000],
    "base": ["--rows", 40, "--src-len", 25, "--tgt-len", 25, "--vocab", 8000],
}


def write_tests(directory, options):
    """Writes the test text as it is, and repeated; the prefixes of both."""
    for side in (options.src, options.tgt):
        lines = read_lines(f"{options.test}.{side}")[:QUICK_LINES if options.quick else None]
        for name, repeats in (("once", 1), ("repeated", 1 if options.quick else REPEATS)):
            text = "".join(f"{line}\n" for line in lines * repeats)
            (directory / f"{name}.{side}").write_text(text, encoding="utf-8")
    return directory / "once", directory / "repeated"


def comparisons(options, threads, once, repeated):
    """Each comparison: its name, its script, the packages that it needs, its interpreter, arguments, and rows of ratios."""
    run, data = [options.program, options.run], ["--data", options.data, "--src", options.src, "--tgt", options.tgt]
    quick = options.quick
    for preset, sizes in list(PRESETS.items())[:1 if quick else None]:
        command = ["--preset", preset, *sizes, "--threads", threads, "--ours", options.program]
        command += ["--warmup", 1, "--steps", 2, "--blocks", 2] if quick else []
        yield f"pytorch {preset}", "bench_pytorch.py", "torch", options.python, command, pytorch_rows
    command = [*run, f"{repeated}.{options.src}", "--ref", f"{repeated}.{options.tgt}", "--threads", threads,
               "--checkpoint", options.checkpoint, *(["--rounds", 1] if quick else [])]
    packages = "ctranslate2, tokenizers, safetensors, sacrebleu"
    yield "ctranslate2", "bench_ctranslate2.py", packages, options.python, command, ctranslate2_rows
    command = [*run, *data, "--test", once, "--threads", threads, "--checkpoint", options.checkpoint]
    command += ["--warmup", 1, "--updates", 3, "--our-updates", 20, "--rounds", 1] if quick else []
    packages = "joeynmt, tokenizers, safetensors"
    yield "joeynmt", "bench_joeynmt.py", packages, options.joeynmt_python, command, joeynmt_rows
    command = [*run, *data, "--threads", threads, *(["--pairs", 50_000, "--rounds", 1] if quick else [])]
    packages = "tokenizers, sentencepiece, numpy"
    yield "tokenizers", "bench_tokenizers.py", packages, options.python, command, tokenizers_rows


def pytorch_rows(result):
    ratios = [1 / ratio for ratio in result["ratio_per_block"]]
    yield f"training steps, {result['preset']}", f"PyTorch {result['torch']}", spread(ratios)


def ctranslate2_rows(result):
    for beam_size, kinds in result["beams"].items():
        for kind in ("float32", "int8"):
            peer = f"CTranslate2 {result['versions']['ctranslate2']} {kind}"
            yield f"translation, beam {beam_size}", peer, kinds[kind]["ratio"]


def joeynmt_rows(result):
    for row in result["rows"]:
        name = row["what"] if row["what"] == "training" else f"translation, {row['what']}"
        yield name, f"JoeyNMT {result['versions']['joeynmt']}, PyTorch {result['versions']['torch']}", row["ratio"]


def tokenizers_rows(result):
    for name, peer in result["peers"].items():
        package, way = name.split(" ", 1)
        yield "encoding text", f"{package} {result['versions'][package]} {way}", peer["ratio"]


def call(python, script, command, threads, file):
    """Runs a script beside this one, with its own output on stderr; what it wrote to `file`, or None if it failed."""
    words = [python, SCRIPTS / script, *command, "--json", file]
    print(f"$ {' '.join(map(str, words))}", file=sys.stderr, flush=True)
    code = subprocess.run(list(map(str, words)), stdout=sys.stderr, env=environment(threads), check=False).returncode
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8")) if code == 0 else None


def lacks(python, packages):
    """What an interpreter says when it cannot import the packages; nothing if it can."""
    try:
        done = subprocess.run([python, "-c", f"import {packages}"], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def measure(options, directory):
    once, repeated = write_tests(directory, options)
    result = machine(options.threads) | {"quick": options.quick}
    result |= {key: [] for key in ("rows", "scripts", "left_out", "failed")}
    for threads in options.threads:
        for name, script, packages, python, command, rows in comparisons(options, threads, once, repeated):
            problem = lacks(python, packages)
            if problem:
                result["left_out"].append(name)
                print(f"left out: {name}, because `{python}` lacks it: {problem}", file=sys.stderr)
                continue
            figures = call(python, script, command, threads, directory / "result.json")
            if figures is None:
                result["failed"].append(name)
                continue
            result["scripts"].append({"name": name, "threads": threads, "result": figures})
            for what, peer, ratio in rows(figures):
                result["rows"].append({"what": what, "peer": peer, "threads": threads, "ratio": ratio})
    command = [options.program, options.run, "--data", options.data, "--src", options.src, "--tgt", options.tgt]
    command += ["--thread-counts", *options.threads]
    if options.quick:
        command += ["--repetitions", 1, "--rounds", 1, "--tokens", 1024, "--largest", 100_000]
    result["scaling"] = call(options.python, "scaling.py", command, 1, directory / "result.json")
    if result["scaling"] is None:
        result["failed"].append("scaling")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="the polyglow program")
    parser.add_argument("run", type=pathlib.Path, help="a run that was trained on the text")
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--data", required=True, help="the training text of the run, a prefix")
    parser.add_argument("--test", required=True, help="text to translate with its reference, a prefix")
    parser.add_argument("--src", default="en")
    parser.add_argument("--tgt", default="de")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="everything is measured with each of them")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of all peers but JoeyNMT")
    parser.add_argument("--joeynmt-python", default=sys.executable, help="the interpreter of JoeyNMT's environment")
    parser.add_argument("--quick", action="store_true", help="measure little of everything")
    parser.add_argument("--json", metavar="FILE", help="write all figures here, too")
    options = parser.parse_args()
    options.program, options.run = options.program.resolve(), options.run.resolve()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(options, pathlib.Path(directory))
    print(describe(result))
    rows = [
        (row["what"], row["peer"], row["threads"], "{median:.2f} ({least:.2f} to {most:.2f})".format(**row["ratio"]))
        for row in result["rows"]
    ]
    print(table(["what", "peer", "threads", "our rate / theirs"], rows))
    if result["left_out"]:
        print(f"left out: {', '.join(result['left_out'])}")
    save(result, options.json)
    if result["failed"]:
        sys.exit(f"error: failed: {', '.join(result['failed'])}")


if __name__ == "__main__":
    main()
