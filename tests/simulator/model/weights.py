"""Weights for tests."""

import torch
from torch import nn


def randomise(model: nn.Module, seed: int) -> None:
    """Give every tensor, gains and balance biases included, values of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            noise = torch.randn(tensor.shape, generator=generator)
            is_gain = name.endswith("norm.weight")
            scale = 0.1 if is_gain or tensor.dim() == 1 else tensor.shape[-1] ** -0.5
            tensor.copy_(noise * scale + is_gain)
