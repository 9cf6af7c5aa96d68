"""Bytes that training keeps for every parameter."""

from simulator.counting.params import count_params
from simulator.specs.model import ModelSpec

__all__ = ["BYTES_PER_PARAMETER", "state_bytes"]

BYTES_PER_PARAMETER = 16
"""fp32 weight, gradient and two Adam moments, 4 bytes each."""


def state_bytes(model: ModelSpec) -> int:
    """Return the bytes of weights, gradients and Adam moments in fp32.

    Multi-token-prediction modules are included; activations are not.
    """
    return BYTES_PER_PARAMETER * count_params(model).trained
