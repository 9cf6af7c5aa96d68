"""Bytes that training keeps for every parameter."""

from typing import Literal

from simulator.counting.params import count_params
from simulator.counting.tensors import list_tensors
from simulator.specs.model import ModelSpec

__all__ = ["BYTES_PER_PARAMETER", "state_bytes"]

BYTES_PER_PARAMETER = 16
"""fp32 weight, gradient and two Adam moments, 4 bytes each."""

MOMENT_BYTES = 4
"""Of one moment: Muon, which trains hidden matrices, has a single one."""


def state_bytes(model: ModelSpec, optimizer: Literal["adamw", "muon"] = "adamw") -> int:
    """Return the bytes of weights, gradients and moments in fp32.

    Multi-token-prediction modules are included; activations are not.
    """
    full = BYTES_PER_PARAMETER * count_params(model).trained
    if optimizer == "adamw":
        return full
    return full - MOMENT_BYTES * sum(
        tensor.size for tensor in list_tensors(model) if tensor.kind == "matrix"
    )
