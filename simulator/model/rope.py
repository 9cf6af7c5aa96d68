"""Rotary position embedding (arXiv 2104.09864) and its changes for longer contexts.

Shapes: T positions, R half of the rotated dimensions (one angle a pair).
"""

from dataclasses import dataclass
from math import ceil, floor, log, pi
from typing import Literal, assert_never

import torch
from torch import Tensor

from simulator.specs.model import RopeScalingSpec, RopeSpec

__all__ = [
    "RotaryTables",
    "inverse_frequencies",
    "rotary_tables",
    "rotate_pairs",
    "softmax_factor",
]


@dataclass(frozen=True, slots=True)
class RotaryTables:
    """Cosine and sine of every position's angles, ``[T, R]``, float32."""

    cos: Tensor
    sin: Tensor

    @property
    def num_positions(self) -> int:
        """Tokens of one sequence."""
        return self.cos.shape[0]


def rotary_tables(
    rope: RopeSpec, dim: int, num_positions: int, device: torch.device
) -> RotaryTables:
    """Return the tables for positions ``0 .. num_positions - 1``.

    Parameters
    ----------
    dim
        Rotated dimensions of one head, even.
    """
    frequencies_R = inverse_frequencies(rope, dim, num_positions).to(device)
    angles_TR = torch.outer(torch.arange(num_positions, device=device).float(), frequencies_R)
    factor = _table_factor(rope.scaling)
    return RotaryTables(cos=angles_TR.cos() * factor, sin=angles_TR.sin() * factor)


def rotate_pairs(
    first: Tensor, second: Tensor, tables: RotaryTables, *, direction: Literal[1, -1] = 1
) -> tuple[Tensor, Tensor]:
    """Rotate the pairs ``(first, second)``, each ``[..., T, R]``, by their position's angles.

    The angles stay float32 and the result has the type of the pairs. ``direction=-1`` undoes the
    rotation.
    """
    rotated_first = (first * tables.cos).addcmul_(second, tables.sin, value=-direction)
    rotated_second = (second * tables.cos).addcmul_(first, tables.sin, value=direction)
    return rotated_first.to(first.dtype), rotated_second.to(first.dtype)


def inverse_frequencies(rope: RopeSpec, dim: int, num_positions: int) -> Tensor:
    """Return the angle per position of each pair, shape ``[dim / 2]``, float32."""
    scaling = rope.scaling
    if scaling is None:
        return _frequencies(rope.theta, dim)
    match scaling.kind:
        case "linear":
            return _frequencies(rope.theta, dim) / scaling.factor
        case "dynamic":
            return _dynamic(rope.theta, scaling, dim, num_positions)
        case "llama3":
            return _llama3(_frequencies(rope.theta, dim), scaling)
        case "yarn":
            return _yarn(rope.theta, scaling, dim)
        case _ as never:
            assert_never(never)


def softmax_factor(scaling: RopeScalingSpec | None) -> float:
    """Return what YaRN multiplies the softmax scale of latent attention by.

    Notes
    -----
    DeepSeek's temperature enters queries and keys alike, hence the square: ``(0.1 *
    mscale_all_dim * ln(factor) + 1)^2`` (DeepSeek-V3 inference/model.py, class MLA).
    """
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    return _temperature(scaling.factor, scaling.mscale_all_dim) ** 2


def _temperature(factor: float, weight: float) -> float:
    """YaRN's attention temperature (arXiv 2309.00071, equation 22), weighted as DeepSeek does."""
    return 0.1 * weight * log(factor) + 1.0 if factor > 1 else 1.0


def _table_factor(scaling: RopeScalingSpec | None) -> float:
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    rotary = _temperature(scaling.factor, scaling.mscale)
    return rotary / _temperature(scaling.factor, scaling.mscale_all_dim)


def _frequencies(theta: float, dim: int) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device="cpu") / dim)


def _dynamic(theta: float, scaling: RopeScalingSpec, dim: int, num_positions: int) -> Tensor:
    """Raise the base once the sequence is longer than the original context (NTK-aware)."""
    stretch = max(1.0, num_positions / scaling.original_max_seq_len)
    base = theta * (scaling.factor * stretch - (scaling.factor - 1)) ** (dim / max(dim - 2, 1))
    return _frequencies(base, dim)


def _llama3(frequencies_R: Tensor, scaling: RopeScalingSpec) -> Tensor:
    """Keep short wavelengths, divide long ones, blend between (Llama-3.1 reference code)."""
    num_turns_R = scaling.original_max_seq_len * frequencies_R / (2 * pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept_R = ((num_turns_R - low) / (high - low)).clamp(0.0, 1.0)
    return torch.lerp(frequencies_R / scaling.factor, frequencies_R, kept_R)


def _yarn(theta: float, scaling: RopeScalingSpec, dim: int) -> Tensor:
    """Keep fast dimensions, divide slow ones, ramp between (arXiv 2309.00071, section 3.2)."""

    def dimension_of(num_turns: float) -> float:
        context = scaling.original_max_seq_len
        return dim * log(context / (num_turns * 2 * pi)) / (2 * log(theta))

    low = max(floor(dimension_of(scaling.beta_fast)), 0)
    high = min(ceil(dimension_of(scaling.beta_slow)), dim - 1)
    width = high - low if high != low else 0.001  # a step instead of a division by zero
    pairs_R = torch.arange(dim // 2, dtype=torch.float32, device="cpu")
    divided_R = ((pairs_R - low) / width).clamp(0.0, 1.0)
    frequencies_R = _frequencies(theta, dim)
    return torch.lerp(frequencies_R, frequencies_R / scaling.factor, divided_R)
