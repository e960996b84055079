#!/usr/bin/env python3
"""Writes the golden values of Adafactor's test from PyTorch.

    pip install torch numpy
    python scripts/golden-adafactor.py

Five steps of torch.optim.Adafactor on a matrix and a vector, in float64 from values that are exact in float32. PyTorch
multiplies the learning rate by max(1e-3, RMS of the weights), and limits it to 1 / sqrt(step); polyglow does neither, so
each step here is given the learning rate and the weight decay that leave what polyglow is given. PyTorch's `eps` of the
second moment is set to the paper's 1e-30 in place of the float's precision, which would change the result of small
gradients. One row of the first gradients is zero, as that of a token that a batch does not have.
"""

import torch
from golden import CRATES, array, write
from torch import Tensor, nn

SMALLEST_RMS = 1e-3


def steps(start: Tensor, grads: list[Tensor], lr: float, weight_decay: float) -> dict:
    """The parameter after each step, and the parts of the optimizer's state after the last."""
    parameter = nn.Parameter(start.clone())
    optimizer = torch.optim.Adafactor([parameter], lr=lr, eps=(1e-30, SMALLEST_RMS), d=1.0)
    (group,) = optimizer.param_groups
    after = []
    for number, grad in enumerate(grads, start=1):
        rms = max(SMALLEST_RMS, (parameter.norm(2) / parameter.numel() ** 0.5).item())
        group["lr"], group["weight_decay"] = lr / rms, weight_decay * rms
        assert group["lr"] < number**-0.5, "PyTorch would limit it"
        parameter.grad = grad.clone()
        optimizer.step()
        after.append(array(parameter.detach().clone()))
    state = optimizer.state[parameter]
    names = {"row_var": "row", "col_var": "column", "variance": "square"}
    parts = {ours: array(state[theirs]) for theirs, ours in names.items() if theirs in state}
    return {"start": array(start, exact=True), "grads": [array(grad, exact=True) for grad in grads], "after": after, "state": parts}


def main() -> None:
    torch.set_default_dtype(torch.float64)
    generator = torch.Generator().manual_seed(17)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).mul(1e4).round().div(1e4).float().double()

    def gradients(*shape: int) -> list[Tensor]:
        # Of very different sizes, so that some updates are clipped and some are not.
        return [random(*shape).mul(scale).mul(1e4).round().div(1e4).float().double() for scale in (0.1, 3.0, 1.0, 0.3, 0.05)]

    matrix, vector = gradients(4, 3), gradients(5)
    for grad in matrix[:2]:
        grad[2] = 0.0
    lr, weight_decay = 0.01, 0.1
    values = {
        "lr": lr,
        "weight_decay": weight_decay,
        "matrix": steps(random(4, 3), matrix, lr, weight_decay),
        "vector": steps(random(5), vector, lr, 0.0),
    }
    write(CRATES / "polyglow-train" / "tests" / "golden" / "adafactor.json", values)


if __name__ == "__main__":
    main()
