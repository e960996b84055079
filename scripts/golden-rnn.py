#!/usr/bin/env python3
"""Writes the golden values of the recurrent models' tests from PyTorch.

    pip install torch numpy
    python scripts/golden-rnn.py

Tiny encoder-decoders around PyTorch's nn.RNN, nn.GRU and nn.LSTM over packed sequences, and their cells where the output is
fed back; attention is written out here. Everything is computed in float64 from parameters that are exact in
float32, so that whatever difference a test sees is its own rounding. In the files, a linear weight is [d_in, d_out] (the
transpose of PyTorch's).
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from golden import CRATES, PAD, translation_case, write
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@dataclass
class Config:
    """The keys of a TOML `[model]` section, with the sizes that a run takes from its tokenizer."""

    cell: str
    attention: str
    input_feeding: bool
    tie_embeddings: str
    num_encoder_layers: int
    num_decoder_layers: int
    attend: str = "after"
    cell_size: int | None = None
    bias: bool = True
    src_vocab: int = 11
    tgt_vocab: int = 13
    d_model: int = 6
    max_len: int = 8


CASES = {
    "gru_additive_input_feeding": Config("gru", "additive", True, "decoder", 2, 2),
    "lstm_general_input_feeding": Config("lstm", "general", True, "none", 1, 2),
    "lstm_additive": Config("lstm", "additive", False, "decoder", 2, 1),
    "gru_dot": Config("gru", "dot", False, "decoder", 1, 2),
    "lstm_none": Config("lstm", "none", False, "decoder", 2, 2),
    "tanh_additive_input_feeding": Config("tanh", "additive", True, "decoder", 2, 2),
    "tanh_dot": Config("tanh", "dot", False, "none", 1, 2),
    "gru_as_bahdanau": Config("gru", "additive", False, "decoder", 1, 1, "before"),
    "lstm_attends_before": Config("lstm", "general", False, "none", 2, 2, "before"),
    "lstm_projected": Config("lstm", "dot", False, "none", 2, 2, cell_size=10),
    "gru_without_bias": Config("gru", "dot", False, "none", 2, 1, bias=False),
    "lstm_without_bias_input_feeding": Config("lstm", "dot", True, "none", 1, 1, bias=False),
}
KINDS = {"tanh": (nn.RNN, nn.RNNCell), "gru": (nn.GRU, nn.GRUCell), "lstm": (nn.LSTM, nn.LSTMCell)}


class Rnn(nn.Module):
    """The recurrent encoder-decoder as the Rust crate defines it."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        d_model, lstm = config.d_model, config.cell == "lstm"
        kind, cell = KINDS[config.cell]
        self.src_embedding = nn.Embedding(config.src_vocab, d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab, d_model)
        if config.tie_embeddings == "none":
            self.output = nn.Linear(d_model, config.tgt_vocab, bias=False)
        cells = config.cell_size or d_model
        self.projects = cells != d_model  # PyTorch's `hidden_size` is then the memory's, and its `proj_size` the output's
        half, whole = ({"proj_size": size} if self.projects else {} for size in (d_model // 2, d_model))
        both = {"batch_first": True, "bias": config.bias}
        self.encoder = kind(d_model, cells // 2, config.num_encoder_layers, bidirectional=True, **both, **half)
        self.bridge = nn.Linear(d_model, d_model * config.num_decoder_layers * (2 if lstm and not self.projects else 1))
        self.before = config.attend == "before"
        self.feeds = (config.input_feeding or self.before) and config.attention != "none"
        if self.feeds:
            sizes = [2 * d_model] + [d_model] * (config.num_decoder_layers - 1)
            self.cells = nn.ModuleList(cell(size, d_model, bias=config.bias) for size in sizes)
        else:
            self.decoder = kind(d_model, cells, config.num_decoder_layers, **both, **whole)
        if config.attention != "none":
            self.combine = nn.Linear(3 * d_model, 2 * d_model) if self.before else nn.Linear(2 * d_model, d_model)
        if config.attention == "additive":
            self.query = nn.Linear(d_model, d_model, bias=False)
            self.key = nn.Linear(d_model, d_model)
            self.score = nn.Parameter(torch.zeros(d_model, 1))
        elif config.attention == "general":
            self.key = nn.Linear(d_model, d_model, bias=False)

    def context(self, states: Tensor, memory: Tensor, pad: Tensor) -> Tensor:
        """`states` [batch, len, d_model] attend to `memory` [batch, src_len, d_model]."""
        match self.config.attention:
            case "additive":
                mixed = torch.tanh(self.query(states)[:, :, None] + self.key(memory)[:, None])
                scores = (mixed @ self.score).squeeze(-1)
            case "dot":
                scores = states @ memory.mT
            case "general":
                scores = states @ self.key(memory).mT
        weights = scores.masked_fill(pad[:, None], -math.inf).softmax(-1)
        return weights @ memory

    def look(self, states: Tensor, memory: Tensor, pad: Tensor) -> Tensor:
        if self.config.attention == "none":
            return states
        return torch.tanh(self.combine(torch.cat([states, self.context(states, memory, pad)], -1)))

    def forward(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
        config, pad = self.config, src == PAD
        scale = math.sqrt(config.d_model)
        packed = pack_padded_sequence(
            self.src_embedding(src) * scale, (~pad).sum(1), batch_first=True, enforce_sorted=False
        )
        output, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(output, batch_first=True)
        last = last[0] if config.cell == "lstm" else last
        summary = torch.cat([last[-2], last[-1]], -1)  # the highest layer's two directions
        bridged = torch.tanh(self.bridge(summary)).unflatten(-1, (-1, config.d_model)).transpose(0, 1).contiguous()
        hidden = bridged[: config.num_decoder_layers]
        cells = bridged[config.num_decoder_layers :]
        if self.projects:  # the memory begins empty
            cells = torch.zeros(*hidden.shape[:2], config.cell_size)
        embedded = self.tgt_embedding(tgt_in) * scale
        if self.feeds:
            states = list(zip(hidden, cells)) if config.cell == "lstm" else list(hidden)
            fed, outputs = torch.zeros_like(summary), []
            for position in range(tgt_in.shape[1]):
                if self.before:  # Bahdanau et al.: the context of the state before is an input of the step
                    last = states[-1][0] if config.cell == "lstm" else states[-1]
                    fed = self.context(last[:, None], memory, pad)[:, 0]
                top = torch.cat([embedded[:, position], fed], -1)
                for number, cell in enumerate(self.cells):
                    states[number] = cell(top, states[number])
                    top = states[number][0] if config.cell == "lstm" else states[number]
                if self.before:  # their maxout of state, token and context
                    mixed = self.combine(torch.cat([top, embedded[:, position], fed], -1))
                    outputs.append(mixed.unflatten(-1, (-1, 2)).amax(-1))
                    continue
                fed = self.look(top[:, None], memory, pad)[:, 0]
                outputs.append(fed)
            decoded = torch.stack(outputs, 1)
        else:
            start = (hidden, cells) if config.cell == "lstm" else hidden
            decoded = self.look(self.decoder(embedded, start)[0], memory, pad)
        if config.tie_embeddings == "none":
            return memory, self.output(decoded)
        return memory, decoded @ self.tgt_embedding.weight.T


# From PyTorch's parameter names and shapes to ours.


def ours(config: Config):
    """The renaming of parameters for a model of this config."""

    def recurrent(layer: str, kind: str, value: Tensor) -> dict[str, Tensor]:
        if kind == "weight_hr":
            return {f"{layer}.projection.weight": value.T}
        side, what = {"ih": "input", "hh": "hidden"}[kind.split("_")[1]], kind.split("_")[0]
        if what == "bias" and config.cell != "gru" and side == "hidden":
            return {}  # the same as the other bias; it is held at zero
        name = f"{layer}.{side}.{what}"
        if value.dim() == 2 and name == "decoder.layers.0.input.weight" and value.shape[1] == 2 * config.d_model:
            parts = value.T.split(config.d_model)
            return {name: parts[0], "decoder.feed.weight": parts[1]}
        return {name: value.T if value.dim() == 2 else value}

    def rename(name: str, value: Tensor) -> dict[str, Tensor]:
        parts = name.split(".")
        if parts[0] == "encoder":
            kind, layer = parts[1].removesuffix("_reverse").rsplit("_l", 1)
            direction = "backward" if parts[1].endswith("_reverse") else "forward"
            return recurrent(f"encoder.layers.{layer}.{direction}", kind, value)
        if parts[0] == "decoder":
            kind, layer = parts[1].rsplit("_l", 1)
            return recurrent(f"decoder.layers.{layer}", kind, value)
        if parts[0] == "cells":
            return recurrent(f"decoder.layers.{parts[1]}", parts[2], value)
        if name == "score":
            return {"decoder.attention.score": value}
        if parts[0] in ("query", "key"):
            name = f"decoder.attention.{name}"
        elif parts[0] in ("bridge", "combine"):
            name = f"decoder.{name}"
        return {name: value.T if value.dim() == 2 and "embedding" not in name else value}

    return rename


class WithoutSecondBiases(Rnn):
    """PyTorch's RNN and LSTM add two biases where one would do: the second is held at zero."""

    def forward(self, src: Tensor, tgt_in: Tensor):
        if self.config.cell != "gru":
            with torch.no_grad():
                for name, parameter in self.named_parameters():
                    if "bias_hh" in name:
                        parameter.zero_()
        return super().forward(src, tgt_in)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crates", type=Path, default=CRATES, help="folder of the crates (default: %(default)s)")
    crates = parser.parse_args().crates
    torch.set_default_dtype(torch.float64)
    cases = [
        translation_case(name, config, WithoutSecondBiases(config), ours(config), 10 * i)
        for i, (name, config) in enumerate(CASES.items(), start=1)
    ]
    write(crates / "polyglow-model" / "tests" / "golden" / "rnn.json", {"cases": cases})


if __name__ == "__main__":
    main()
