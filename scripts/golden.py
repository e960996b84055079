#!/usr/bin/env python3
"""Writes the golden values of the model's and the optimizer's tests from PyTorch.

    pip install torch numpy
    python scripts/golden.py

Three tiny Transformers go through PyTorch's own layers (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer,
nn.CrossEntropyLoss); only SwiGLU and rotary positions, which PyTorch lacks, are written out here. `transformer.json`
holds their parameters, inputs, outputs and gradients, and `adam.json` five steps of Adam and AdamW and one clipped
gradient. Everything is computed in float64 from parameters that are exact in float32, so that whatever difference a
test sees is its own rounding.

In the files, a linear weight is [d_in, d_out] (the transpose of PyTorch's), and logits at padded target positions
come from a mask that forbids padding as well as the future.
"""

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 4
LABEL_SMOOTHING = 0.1
CRATES = Path(__file__).resolve().parent.parent / "crates"


@dataclass
class Config:
    """The keys of a TOML `[model]` section, with the sizes that a run takes from its tokenizer."""

    activation: str
    norm: str
    position: str
    tie_embeddings: str
    src_vocab: int
    tgt_vocab: int
    d_model: int = 8
    d_ff: int = 16
    num_heads: int = 2
    num_encoder_layers: int = 2
    num_decoder_layers: int = 2
    max_len: int = 8


CASES = {
    "post_norm_relu_sinusoidal_tie_all": Config("relu", "post", "sinusoidal", "all", 11, 11),
    "pre_norm_gelu_learned_tie_decoder": Config("gelu", "pre", "learned", "decoder", 11, 13),
    "pre_norm_swiglu_rotary_tie_none": Config("swiglu", "pre", "rotary", "none", 11, 13),
}


# The model: PyTorch's layers, and the two things that PyTorch does not have.


def rotate(x: Tensor) -> Tensor:
    """Turns each pair (2i, 2i+1) of `x` [batch, heads, len, head_dim] by position * 10000^(-2i/head_dim) radians."""
    length, head_dim = x.shape[-2:]
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(length).to(x.dtype), frequencies)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class RotarySelfAttention:
    """Replaces the self-attention of a PyTorch layer; the parameters stay those of its nn.MultiheadAttention."""

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        attention = self.self_attn
        batch, length, d_model = x.shape
        projected = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
        query, key, value = (
            part.view(batch, length, attention.num_heads, -1).transpose(1, 2) for part in projected.chunk(3, dim=-1)
        )
        allowed = self.allowed(key_padding_mask)[:, None, None, :]
        if attn_mask is not None:
            allowed = allowed & self.allowed(attn_mask)
        context = F.scaled_dot_product_attention(rotate(query), rotate(key), value, attn_mask=allowed)
        return attention.out_proj(context.transpose(1, 2).reshape(batch, length, d_model))

    @staticmethod
    def allowed(mask: Tensor) -> Tensor:
        """PyTorch's encoder layer hands its masks on as 0 and -inf, its decoder layer as `True` = forbidden."""
        return ~mask if mask.dtype == torch.bool else mask == 0


class SwigluFeedForward:
    """Replaces the feed-forward part of a PyTorch layer by outer(silu(gate(x)) * inner(x))."""

    def _ff_block(self, x):
        return self.linear2(F.silu(self.gate(x)) * self.linear1(x))


def layer(base: type, config: Config) -> nn.Module:
    """One encoder or decoder layer of PyTorch's class `base`, with what `config` changes in it."""
    changes = []
    if config.position == "rotary":
        changes.append(RotarySelfAttention)
    if config.activation == "swiglu":
        changes.append(SwigluFeedForward)
    kind = type(base.__name__, (*changes, base), {})
    result = kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=0.0,
        activation={"relu": F.relu, "gelu": F.gelu, "swiglu": F.silu}[config.activation],
        layer_norm_eps=1e-5,
        batch_first=True,
        norm_first=config.norm == "pre",
    )
    if config.activation == "swiglu":
        result.gate = nn.Linear(config.d_model, config.d_ff)
    return result


class Stack(nn.Module):
    """Equal layers, and for pre-norm a norm after the last."""

    def __init__(self, base: type, num_layers: int, config: Config):
        super().__init__()
        self.layers = nn.ModuleList(layer(base, config) for _ in range(num_layers))
        self.norm = nn.LayerNorm(config.d_model, eps=1e-5) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, *inputs, **masks) -> Tensor:
        for one in self.layers:
            x = one(x, *inputs, **masks)
        return self.norm(x)


def sinusoid(length: int, d_model: int) -> Tensor:
    """The paper's positions, section 3.5: even dimensions hold sines, odd ones cosines."""
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(0, d_model, 2):
            angle = position / 10000 ** (i / d_model)
            table[position, i], table[position, i + 1] = math.sin(angle), math.cos(angle)
    return table


class Transformer(nn.Module):
    """The encoder-decoder Transformer as the Rust crate defines it."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.src_embedding = nn.Embedding(config.src_vocab, config.d_model)
        if config.tie_embeddings != "all":
            self.tgt_embedding = nn.Embedding(config.tgt_vocab, config.d_model)
        if config.tie_embeddings == "none":
            self.output = nn.Linear(config.d_model, config.tgt_vocab, bias=False)
        if config.position == "learned":
            self.src_position = nn.Embedding(config.max_len, config.d_model)
            self.tgt_position = nn.Embedding(config.max_len, config.d_model)
        self.encoder = Stack(nn.TransformerEncoderLayer, config.num_encoder_layers, config)
        self.decoder = Stack(nn.TransformerDecoderLayer, config.num_decoder_layers, config)

    def embed(self, side: str, ids: Tensor) -> Tensor:
        shared = self.config.tie_embeddings == "all"
        embedding = self.src_embedding if side == "src" or shared else self.tgt_embedding
        embedded = embedding(ids) * math.sqrt(self.config.d_model)
        length = ids.shape[1]
        match self.config.position:
            case "sinusoidal":
                return embedded + sinusoid(length, self.config.d_model)
            case "learned":
                return embedded + getattr(self, f"{side}_position").weight[:length]
            case "rotary":
                return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        match self.config.tie_embeddings:
            case "none":
                return self.output(hidden)
            case "decoder":
                return hidden @ self.tgt_embedding.weight.T
            case "all":
                return hidden @ self.src_embedding.weight.T

    def forward(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
        src_pad_mask, tgt_pad_mask = src == PAD, tgt_in == PAD
        length = tgt_in.shape[1]
        causal_mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        memory = self.encoder(self.embed("src", src), src_key_padding_mask=src_pad_mask)
        hidden = self.decoder(
            self.embed("tgt", tgt_in),
            memory,
            tgt_mask=causal_mask,
            tgt_key_padding_mask=tgt_pad_mask,
            memory_key_padding_mask=src_pad_mask,
        )
        return memory, self.logits(hidden)


# From PyTorch's parameter names and shapes to ours.

ENCODER_PARTS = {
    "self_attn.in_proj_": "self_attention.qkv.",
    "self_attn.out_proj.": "self_attention.output.",
    "linear1.": "feed_forward.inner.",
    "linear2.": "feed_forward.outer.",
    "gate.": "feed_forward.gate.",
    "norm1.": "self_attention_residual.norm.",
    "norm2.": "feed_forward_residual.norm.",
}
DECODER_PARTS = ENCODER_PARTS | {
    "multihead_attn.in_proj_": "cross_attention.in_proj.",
    "multihead_attn.out_proj.": "cross_attention.output.",
    "norm2.": "cross_attention_residual.norm.",
    "norm3.": "feed_forward_residual.norm.",
}


def our_name(name: str) -> str:
    parts = DECODER_PARTS if name.startswith("decoder") else ENCODER_PARTS
    for theirs, ours in parts.items():
        name = name.replace(f".{theirs}", f".{ours}")
    if "norm." in name:
        name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
    return name


def ours(name: str, value: Tensor) -> dict[str, Tensor]:
    """The parameters of ours that hold PyTorch's parameter `name`, or in the same way its gradient."""
    name = our_name(name)
    if value.dim() == 2 and "embedding" not in name and "position" not in name:
        value = value.T
    if "cross_attention.in_proj" in name:
        # PyTorch fuses query, key and value; across the two sides only key and value can share a product.
        d_model = value.shape[-1] // 3
        return {
            name.replace("in_proj", "query"): value[..., :d_model],
            name.replace("in_proj", "key_value"): value[..., d_model:],
        }
    return {name: value}


# The values.


def randomize(model: nn.Module, seed: int) -> None:
    """Gives every parameter, norms and biases too, random values of four decimals that are exact in float32."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            noise = torch.randn(parameter.shape, generator=generator) * 0.3
            parameter.copy_(((center + noise) * 1e4).round().div(1e4).float())


def sentences(lengths: list[int], vocab: int, generator: torch.Generator) -> list[list[int]]:
    return [torch.randint(FIRST_WORD, vocab, (n,), generator=generator).tolist() for n in lengths]


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def translation_case(name: str, config, model: nn.Module, ours, seed: int) -> dict:
    """Inputs, outputs and gradients of a model that returns what it made of the source, and logits; `ours` turns a
    parameter's name and value into those of the Rust crate."""
    generator = torch.Generator().manual_seed(seed + 1)
    src = padded([row + [EOS] for row in sentences([4, 2], config.src_vocab, generator)])
    tgt = sentences([3, 5], config.tgt_vocab, generator)
    tgt_in = padded([[BOS] + row for row in tgt])
    tgt_out = padded([row + [EOS] for row in tgt])
    return case(name, config, model, ours, seed, src, tgt_in, tgt_out)


def case(name, config, model, ours, seed, src: Tensor, tgt_in: Tensor, tgt_out: Tensor) -> dict:
    """Outputs and gradients for these inputs, with parameters drawn from `seed`."""
    randomize(model, seed)
    memory, logits = model(src, tgt_in)
    flat = logits.flatten(0, 1), tgt_out.flatten()
    loss_sum = nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING, ignore_index=PAD, reduction="sum")(*flat)
    nll_sum = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")(*flat)
    loss_sum.backward()

    params, grads = {}, {}
    for theirs, parameter in model.named_parameters():
        params |= ours(theirs, parameter.detach())
        grads |= ours(theirs, parameter.grad)
    return {
        "name": name,
        "config": asdict(config),
        "label_smoothing": LABEL_SMOOTHING,
        "pad_id": PAD,
        "params": {key: array(value, exact=True) for key, value in params.items()},
        "src": src.tolist(),
        "tgt_in": tgt_in.tolist(),
        "tgt_out": tgt_out.tolist(),
        "memory": array(memory),
        "logits": array(logits),
        "loss_sum": rounded(loss_sum.item()),
        "nll_sum": rounded(nll_sum.item()),
        "num_tokens": int((tgt_out != PAD).sum()),
        "grads": {key: array(value) for key, value in grads.items()},
    }


def optimizer_steps(kind: type, start: Tensor, grads: list[Tensor], **options) -> dict:
    """The parameter after each step of PyTorch's optimizer `kind`."""
    parameter = nn.Parameter(start.clone())
    optimizer = kind([parameter], **options)
    steps = []
    for grad in grads:
        parameter.grad = grad.clone()
        optimizer.step()
        steps.append(array(parameter.detach().clone()))
    return {**options, "params_after_step": steps}


def adam_values() -> dict:
    generator = torch.Generator().manual_seed(7)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).mul(1e4).round().div(1e4).float().double()

    start, grads = random(2, 3), [random(2, 3) for _ in range(5)]
    options = {"lr": 0.01, "betas": (0.9, 0.98), "eps": 1e-9}
    return {
        "start": array(start, exact=True),
        "grads": [array(grad, exact=True) for grad in grads],
        "adam": optimizer_steps(torch.optim.Adam, start, grads, weight_decay=0.0, **options),
        "adamw": optimizer_steps(torch.optim.AdamW, start, grads, weight_decay=0.01, **options),
        "clip": [clip_example([random(2, 3), random(4)], max_norm) for max_norm in (0.5, 100.0)],
    }


def clip_example(grads: list[Tensor], max_norm: float) -> dict:
    """Gradients before and after clip_grad_norm_, over all of them together."""
    params = [nn.Parameter(torch.zeros_like(grad)) for grad in grads]
    for parameter, grad in zip(params, grads):
        parameter.grad = grad.clone()
    norm = nn.utils.clip_grad_norm_(params, max_norm)
    return {
        "max_norm": max_norm,
        "grads": [array(grad, exact=True) for grad in grads],
        "global_norm": rounded(norm.item()),
        "clipped": [array(parameter.grad) for parameter in params],
    }


# The files.


def rounded(value: float) -> float:
    """Eight significant digits; a zero stays zero, whatever rounding noise of the machine stands in for it."""
    return float(f"{value:.8g}") if abs(value) > 1e-12 else 0.0


def array(tensor: Tensor, exact: bool = False) -> dict:
    """Shape and flat data; `exact` values have four decimals by construction, which need no more digits."""
    values = tensor.flatten().tolist()
    return {"shape": list(tensor.shape), "data": [round(v, 4) if exact else rounded(v) for v in values]}


def write(path: Path, content: dict) -> None:
    header = {"made_by": f"python scripts/{Path(sys.argv[0]).name}", "torch": torch.__version__}
    path.write_text(json.dumps(header | content, separators=(",", ":")) + "\n")
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crates", type=Path, default=CRATES, help="folder of the crates (default: %(default)s)")
    crates = parser.parse_args().crates
    torch.set_default_dtype(torch.float64)
    cases = [translation_case(name, config, Transformer(config), ours, 10 * i) for i, (name, config) in enumerate(CASES.items(), start=1)]
    write(crates / "polyglow-model" / "tests" / "golden" / "transformer.json", {"cases": cases})
    write(crates / "polyglow-train" / "tests" / "golden" / "adam.json", adam_values())


if __name__ == "__main__":
    main()
