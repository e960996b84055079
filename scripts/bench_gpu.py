#!/usr/bin/env python3
"""Makes every measurement of training on a GPU, beside PyTorch where that is installed, in under ten minutes.

    cargo build --release --features vulkan -p polyglow -p polyglow-bench     # or `cuda`; docs/gpu.md has smaller ones
    mkdir gpu && cp target/release/polyglow target/release/polyglow-bench gpu
    python3 scripts/bench_gpu.py --program gpu/polyglow --device vulkan --data datasets/multi30k-en-de/tok-lc

It needs Python alone, no network, and of this repository `scripts` and `configs`, beside the two programs and the text;
PyTorch runs with `--python PROGRAM`, the interpreter that has it with CUDA. What is measured: the warm-up with an empty
cache of kernels and with a full one; steps of `base` and `big` on 25 008 tokens of each side in f32 and in half
precision (bf16 on `cuda`, f16 elsewhere, of which PyTorch's is bf16), ours and PyTorch's in turns, and beside each of ours
what `polyglow-bench launches` counts and predicts; the Multi30k recipe, which is stopped in time. Each result is in `--out` as
soon as it is there, and what fails is in it with its message. `--smoke` tries everything in small on a driver that
computes on the CPU.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Rows of lengths that are padded to a multiple of 8, as on GPUs by default.
ROWS, LENGTH, VOCABULARY = 1042, 24, 32000
# A software driver computes slowly, and compiles each kernel for seconds.
SMOKE = [
    "model.d_model=32", "model.d_ff=64", "model.num_heads=2", "model.num_encoder_layers=1", "model.num_decoder_layers=1",
    "train.max_tokens=256", "train.pad_multiple=32",
]
SMALL = """
[data]
{data}
[model]
preset = "tiny"
[train]
max_steps = 3
max_tokens = 8192
[search]
beam_size = 1
max_len_ratio = 0.1
"""


class Bench:
    def __init__(self, options):
        self.options, self.started, self.results = options, time.monotonic(), {}
        self.work = Path(tempfile.mkdtemp(prefix="bench-gpu-"))
        self.environment = os.environ | {"XDG_CACHE_HOME": str(self.work / "cache")}
        self.environment.setdefault("XDG_RUNTIME_DIR", str(self.work))
        if options.smoke:
            self.environment["CUBECL_AUTOTUNE_LEVEL"] = "minimal"

    def left(self) -> float:
        return self.options.minutes * 60 - (time.monotonic() - self.started)

    def keep(self, name: str, result: dict) -> None:
        self.results[name] = result
        Path(self.options.out).write_text(json.dumps(self.results, indent=1) + "\n")
        print(f"[{time.monotonic() - self.started:5.0f} s] {name}: {json.dumps(result)[:160]}", file=sys.stderr)

    def run(self, command: list, limit: float) -> dict:
        """Runs a program; it is interrupted after `limit` seconds, and killed if it does not end by itself then."""
        limit = min(limit, self.left())
        if limit < 5:
            return {"error": "there was no time left", "stdout": "", "stderr": ""}
        started, stopped = time.monotonic(), False
        process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment, cwd=self.work,
        )
        used, done = [0], threading.Event()
        number = self.options.device.partition(":")[2]
        watcher = threading.Thread(target=watch_memory, args=(used, done, number if number.isdigit() else "0"), daemon=True)
        watcher.start()
        try:
            stdout, stderr = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            stopped = True
            process.send_signal(signal.SIGINT)
            try:
                stdout, stderr = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                stdout, stderr = process.communicate()
        finally:
            done.set()
            watcher.join()
        result = {"seconds": round(time.monotonic() - started, 2), "gpu_mib": used[0] or None, "stopped": stopped}
        # 75: it was stopped, and saved.
        if process.returncode not in (0, 75):
            result["error"] = stderr.strip()[-600:]
        return result | {"stdout": stdout, "stderr": stderr}

    def warm_up(self) -> None:
        """Cold first, so this comes before everything else."""
        config = self.work / "small.toml"
        data = self.few_lines() if self.options.smoke else 'corpus = "mini-en-de"'
        config.write_text(SMALL.format(data=data))
        for state in ("cold", "cached"):
            found = self.train(config, f"warm-up-{state}", 200, SMOKE if self.options.smoke else [])
            line = re.search(r"ready for (\d+) batch shapes after ([\d.]+) s", found.pop("stderr"))
            if line:
                found |= {"shapes": int(line[1]), "warm_up_seconds": float(line[2])}
            else:
                found.setdefault("error", "nothing was said of a warm-up")
            found.pop("stdout")
            self.keep(f"warm-up {state}", found)

    def few_lines(self) -> str:
        """Text that is read in no time, as the `[data]` table names it."""
        lines = [" ".join("abcdefgh"[(row + place) % 8] for place in range(1 + row % 6)) for row in range(64)]
        for name in ("text.up", "text.down"):
            (self.work / name).write_text("".join(line + "\n" for line in lines))
        text = json.dumps(str(self.work / "text"))
        return f'train = {text}\nvalid = {text}\ntest = {text}\nsrc = "up"\ntgt = "down"'

    def train(self, config: Path, run: str, limit: float, overrides: list) -> dict:
        command = [self.options.program, "train", config, "--run", self.work / run, "--device", self.options.device]
        return self.run(command + [part for item in overrides for part in ("--set", item)], limit)

    def step(self, preset: str, precision: str) -> None:
        options = self.options
        rows, length, vocab = (4, 8, 100) if options.smoke else (ROWS, LENGTH, VOCABULARY)
        sizes = SMOKE if options.smoke else []
        command = [
            options.program, "bench", "step", "--json", "--device", options.device, "--vocab-size", vocab,
            "--shape", f"{rows}x{length}x{length}", "--repetitions", 2 if options.smoke else 20,
        ]
        for item in [f"model.preset={preset}", f"train.precision={precision}", *sizes]:
            command += ["--set", item]
        found = self.run(command, 150)
        if "error" not in found:
            bucket = json.loads(found["stdout"])["buckets"][0]
            keys = ("step", "upload", "forward", "backward", "update", "read", "target_tokens_per_second")
            found |= {key: bucket[key] for key in keys}
        self.keep(f"ours {preset} {precision}", without_text(found))
        self.launches(preset, precision, f"{rows}x{length}x{length}", vocab, sizes)
        if options.python:
            self.pytorch(preset, precision, rows, length, vocab, [])

    def launches(self, preset: str, precision: str, shape: str, vocab: int, sizes: list) -> None:
        """What is to be compared with the clock."""
        command = [
            self.options.program.with_name("polyglow-bench"), "launches", "--json", "--device", self.options.device,
            "--model", preset, "--shape", shape, "--vocab-size", vocab, "--set", f"train.precision={precision}",
        ]
        found = self.run(command + [part for item in sizes for part in ("--set", item)], 100)
        if "error" not in found:
            counts = json.loads(found["stdout"])
            found |= {key: counts[key] for key in ("step", "peak_memory", "estimates")}
        self.keep(f"counted {preset} {precision}", without_text(found))

    def pytorch(self, preset: str, precision: str, rows: int, length: int, vocab: int, extra: list) -> None:
        smoke = self.options.smoke
        command = [
            self.options.python, HERE / "bench_pytorch.py", "--json", self.work / "pytorch.json",
            "--device", "cpu" if smoke else "cuda", "--clip-norm", 1.0,
            "--rows", rows, "--src-len", length, "--tgt-len", length, "--vocab", vocab,
            "--blocks", 1, "--steps", 2 if smoke else 20, *extra,
        ]
        # Of f32 the program's products are tf32 on `cuda` alone.
        if precision != "f32":
            command.append("--bf16")
        elif self.options.device.startswith("cuda"):
            command.append("--tf32")
        small = ["--d-model", 32, "--d-ff", 64, "--heads", 2, "--encoder-layers", 1, "--decoder-layers", 1]
        command += small if smoke else ["--preset", preset]
        found = self.run(command, 150)
        if "error" not in found:
            found |= json.loads((self.work / "pytorch.json").read_text())["pytorch"]
        self.keep(f"pytorch {preset} {precision}{' compiled' if extra else ''}", without_text(found))

    def recipe(self, precision: str) -> None:
        overrides = [f"train.precision={precision}", "train.validate_every=1000", "train.save_every=1000"]
        if self.options.smoke:
            config = self.work / "small.toml"
            overrides += SMOKE
        else:
            config, data = HERE.parent / "configs/multi30k-en-de.toml", Path(self.options.data).resolve()
            names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
            overrides += [f"data.{key}={data / name}" for key, name in names.items()]
        run = f"multi30k-{precision}"
        # A stopped training still has to save.
        found = self.train(config, run, self.left() - 25, overrides)
        metrics = self.work / run / "metrics.jsonl"
        records = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        rates = sorted(record["tokens_per_second"] for record in records if "tokens_per_second" in record)
        if rates:
            found |= {"steps": max(record["step"] for record in records), "tokens_per_second": rates[len(rates) // 2]}
        found["tests"] = re.findall(r"^\S+: \d+ sentences.*$", found["stdout"], re.MULTILINE)
        self.keep(f"recipe {precision}", without_text(found))

    def table(self) -> None:
        print("MODEL  PRECISION     OURS s  PYTORCH s   RATIO  COMPILED s   RATIO      MIB  LAUNCHES       GB")
        for preset in ("base", "big"):
            for precision in ("f32", self.options.half):
                counted = self.results.get(f"counted {preset} {precision}", {}).get("step", {})
                moved = (counted["read"] + counted["written"]) / 1e9 if counted else None
                ours = self.results.get(f"ours {preset} {precision}", {})
                names = (f"pytorch {preset} {precision}", f"pytorch {preset} {precision} compiled")
                theirs = [self.results.get(name, {}).get("seconds_per_step") for name in names]
                seconds = ours.get("step", {}).get("median")
                cells = [number(value, ".4f") for value in (seconds, *theirs)]
                ratios = [number(seconds / other if seconds and other else None, ".2f") for other in theirs]
                memory = number(ours.get("gpu_mib"), "d")
                print(f"{preset:6} {precision:10} {cells[0]:>9} {cells[1]:>10} {ratios[0]:>7} {cells[2]:>11} "
                      f"{ratios[1]:>7} {memory:>8} {number(counted.get('launches'), 'd'):>9} {number(moved, '.2f'):>8}")


def number(value, form: str) -> str:
    return "-" if value is None else format(value, form)


def without_text(found: dict) -> dict:
    return {key: value for key, value in found.items() if key not in ("stdout", "stderr")}


def watch_memory(used: list, done: threading.Event, number: str) -> None:
    """Keeps the most memory that the NVIDIA GPU of this number has in use, in MiB; 0 where there is none."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={number}"]
    while not done.wait(0.5):
        try:
            used[0] = max(used[0], int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        except (OSError, ValueError, subprocess.CalledProcessError):
            return


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--program", default="target/release/polyglow", help="polyglow, built for a GPU, beside polyglow-bench")
    parser.add_argument("--device", help="as `polyglow devices` lists it; vulkan if not given, in small vulkan:cpu")
    parser.add_argument("--data", help="Multi30k: the directory with train, val and test_2016_flickr")
    parser.add_argument("--python", help="a Python that has PyTorch; without it there is no comparison")
    parser.add_argument("--minutes", type=float, default=9.5, help="when everything is to be over")
    parser.add_argument("--out", default="bench_gpu.json", help="the results")
    parser.add_argument("--smoke", action="store_true", help="everything in small, with PyTorch on the CPU")
    options = parser.parse_args()
    options.program = Path(options.program).resolve()
    if not options.program.with_name("polyglow-bench").is_file():
        parser.error(f"there is no polyglow-bench beside {options.program}")
    options.device = options.device or ("vulkan:cpu" if options.smoke else "vulkan")
    options.half = "bf16" if options.device.startswith("cuda") else "f16"
    return options


def main() -> None:
    options = arguments()
    bench = Bench(options)
    devices = bench.run([options.program, "devices"], 60)
    bench.keep("devices", {"stdout": devices["stdout"]})
    bench.warm_up()
    for preset in ("base", "big"):
        for precision in ("f32", options.half):
            bench.step(preset, precision)
    if options.python and not options.smoke:
        bench.pytorch("base", options.half, ROWS, LENGTH, VOCABULARY, ["--modes", "compile"])
    if options.data or options.smoke:
        bench.recipe("f32")
    bench.table()


if __name__ == "__main__":
    main()
