"""Initial values: each tensor's are a pure function of (seed, name, shape, standard deviation)."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from simulator.parametrisation import TensorRule

__all__ = ["initial_values", "initialise"]


@torch.no_grad()
def initialise(module: nn.Module, rules: Sequence[TensorRule], seed: int) -> None:
    """Set every parameter of ``module`` in place by its rule.

    Parameters
    ----------
    module
        A built model without a leading axis of models, on any device but ``meta``.
    rules
        One rule a parameter, in any order.
    seed
        A tensor's values depend on this and its own rule, not on the other tensors.

    Raises
    ------
    ValueError
        If rules and parameters do not name the same tensors, or shapes differ.
    """
    parameters = dict(module.named_parameters())
    names = {rule.name for rule in rules}
    if names != parameters.keys():
        difference = sorted(names ^ parameters.keys())
        raise ValueError(f"rules and parameters must name the same tensors; differ in {difference}")
    for rule in rules:
        parameter = parameters[rule.name]
        if tuple(parameter.shape) != rule.shape:
            raise ValueError(f"{rule.name} must have shape {rule.shape}; got {parameter.shape}")
        parameter.copy_(initial_values(rule, seed))


def initial_values(rule: TensorRule, seed: int) -> Tensor:
    """Return one tensor's initial values on the CPU, float32.

    Gains are one, biases zero; every other kind is normal with ``rule.init_std``. They are drawn
    on the CPU so that every device starts from the same numbers.
    """
    match rule.kind:
        case "gain":
            return torch.ones(rule.shape)
        case "bias":
            return torch.zeros(rule.shape)
        case _:
            generator = torch.Generator().manual_seed(_seed_of(rule.name, seed))
            return torch.randn(rule.shape, generator=generator).mul_(rule.init_std)


def _seed_of(name: str, seed: int) -> int:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")
