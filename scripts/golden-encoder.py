#!/usr/bin/env python3
"""Writes the golden values of the tests of encoders with a head from PyTorch.

    pip install torch numpy
    python scripts/golden-encoder.py

Tiny encoders of text and of images go through PyTorch's nn.TransformerEncoderLayer, and patches through its nn.Conv2d.
Everything is computed in float64 from parameters that are exact in float32, so that whatever difference a test sees is
its own rounding. In the files, a linear weight is [d_in, d_out] (the transpose of PyTorch's), and the first of its axes
of the patches is (row, column, channel).
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from golden import CRATES, EOS, FIRST_WORD, PAD, BOS, Stack, case, ours, padded, sentences, sinusoid, write
from torch import Tensor, nn


@dataclass
class Config:
    """The keys of a TOML `[model]` section, with the sizes that a run takes from its data."""

    arch: str
    pooling: str
    head: str = "classification"
    activation: str = "relu"
    norm: str = "post"
    position: str = "sinusoidal"
    src_vocab: int = 11
    tgt_vocab: int = 7
    d_model: int = 8
    d_ff: int = 16
    num_heads: int = 2
    num_encoder_layers: int = 2
    max_len: int = 8
    height: int = 4
    width: int = 6
    channels: int = 3
    patch_size: int = 2


CASES = {
    "text_mean": Config("encoder", "mean"),
    "text_class": Config("encoder", "class", activation="gelu", norm="pre", position="learned"),
    "text_class_rotary": Config("encoder", "class", activation="swiglu", norm="pre", position="rotary"),
    "masked_tokens": Config("encoder", "mean", "masked_lm", tgt_vocab=11),
    "masked_tokens_class": Config("encoder", "class", "masked_lm", norm="pre", position="learned", tgt_vocab=11),
    "image_mean": Config("vit", "mean", activation="gelu", norm="pre"),
    "image_class": Config("vit", "class", channels=1),
}


class Pool(nn.Module):
    """The trained vector before all positions, or the mean."""

    def __init__(self, config: Config):
        super().__init__()
        if config.pooling == "class":
            self.class_embedding = nn.Embedding(1, config.d_model)

    def prepend(self, x: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        if not hasattr(self, "class_embedding"):
            return x, padding
        first = self.class_embedding.weight.expand(len(x), 1, -1)
        return torch.cat([first, x], 1), nn.functional.pad(padding, (1, 0), value=False)

    def forward(self, states: Tensor, padding: Tensor) -> Tensor:
        if hasattr(self, "class_embedding"):
            return states[:, 0]
        return torch.stack([row[~pads].mean(0) for row, pads in zip(states, padding)])


class TextEncoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.src_vocab, config.d_model)
        if config.position == "learned":
            self.position = nn.Embedding(config.max_len, config.d_model)
        self.pool = Pool(config)
        self.stack = Stack(nn.TransformerEncoderLayer, config.num_encoder_layers, config)
        if config.head == "classification":
            self.head = nn.Linear(config.d_model, config.tgt_vocab)

    def forward(self, src: Tensor, _tgt_in: Tensor) -> tuple[Tensor, Tensor]:
        config, length = self.config, src.shape[1]
        x = self.embedding(src) * math.sqrt(config.d_model)
        if config.position == "sinusoidal":
            x = x + sinusoid(length, config.d_model)
        elif config.position == "learned":
            x = x + self.position.weight[:length]
        x, padding = self.pool.prepend(x, src == PAD)
        states = self.stack(x, src_key_padding_mask=padding)
        if config.head == "classification":
            return states, self.head(self.pool(states, padding))[:, None]
        return states, states[:, -length:] @ self.embedding.weight.T


class Patches(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        size = config.patch_size
        self.projection = nn.Conv2d(config.channels, config.d_model, size, stride=size)
        self.row_position = nn.Embedding(config.height // size, config.d_model)
        self.column_position = nn.Embedding(config.width // size, config.d_model)

    def forward(self, images: Tensor) -> Tensor:
        grid = self.projection(images.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return grid + self.row_position.weight[:, None] + self.column_position.weight[None]


class ImageEncoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.patches = Patches(config)
        self.pool = Pool(config)
        self.stack = Stack(nn.TransformerEncoderLayer, config.num_encoder_layers, config)
        self.head = nn.Linear(config.d_model, config.tgt_vocab)

    def forward(self, src: Tensor, _tgt_in: Tensor) -> tuple[Tensor, Tensor]:
        config = self.config
        images = src.double().view(-1, config.height, config.width, config.channels) / 127.5 - 1
        x = self.patches(images).flatten(1, 2)
        x, padding = self.pool.prepend(x, torch.zeros(x.shape[:2], dtype=torch.bool))
        states = self.stack(x)
        return states, self.head(self.pool(states, padding))[:, None]


def our_parameters(name: str, value: Tensor) -> dict[str, Tensor]:
    """As those of golden.py; a convolution is a matrix whose rows are (row, column, channel)."""
    if value.dim() == 4:
        return {name: value.permute(2, 3, 1, 0).flatten(0, 2)}
    return ours(name, value)


def encoder_case(name: str, config: Config, seed: int) -> dict:
    generator = torch.Generator().manual_seed(seed + 1)
    if config.arch == "vit":
        src = torch.randint(0, 256, (2, config.height * config.width * config.channels), generator=generator)
    else:
        src = padded([row + [EOS] for row in sentences([4, 2], config.src_vocab, generator)])
    if config.head == "masked_lm":
        hidden = [row + [PAD] for row in sentences([4, 4], config.tgt_vocab, generator)]
        tgt_out = torch.tensor(hidden)
        # What was not hidden is no target; of the shorter text only the first two positions can be.
        tgt_out[0, 1], tgt_out[0, 3], tgt_out[1, 0], tgt_out[1, 2:] = PAD, PAD, PAD, PAD
        tgt_in = tgt_out
    else:
        tgt_in = torch.full((2, 1), BOS)
        tgt_out = torch.tensor(sentences([1, 1], config.tgt_vocab, generator))
    model = {"encoder": TextEncoder, "vit": ImageEncoder}[config.arch](config)
    return case(name, config, model, our_parameters, seed, src, tgt_in, tgt_out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crates", type=Path, default=CRATES, help="folder of the crates (default: %(default)s)")
    crates = parser.parse_args().crates
    torch.set_default_dtype(torch.float64)
    cases = [encoder_case(name, config, 10 * i) for i, (name, config) in enumerate(CASES.items(), start=20)]
    write(crates / "polyglow-model" / "tests" / "golden" / "encoder.json", {"cases": cases})


if __name__ == "__main__":
    main()
