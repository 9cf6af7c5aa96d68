"""What the parametrisation says of one tensor."""

from dataclasses import dataclass

from simulator.counting.tensors import TensorKind, TensorPart

__all__ = ["FanIns", "MuonMatrix", "MuonRule", "TensorRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MuonMatrix:
    """One of the matrices that a tensor fuses; it is orthogonalised alone."""

    rows: int
    """Output rows within one block."""
    scale: float
    """Factor of the run's learning rate, by which its orthogonalised momentum is subtracted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MuonRule:
    """How a tensor ``[*stack, blocks * rows of a block, in]`` divides into matrices."""

    num_blocks: int
    matrices: tuple[MuonMatrix, ...]
    """In the order in which their rows follow one another in a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRule:
    """How one tensor starts and learns."""

    name: str
    """As in ``named_parameters()`` of the built model."""
    shape: tuple[int, ...]
    kind: TensorKind
    """Gains start at one and biases at zero; every other kind is drawn."""
    part: TensorPart
    fan_in: int
    init_std: float
    """Standard deviation of the normal initial values; 0 for gains and biases."""
    lr_multiplier: float
    """Factor of the run's learning rate; under Muon that of an update of AdamW's size, for the
    largest of the fused matrices."""
    decay_multiplier: float
    """Factor of the run's decay coefficient; 0 where ``is_decayed`` is false."""
    is_decayed: bool
    source: str
    """Where the rule comes from."""
    muon: MuonRule | None = None
    """Null where AdamW trains the tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanIns:
    """Fan-in of one tensor in the two reference shapes."""

    proxy: int
    target: int
