#!/usr/bin/env python3
"""Writes the golden values of the tests of single layers from PyTorch.

    pip install torch numpy
    python scripts/golden-layers.py

nn.RMSNorm, scaled_dot_product_attention with grouped heads (`enable_gqa`) and an additive bias, rotary positions as
products of complex numbers, and feed-forward blocks with and without a gate. Each case holds the parameters, an input,
the output, and the gradients of `(output * factors).sum()`. Everything is computed in float64 from values that are
exact in float32. In the file, a linear weight is [d_in, d_out] (the transpose of PyTorch's).
"""

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from golden import CRATES, array, randomize, write
from torch import Tensor, nn

D_MODEL, D_FF = 8, 12
BATCH, LEN, SRC_LEN = 2, 5, 4


def random(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator).mul(1e4).round().div(1e4).float().double()


def rotated(heads: Tensor, base: float, start: int = 0) -> Tensor:
    """Multiplies each pair (2i, 2i+1) of `heads` [batch, heads, len, head_dim], as a complex number, by
    e^(j * position * base^(-2i/head_dim))."""
    length, head_dim = heads.shape[-2:]
    frequencies = base ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(start, start + length).to(heads.dtype), frequencies)
    pairs = torch.view_as_complex(heads.reshape(*heads.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Projections around scaled_dot_product_attention, whose heads of queries share those of keys and values."""

    def __init__(self, num_heads: int, num_kv_heads: int, bias: bool, base: float | None = None):
        super().__init__()
        self.head_dim, self.base = D_MODEL // num_heads, base
        kv_width = num_kv_heads * self.head_dim
        self.query = nn.Linear(D_MODEL, D_MODEL, bias=bias)
        self.key = nn.Linear(D_MODEL, kv_width, bias=bias)
        self.value = nn.Linear(D_MODEL, kv_width, bias=bias)
        self.output = nn.Linear(D_MODEL, D_MODEL, bias=bias)

    def forward(self, input: Tensor, allowed: Tensor, memory: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        memory = input if memory is None else memory
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection, x in ((self.query, input), (self.key, memory), (self.value, memory))
        )
        if self.base is not None:
            query, key = rotated(query, self.base), rotated(key, self.base)
        mask = torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
        mask = mask if bias is None else mask + bias
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
        return self.output(context.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, activation: str, bias: bool):
        super().__init__()
        self.activation = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu, "swiglu": F.silu}[activation]
        self.inner = nn.Linear(D_MODEL, D_FF, bias=bias)
        self.gate = nn.Linear(D_MODEL, D_FF, bias=bias) if activation == "swiglu" else None
        self.outer = nn.Linear(D_FF, D_MODEL, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return self.outer(self.activation(self.inner(x)))
        return self.outer(self.activation(self.gate(x)) * self.inner(x))


def joined(values: dict[str, Tensor], fused: dict[str, list[str]]) -> dict[str, Tensor]:
    """PyTorch's parameters or gradients under our names: matrices transposed, and some side by side in one."""
    result = {}
    for name, parts in fused.items():
        for kind in ("weight", "bias"):
            pieces = [values.pop(f"{part}.{kind}") for part in parts if f"{part}.{kind}" in values]
            if pieces:
                result[f"{name}.{kind}"] = torch.cat(pieces)
    result |= values
    return {name: value.T if value.dim() == 2 else value for name, value in result.items()}


def layer_case(name: str, config: dict, layer: nn.Module, inputs: dict, seed: int, fused=None, **fixed) -> dict:
    """Output and gradients of `layer`, called with `inputs`, which have gradients, and with what is `fixed`."""
    randomize(layer, seed)
    leaves = {key: value.requires_grad_() for key, value in inputs.items()}
    others = {key: value for key, value in leaves.items() if key != "input"}
    output = layer(leaves["input"], **others, **fixed)
    factors = random(torch.Generator().manual_seed(seed + 2), *output.shape)
    (output * factors).sum().backward()
    parameters = dict(layer.named_parameters())
    params = joined({key: value.detach() for key, value in parameters.items()}, fused or {})
    grads = joined({key: value.grad for key, value in parameters.items()}, fused or {})
    return {
        "name": name,
        "config": config,
        "params": {key: array(value, exact=True) for key, value in params.items()},
        "inputs": {key: array(value.detach(), exact=True) for key, value in leaves.items()},
        "output": array(output.detach()),
        "factors": array(factors, exact=True),
        "grads": {key: array(value) for key, value in grads.items()},
        "input_grads": {key: array(value.grad) for key, value in leaves.items()},
    }


def rms_norm_cases() -> list[dict]:
    cases = []
    for seed, eps in enumerate((1e-6, 0.1), start=100):
        layer = nn.RMSNorm(D_MODEL, eps=eps)
        inputs = {"input": random(torch.Generator().manual_seed(seed), 6, D_MODEL)}
        case = layer_case(f"eps {eps}", {"eps": eps}, layer, inputs, seed)
        for key in ("params", "grads"):
            case[key] = {"gamma": case[key]["weight"]}
        cases.append(case)
    return cases


def feed_forward_cases() -> list[dict]:
    cases = []
    kinds = [(kind, bias) for kind in ("relu", "gelu", "swish", "swiglu") for bias in (True, False)]
    for seed, (activation, bias) in enumerate(kinds, start=200):
        config = {"activation": activation, "bias": bias, "d_model": D_MODEL, "d_ff": D_FF}
        inputs = {"input": random(torch.Generator().manual_seed(seed), 6, D_MODEL)}
        cases.append(layer_case(f"{activation}, bias {bias}", config, FeedForward(activation, bias), inputs, seed))
    return cases


# Heads of queries, heads of keys and values, whether projections have biases, base of rotary positions, and the shape
# of the additive bias.
SELF_ATTENTION = {
    "equal heads": (4, 4, True, None, None),
    "equal heads, bias of each head": (4, 4, True, None, (1, 4, LEN, LEN)),
    "grouped": (4, 2, True, None, None),
    "grouped, no biases, rotary": (4, 2, False, 10000.0, None),
    "grouped, rotary of another base": (2, 1, True, 500.0, None),
    "grouped, bias of each head": (4, 2, False, None, (1, 4, LEN, LEN)),
    "one head of keys, bias of each row": (4, 1, True, None, (BATCH, 1, LEN, LEN)),
    "grouped, rotary, bias of each row and head": (4, 2, True, 10000.0, (BATCH, 4, LEN, LEN)),
}


def self_attention_cases() -> list[dict]:
    causal = torch.ones(LEN, LEN, dtype=torch.bool).tril()[None, None]
    cases = []
    for seed, (name, settings) in enumerate(SELF_ATTENTION.items(), start=300):
        num_heads, num_kv_heads, has_bias, base, bias_shape = settings
        generator = torch.Generator().manual_seed(seed)
        inputs = {"input": random(generator, BATCH, LEN, D_MODEL)}
        if bias_shape:
            inputs["bias"] = random(generator, *bias_shape)
        layer = Attention(num_heads, num_kv_heads, has_bias, base)
        config = {
            "d_model": D_MODEL,
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "bias": has_bias,
            "base": base,
        }
        fused = {"qkv": ["query", "key", "value"]}
        cases.append(layer_case(name, config, layer, inputs, seed, fused, allowed=causal))
    return cases


def cross_attention_cases() -> list[dict]:
    allowed = torch.arange(SRC_LEN)[None] < torch.tensor([SRC_LEN, 2])[:, None]  # the second source has 2 tokens
    cases = []
    for seed, num_kv_heads in enumerate((4, 2, 1), start=400):
        generator = torch.Generator().manual_seed(seed)
        inputs = {
            "input": random(generator, BATCH, LEN, D_MODEL),
            "memory": random(generator, BATCH, SRC_LEN, D_MODEL),
        }
        config = {"d_model": D_MODEL, "num_heads": 4, "num_kv_heads": num_kv_heads, "bias": True, "base": None}
        layer = Attention(4, num_kv_heads, True)
        fused = {"key_value": ["key", "value"]}
        name = f"heads of keys: {num_kv_heads}"
        cases.append(layer_case(name, config, layer, inputs, seed, fused, allowed=allowed[:, None, None]))
    return cases


def rotation_cases() -> list[dict]:
    cases = []
    for seed, (base, start) in enumerate(((10000.0, 0), (10000.0, 7), (500.0, 3)), start=500):
        heads = random(torch.Generator().manual_seed(seed), 2, 3, 4, 6)
        output = array(rotated(heads, base, start))
        cases.append({"base": base, "start": start, "heads": array(heads, exact=True), "output": output})
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crates", type=Path, default=CRATES, help="folder of the crates (default: %(default)s)")
    crates = parser.parse_args().crates
    torch.set_default_dtype(torch.float64)
    content = {
        "rms_norm": rms_norm_cases(),
        "feed_forward": feed_forward_cases(),
        "self_attention": self_attention_cases(),
        "cross_attention": cross_attention_cases(),
        "rotation": rotation_cases(),
    }
    write(crates / "polyglow-model" / "tests" / "golden" / "layers.json", content)


if __name__ == "__main__":
    main()
