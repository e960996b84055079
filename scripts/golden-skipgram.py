#!/usr/bin/env python3
"""Writes the golden values of the skip-gram model's test from PyTorch.

    pip install torch numpy
    python scripts/golden-skipgram.py

The loss is PyTorch's binary cross-entropy of the products, in float64 from parameters that are exact in float32.
"""

import json

import torch
from golden import CRATES
from torch.nn import functional

VOCABULARY, WIDTH, NEGATIVES = 9, 5, 3


def main():
    torch.manual_seed(11)
    tables = [torch.randn(VOCABULARY, WIDTH).double().requires_grad_() for _ in ("embedding", "context")]
    centers = torch.tensor([[4], [7], [4], [8]])
    candidates = torch.tensor([[5, 6, 8, 4], [4, 4, 5, 5], [6, 3, 7, 8], [8, 5, 6, 7]])
    scores = (tables[0][centers] * tables[1][candidates]).sum(-1)
    real = torch.zeros_like(scores)
    real[:, 0] = 1.0
    loss = functional.binary_cross_entropy_with_logits(scores, real, reduction="sum")
    loss.backward()
    golden = {
        "centers": centers.tolist(),
        "candidates": candidates.tolist(),
        "tables": [table.flatten().tolist() for table in tables],
        "loss_sum": loss.item(),
        "correct": ((scores > 0) == (real > 0)).sum().item(),
        "gradients": [table.grad.flatten().tolist() for table in tables],
    }
    path = CRATES / "polyglow-model/tests/golden/skipgram.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
