"""Where every tensor lies in a run's row of the flat buffers.

Tensors that AdamW trains come first, those that share their multipliers side by side; then those of
Muon, equal tensors of different layers side by side, so that one view holds them all.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import groupby

from simulator.parametrisation import MuonRule, TensorRule

__all__ = ["Layout", "MuonGroup", "Segment", "Slot", "lay_out"]

_ALIGNMENT = 64
"""Elements: a tensor begins on a 256-byte boundary, which grouped matrix products ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one tensor lies in a row of the buffers."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        """End of the tensor's elements, padding excluded."""
        return self.start + math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the buffers whose tensors AdamW trains with the same multipliers."""

    start: int
    stop: int
    lr_multiplier: float
    decay_multiplier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MuonGroup:
    """A stretch of the buffers with equal tensors, whose matrices Muon trains."""

    start: int
    stop: int
    num_tensors: int
    shape: tuple[int, ...]
    """Of each tensor, ``[*stack, out, in]``."""
    rule: MuonRule
    decay: float
    """Factor of learning rate times decay coefficient."""

    @property
    def num_elements(self) -> int:
        """Elements of each tensor, padding excluded."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A row of the buffers."""

    slots: tuple[Slot, ...]
    segments: tuple[Segment, ...]
    groups: tuple[MuonGroup, ...]
    adamw_size: int
    """Elements that AdamW trains, padding included; Muon's follow."""
    size: int


def lay_out(rules: Sequence[TensorRule]) -> Layout:
    """Place every tensor; within its segment or group in the order of the rules."""
    slots: list[Slot] = []
    segments = []
    for (lr, decay), tensors in groupby(sorted(_others(rules), key=_multipliers), key=_multipliers):
        start = _end(slots)
        _place(tensors, slots)
        segments.append(
            Segment(start=start, stop=_end(slots), lr_multiplier=lr, decay_multiplier=decay)
        )
    adamw_size = _end(slots)
    groups = []
    by_muon = [(rule, rule.muon) for rule in rules if rule.muon is not None]
    for _, alike in groupby(sorted(by_muon, key=_likeness), key=_likeness):
        pairs = list(alike)
        (first, muon), start = pairs[0], _end(slots)
        _place([rule for rule, _ in pairs], slots)
        group = MuonGroup(
            start=start,
            stop=_end(slots),
            num_tensors=len(pairs),
            shape=first.shape,
            rule=muon,
            decay=math.prod(_multipliers(first)),
        )
        groups.append(group)
    return Layout(
        slots=tuple(slots),
        segments=tuple(segments),
        groups=tuple(groups),
        adamw_size=adamw_size,
        size=_end(slots),
    )


def _others(rules: Sequence[TensorRule]) -> list[TensorRule]:
    return [rule for rule in rules if rule.muon is None]


def _multipliers(rule: TensorRule) -> tuple[float, float]:
    return rule.lr_multiplier, rule.decay_multiplier if rule.is_decayed else 0.0


def _likeness(pair: tuple[TensorRule, MuonRule]) -> tuple[object, ...]:
    rule, muon = pair
    return rule.shape, astuple(muon), _multipliers(rule)


def _place(rules: Iterable[TensorRule], slots: list[Slot]) -> None:
    for rule in rules:
        slots.append(Slot(name=rule.name, shape=rule.shape, start=_end(slots)))


def _end(slots: Sequence[Slot]) -> int:
    """Return where the next tensor begins."""
    return -(-slots[-1].stop // _ALIGNMENT) * _ALIGNMENT if slots else 0
