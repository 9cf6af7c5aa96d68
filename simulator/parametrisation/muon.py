"""The rule of hidden matrices that Muon trains.

References
----------
Spectral condition: arXiv 2310.17813, section 3. Width: arXiv 2512.05620. Size of the update: arXiv
2502.16982, section 2.2. Under it a mixture of experts was tuned with a rate of 1/fan_in, which
falls twice as fast with the width: arXiv 2608.20061.
"""

from dataclasses import replace
from fractions import Fraction
from math import prod, sqrt
from typing import assert_never

from simulator.counting.tensors import TensorInfo
from simulator.parametrisation.rule import MuonMatrix, MuonRule, TensorRule
from simulator.specs.run import MuonScale, ParametrisationSpec

__all__ = ["by_muon"]

ADAM_RMS = 0.2
"""Root mean square of AdamW's update over its rate, 0.2 to 0.4 in practice (arXiv 2502.16982,
section 2.2)."""

SOURCE = (
    "less certain: orthogonal update, spectral norm sqrt(out/in), rate width-independent "
    "(arXiv 2310.17813; 2512.05620)"
)


def by_muon(
    rule: TensorRule,
    tensor: TensorInfo,
    anchor: TensorInfo,
    param: ParametrisationSpec,
    convention: MuonScale,
) -> TensorRule:
    """Return AdamW's ``rule`` of a matrix with what Muon changes; initial values stay.

    Notes
    -----
    An update ``lr * scale * O`` with orthogonal ``O`` has spectral norm ``lr * scale`` and root
    mean square ``lr * scale / sqrt(max(out, in))``. The scale is the convention's own on the anchor
    and goes as sqrt(out / in) from there; for the control it is the convention's own everywhere.
    """
    is_control = param.kind == "uniform_lr_sp"
    dim = (param.proxy if param.anchor == "proxy" else param.target).dim
    squares = []
    for shape, at_anchor in zip(tensor.matrices, anchor.matrices, strict=True):
        square = _squared_scale(shape, convention, dim)
        if not is_control:
            own = _squared_scale(at_anchor, convention, dim)
            square = own * Fraction(*shape) / Fraction(*at_anchor)
        squares.append(square)
    square, shape = max(zip(squares, tensor.matrices, strict=True), key=lambda pair: prod(pair[1]))
    lr_multiplier = sqrt(square / max(shape))
    return replace(
        rule,
        lr_multiplier=lr_multiplier,
        decay_multiplier=1.0 / lr_multiplier,
        source=rule.source if is_control else SOURCE,
        muon=MuonRule(
            num_blocks=tensor.num_blocks,
            matrices=tuple(
                MuonMatrix(rows=out // tensor.num_blocks, scale=ADAM_RMS * sqrt(square))
                for square, (out, _) in zip(squares, tensor.matrices, strict=True)
            ),
        ),
    )


def _squared_scale(shape: tuple[int, int], convention: MuonScale, dim: int) -> Fraction:
    """Return the square of the convention's scale over ``ADAM_RMS``, exactly.

    The two that know no rate of AdamW's are brought to its size where they all agree: on a square
    matrix as wide as the anchor, ``dim``.
    """
    out, fan_in = shape
    match convention:
        case "rms_matched":
            return Fraction(max(out, fan_in))
        case "spectral":
            return Fraction(dim * out, fan_in)
        case "original":
            return dim * max(Fraction(1), Fraction(out, fan_in))
        case _ as never:
            assert_never(never)
