#!/usr/bin/env python3
"""Times training steps of PyTorch on the model of a polyglow `[model]` section, as a yardstick for ours.

    pip install torch numpy
    python scripts/bench_pytorch.py --threads 2
    python scripts/bench_pytorch.py --threads 2 --preset base --rows 40 --src-len 25 --tgt-len 25 --vocab 8000 \\
        --ours target/release/polyglow

The defaults are Transformer-Tiny with Multi30k's vocabulary. One step is forward, label-smoothed loss, backward,
clipping and Adam on a random batch without padding; the masks are applied all the same. The model is written as a
competent user of PyTorch would: fused projections, scaled_dot_product_attention, the fused optimizer.

`--ours PROGRAM` runs `PROGRAM bench step` on the same shapes in turns with blocks of steps here, so that both meet the
same machine, and prints ours / PyTorch: with `--modes eager compile`, to the faster of both in each block. PyTorch without AVX-512:
`ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2`.
"""

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from measurement import environment, save
from torch import Tensor, nn

PAD, FIRST_WORD = 0, 4
NUM_BATCHES = 8

# Width, inner width, heads, layers of both sides, dropout.
PRESETS = {
    "tiny": (128, 256, 4, 4, 4, 0.3),
    "small": (256, 1024, 4, 3, 3, 0.1),
    "base": (512, 2048, 8, 6, 6, 0.1),
    "big": (1024, 4096, 16, 6, 6, 0.3),
}


class Attention(nn.Module):
    """Multi-head attention; self-attention projects query, key and value in one product, cross-attention key and value."""

    def __init__(self, options, is_cross: bool):
        super().__init__()
        d_model = options.d_model
        self.num_heads, self.dropout, self.is_cross = options.heads, options.attention_dropout, is_cross
        if is_cross:
            self.query = nn.Linear(d_model, d_model)
            self.key_value = nn.Linear(d_model, 2 * d_model)
        else:
            self.qkv = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, memory: Tensor | None = None, **mask) -> Tensor:
        if self.is_cross:
            projected = self.query(x), *self.key_value(memory).chunk(2, dim=-1)
        else:
            projected = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in projected)
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, **mask)
        return self.output(context.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.activation = {"relu": F.relu, "gelu": F.gelu, "swiglu": F.silu}[options.activation]
        self.inner = nn.Linear(options.d_model, options.d_ff)
        self.gate = nn.Linear(options.d_model, options.d_ff) if options.activation == "swiglu" else None
        self.outer = nn.Linear(options.d_ff, options.d_model)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is not None:
            return self.outer(self.activation(self.gate(x)) * self.inner(x))
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """One sublayer with its dropout, residual connection and norm."""

    def __init__(self, sublayer: nn.Module, options):
        super().__init__()
        self.sublayer, self.is_pre = sublayer, options.norm == "pre"
        self.norm, self.dropout = nn.LayerNorm(options.d_model), nn.Dropout(options.dropout)

    def forward(self, x: Tensor, *inputs, **mask) -> Tensor:
        if self.is_pre:
            return x + self.dropout(self.sublayer(self.norm(x), *inputs, **mask))
        return self.norm(x + self.dropout(self.sublayer(x, *inputs, **mask)))


class EncoderLayer(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.self_attention = Residual(Attention(options, is_cross=False), options)
        self.feed_forward = Residual(FeedForward(options), options)

    def forward(self, x: Tensor, src_mask: Tensor) -> Tensor:
        return self.feed_forward(self.self_attention(x, attn_mask=src_mask))


class DecoderLayer(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.self_attention = Residual(Attention(options, is_cross=False), options)
        self.cross_attention = Residual(Attention(options, is_cross=True), options)
        self.feed_forward = Residual(FeedForward(options), options)

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor) -> Tensor:
        # Targets are padded at their end, where the causal mask alone hides the padding from every word.
        x = self.self_attention(x, is_causal=True)
        return self.feed_forward(self.cross_attention(x, memory, attn_mask=src_mask))


class Transformer(nn.Module):
    """Encoder and decoder over one embedding, which is also the output layer."""

    def __init__(self, options):
        super().__init__()
        self.embedding = nn.Embedding(options.vocab, options.d_model)
        self.scale, self.dropout = math.sqrt(options.d_model), nn.Dropout(options.dropout)
        longest = max(options.src_len, options.tgt_len)
        self.register_buffer("positions", sinusoid(longest, options.d_model), persistent=False)
        self.encoder = nn.ModuleList(EncoderLayer(options) for _ in range(options.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(options) for _ in range(options.decoder_layers))
        is_pre = options.norm == "pre"
        self.encoder_norm = nn.LayerNorm(options.d_model) if is_pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(options.d_model) if is_pre else nn.Identity()
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=options.d_model**-0.5)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        src_mask = (src != PAD)[:, None, None, :]
        memory = self.embed(src)
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        memory = self.encoder_norm(memory)
        hidden = self.embed(tgt_in)
        for layer in self.decoder:
            hidden = layer(hidden, memory, src_mask)
        return F.linear(self.decoder_norm(hidden), self.embedding.weight)


def sinusoid(length: int, d_model: int) -> Tensor:
    angles = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class Trainer:
    """The model, its optimizer and a few random batches; `block` times some steps."""

    def __init__(self, options, mode: str):
        torch.manual_seed(options.seed)
        self.options = options
        self.device = torch.device(options.device)
        self.model = Transformer(options).to(self.device)
        self.num_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.forward = torch.compile(self.loss) if mode == "compile" else self.loss
        self.batches = [self.random_batch() for _ in range(NUM_BATCHES)]
        self.steps_done = 0

    def random_batch(self) -> tuple[Tensor, Tensor]:
        """Source ids, and target ids with one more column, of which the model reads all but the last."""
        options = self.options
        shapes = (options.rows, options.src_len), (options.rows, options.tgt_len + 1)
        return tuple(torch.randint(FIRST_WORD, options.vocab, shape, device=self.device) for shape in shapes)

    def loss(self, src: Tensor, tgt: Tensor) -> Tensor:
        logits, tgt_out = self.model(src, tgt[:, :-1]), tgt[:, 1:]
        smoothing = self.options.label_smoothing
        return F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD, label_smoothing=smoothing)

    def step(self) -> None:
        src, tgt = self.batches[self.steps_done % NUM_BATCHES]
        autocast = torch.autocast(self.device.type, torch.bfloat16) if self.options.bf16 else nullcontext()
        with autocast:
            loss = self.forward(src, tgt)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps_done += 1

    def block(self, num_steps: int) -> list[float]:
        """The seconds of each of `num_steps` steps."""
        if self.device.type == "cuda":
            # Events are read only at the end, so that timing never makes the device wait for the host.
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(num_steps + 1)]
            marks[0].record()
            for mark in marks[1:]:
                self.step()
                mark.record()
            torch.cuda.synchronize()
            return [before.elapsed_time(after) / 1000 for before, after in zip(marks, marks[1:])]
        marks = [time.perf_counter()]
        for _ in range(num_steps):
            self.step()
            marks.append(time.perf_counter())
        return [after - before for before, after in zip(marks, marks[1:])]


def run_ours(options) -> float:
    """Median seconds of a step of `polyglow bench step` on the shapes and the model of these options."""
    sizes = {
        "d_model": options.d_model, "d_ff": options.d_ff, "num_heads": options.heads, "dropout": options.dropout,
        "num_encoder_layers": options.encoder_layers, "num_decoder_layers": options.decoder_layers,
        "attention_dropout": options.attention_dropout, "norm": options.norm, "activation": options.activation,
    }
    command = [
        *shlex.split(options.ours), "bench", "step", "--json", "--repetitions", str(options.steps),
        "--shape", f"{options.rows}x{options.src_len}x{options.tgt_len}", "--vocab-size", str(options.vocab),
    ]
    command += [part for key, value in sizes.items() for part in ("--set", f"model.{key}={value}")]
    threads = environment(torch.get_num_threads())
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=threads).stdout
    return json.loads(output)["buckets"][0]["step"]["median"]


def summary(seconds: list[float], options) -> dict:
    median = statistics.median(seconds)
    return {
        "seconds_per_step": median,
        "min": min(seconds),
        "max": max(seconds),
        "steps": len(seconds),
        "tgt_tokens_per_second": options.rows * options.tgt_len / median,
    }


def measure(options) -> dict:
    load_average = os.getloadavg()[0]
    trainers = {mode: Trainer(options, mode) for mode in options.modes}
    for trainer in trainers.values():
        trainer.block(options.warmup)
    seconds, ratios, ours = {mode: [] for mode in trainers}, [], []
    for _ in range(options.blocks):
        medians = []
        for mode, trainer in trainers.items():
            trainer.block(1)  # The caches hold another program's data.
            block = trainer.block(options.steps)
            seconds[mode] += block
            medians.append(statistics.median(block))
        if options.ours:
            ours.append(run_ours(options))
            ratios.append(ours[-1] / min(medians))
    fastest = min(seconds, key=lambda mode: statistics.median(seconds[mode]))
    result = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if trainer.device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "load_average": load_average,
        "mode": fastest,
        "precision": "bf16" if options.bf16 else "tf32" if options.tf32 else "float32",
        "preset": options.preset,
        "parameters": trainer.num_parameters,
        "pytorch": summary(seconds[fastest], options),
        "modes": {mode: summary(times, options) for mode, times in seconds.items()},
    }
    if trainer.device.type == "cuda":
        result["peak_mib"] = {"allocated": torch.cuda.max_memory_allocated() >> 20, "reserved": torch.cuda.max_memory_reserved() >> 20}
    if options.profile:
        save(profile(trainers[fastest]), options.profile)
    if options.ours:
        result |= {"ours": summary(ours, options), "ratio": statistics.median(ratios), "ratio_per_block": ratios}
    return result


def profile(trainer: Trainer) -> dict:
    """The kernels of a step on a GPU, or the operations on a CPU, the slowest first, with their microseconds."""
    on_gpu = trainer.device.type == "cuda"
    activities = [torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        trainer.step()
        if on_gpu:
            torch.cuda.synchronize()
    rows = [
        {"name": event.key, "launches": event.count, "microseconds": event.self_device_time_total if on_gpu else event.self_cpu_time_total}
        for event in profiler.key_averages()
    ]
    rows = sorted((row for row in rows if row["microseconds"] > 0), key=lambda row: -row["microseconds"])
    return {"microseconds": sum(row["microseconds"] for row in rows), "kernels": rows}


def report(result: dict, options) -> None:
    print(f"PyTorch {result['torch']}, {result['precision']}, {result['device']}, "
          f"{result['threads']} threads, {result['parameters']} parameters, "
          f"batch {options.rows} x {options.src_len} x {options.tgt_len}")
    if result["load_average"] > 0.5:
        print(f"The machine was busy before the start (load {result['load_average']:.1f}): these times are too long.")
    for name, figures in [*result["modes"].items(), ("ours", result.get("ours"))]:
        if figures:
            print(f"{name:8} median {figures['seconds_per_step']:.4f} s/step, min {figures['min']:.4f}, "
                  f"max {figures['max']:.4f}, {figures['tgt_tokens_per_second']:.0f} target tokens/s")
    if options.ours:
        blocks = ", ".join(f"{ratio:.2f}" for ratio in result["ratio_per_block"])
        print(f"ours / PyTorch = {result['ratio']:.2f} (per block: {blocks})")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    model = parser.add_argument_group("model")
    model.add_argument("--preset", choices=PRESETS, help="a preset of polyglow, in place of sizes one by one")
    model.add_argument("--d-model", type=int, default=128)
    model.add_argument("--d-ff", type=int, default=256)
    model.add_argument("--heads", type=int, default=4)
    model.add_argument("--encoder-layers", type=int, default=4)
    model.add_argument("--decoder-layers", type=int, default=4)
    model.add_argument("--vocab", type=int, default=9708, help="of source, target and output, all tied")
    model.add_argument("--norm", choices=["post", "pre"], default="post")
    model.add_argument("--activation", choices=["relu", "gelu", "swiglu"], default="relu")
    model.add_argument("--dropout", type=float, default=0.3)
    model.add_argument("--attention-dropout", type=float, default=0.0)
    train = parser.add_argument_group("training")
    train.add_argument("--rows", type=int, default=128, help="sentence pairs in a batch")
    train.add_argument("--src-len", type=int, default=16, help="tokens in a source sentence")
    train.add_argument("--tgt-len", type=int, default=16, help="tokens in a target sentence")
    train.add_argument("--label-smoothing", type=float, default=0.1)
    train.add_argument("--clip-norm", type=float, default=25.0)
    train.add_argument("--seed", type=int, default=1)
    run = parser.add_argument_group("run")
    run.add_argument("--device", default="cpu", help="cpu or cuda")
    run.add_argument("--threads", type=int, help="CPU threads; PyTorch's own choice if not given")
    run.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    run.add_argument("--tf32", action="store_true", help="let matrix products of CUDA round to TensorFloat-32")
    run.add_argument("--modes", choices=["eager", "compile"], nargs="+", default=["eager"],
                     help="as PyTorch is without more, or with torch.compile of the model and its loss")
    run.add_argument("--warmup", type=int, default=5, help="steps before the clock starts")
    run.add_argument("--steps", type=int, default=10, help="timed steps in a block")
    run.add_argument("--blocks", type=int, default=3, help="blocks of steps, with --ours run after each")
    run.add_argument("--ours", metavar="PROGRAM", help="the polyglow program to compare with, options may follow")
    run.add_argument("--profile", metavar="FILE", help="write the time of each kernel of one more step here")
    run.add_argument("--json", metavar="FILE", help="write the figures here, too")
    options = parser.parse_args()
    if options.preset:
        sizes = ("d_model", "d_ff", "heads", "encoder_layers", "decoder_layers", "dropout")
        for key, value in zip(sizes, PRESETS[options.preset]):
            setattr(options, key, value)
    return options


def main() -> None:
    options = arguments()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.tf32:
        torch.set_float32_matmul_precision("high")
    result = measure(options)
    report(result, options)
    save(result, options.json)


if __name__ == "__main__":
    main()
