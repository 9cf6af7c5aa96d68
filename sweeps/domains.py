"""``[space]`` resolved: what each dimension of the search holds."""

from dataclasses import dataclass
from typing import TypeVar

from scaling.lr_range import proxy_lr_prior
from scaling.priors import tau_law
from scaling.scale import Transfer
from scaling.transfer import RecipePoint
from simulator.schedules import NAMED_SHAPES, named_shape
from simulator.specs.schedule import ScheduleShape
from sweeps.space import warmup_steps_of
from sweeps.spec import ChoiceDomain, Domain, FloatDomain, NamedShape, SpaceSpec
from sweeps.tables.search import PeakLrTable, SpaceTable

__all__ = ["PUBLISHED", "ResolvedSpace", "published_name", "resolve_space"]

PUBLISHED = "target_published"
"""The schedule name that stands for the target's own."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSpace:
    """The search space and what was derived or merged on the way."""

    spec: SpaceSpec
    notes: tuple[str, ...]


def published_name(shape: ScheduleShape) -> str:
    """Return the name of the target's own schedule: a common one's where it is no other."""
    return next((name for name, known in NAMED_SHAPES.items() if known == shape), PUBLISHED)


def resolve_space(
    table: SpaceTable,
    transfer: Transfer,
    shape: ScheduleShape,
    published: RecipePoint | None,
) -> ResolvedSpace:
    """Return the search space of a sweep.

    Parameters
    ----------
    shape
        The target's own schedule.
    published
        The target's recipe, where its rate is known rather than taken from a law.

    Raises
    ------
    SpecError
        If a schedule has no such name; the message offers the nearest one.
    """
    lr, lr_notes = _peak_lr(table.peak_lr, transfer, published)
    decay, decay_notes = _decay(table, transfer)
    ratios, ratio_notes = _warmup(table.warmup_ratio, transfer.proxy.num_steps)
    schedules, schedule_notes = _schedules(table.schedule, shape)
    own = NamedShape(name=published_name(shape), shape=shape)
    domains = (
        lr,
        decay,
        ChoiceDomain(name="warmup_ratio", values=ratios),
        ChoiceDomain(name="schedule", values=tuple(named.name for named in schedules)),
    )
    return ResolvedSpace(
        spec=SpaceSpec(domains=domains, schedules=_unique((*schedules, own))),
        notes=(*lr_notes, *decay_notes, *ratio_notes, *schedule_notes),
    )


def _peak_lr(
    table: PeakLrTable, transfer: Transfer, published: RecipePoint | None
) -> tuple[FloatDomain, tuple[str, ...]]:
    if table.low is not None and table.high is not None:
        return FloatDomain(name="peak_lr", low=table.low, high=table.high), ()
    centre = table.centre
    notes: tuple[str, ...] = ()
    if centre is None:
        prior = proxy_lr_prior(transfer, published, span_octaves=table.octaves)
        centre = prior.center
        around = f"{table.octaves:g} octaves around {centre:.2g}"
        notes = (f"space.peak_lr by rule: {around}; {prior.reason}",)
    half = 2.0 ** (table.octaves / 2)
    domain = FloatDomain(name="peak_lr", low=_short(centre / half), high=_short(centre * half))
    return domain, notes


def _decay(table: SpaceTable, transfer: Transfer) -> tuple[Domain, tuple[str, ...]]:
    decay = table.weight_decay
    if decay is not None:
        if decay.low is not None and decay.high is not None:
            return FloatDomain(name="weight_decay", low=decay.low, high=decay.high), ()
        return ChoiceDomain(name="weight_decay", values=_unique(decay.values or ())), ()
    tau = table.tau
    if tau.low is not None and tau.high is not None:
        return FloatDomain(name="tau", low=tau.low, high=tau.high), ()
    if tau.values is not None:
        return ChoiceDomain(name="tau", values=_unique(tau.values)), ()
    law = tau_law(transfer.proxy.tokens_per_param)
    note = (
        f"space.tau by rule: {law:.3g} for {transfer.proxy.tokens_per_param:.4g} tokens per active "
        f"parameter (arXiv 2505.13738), times {', '.join(f'{f:g}' for f in tau.factors)}"
    )
    values = _unique(tuple(_short(law * factor) for factor in tau.factors))
    return ChoiceDomain(name="tau", values=values), (note,)


def _warmup(ratios: tuple[float, ...], num_steps: int) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Keep the first ratio of each number of steps and say which coincide with it."""
    kept: dict[int, float] = {}
    notes = []
    for ratio in _unique(ratios):
        steps = warmup_steps_of(ratio, num_steps)
        if steps in kept:
            notes.append(
                f"space.warmup_ratio {ratio:g} merged with {kept[steps]:g}: both are {steps} "
                f"of {num_steps} steps"
            )
        else:
            kept[steps] = ratio
    return tuple(kept.values()), tuple(notes)


def _schedules(
    names: tuple[str, ...], own: ScheduleShape
) -> tuple[tuple[NamedShape, ...], tuple[str, ...]]:
    """Look the schedules up; of two names for one shape the common one stays."""
    known = published_name(own)
    notes = []
    found = []
    for name in names:
        if name == PUBLISHED and known != PUBLISHED:
            notes.append(f"space.schedule {PUBLISHED} is {known}")
            found.append(NamedShape(name=known, shape=own))
        elif name == PUBLISHED:
            found.append(NamedShape(name=PUBLISHED, shape=own))
        else:
            found.append(NamedShape(name=name, shape=named_shape(name, path="space.schedule")))
    return _unique(tuple(found)), tuple(notes)


def _unique(values: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(values))


def _short(value: float) -> float:
    """Round to four significant digits: a derived bound people can read and type."""
    return float(f"{value:.4g}")
