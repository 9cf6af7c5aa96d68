"""What several runs have in common at their beginning, and in which groups they train together.

Two runs are in the same state after a step if they began alike and were prescribed the same values
at every step until then. The runs of a sweep therefore form a trie: its stretches of steps are
trained once for all runs that share them. Runs with decay at the end (WSD) share their whole trunk,
those of different peak learning rate nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from simulator.schedules import lr_factors, phase_value
from simulator.specs.codec import canonical_json
from simulator.specs.errors import SpecError
from simulator.specs.run import EvalSpec, PhaseSpec, RunSpec
from simulator.specs.schedule import ConstantShape, ScheduleSpec, WSDShape

__all__ = ["Stretch", "count_steps", "divide", "one_trunk_ladder", "share_prefixes"]

_Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps that the same runs share."""

    runs: tuple[int, ...]
    """Places in the sequence of runs, ascending; the first owns the steps."""
    start: int
    """Updates finished before it."""
    stop: int
    """Updates finished after it; a run of so many steps ends here."""
    children: tuple["Stretch", ...]
    """What its runs do next; those that end at ``stop`` are in none."""


def share_prefixes(specs: Sequence[RunSpec], *, is_shared: bool = True) -> tuple[Stretch, ...]:
    """Return the trie of several runs: its roots, in the order of their first runs.

    Parameters
    ----------
    is_shared
        Whether runs share anything; otherwise each is a root of its own.
    """
    if not is_shared:
        return tuple(Stretch((run,), 0, spec.num_steps, ()) for run, spec in enumerate(specs))
    values = _prescribed(specs)
    groups: dict[str, list[int]] = {}
    for run, spec in enumerate(specs):
        groups.setdefault(_origin(spec), []).append(run)
    roots = [root for group in groups.values() for root in _branch(group, 0, values)]
    return tuple(sorted(roots, key=lambda root: root.runs))


def count_steps(roots: Sequence[Stretch]) -> int:
    """Return how many steps are trained for all runs below ``roots``."""
    return sum(root.stop - root.start + count_steps(root.children) for root in roots)


def divide(
    specs: Sequence[RunSpec], *, num_rows: int, is_shared: bool = True
) -> tuple[tuple[int, ...], ...]:
    """Return which runs train together: every run in one cohort, named by its place.

    Runs that share steps are never parted. A cohort holds at most ``num_rows`` roots of the trie;
    fewer where many branches make them work for more rows than that. The cohorts are about equally
    long and depend on nothing but the arguments.

    Parameters
    ----------
    num_rows
        Runs a cohort trains at the same time, >= 1.

    Notes
    -----
    A cohort of ``s`` steps takes at least ``max(s / num_rows, longest run)``. There are as many
    cohorts as make the two about equal: fewer would let a worker wait for a cohort longer than any
    run, more would leave rows empty. Roots are dealt out longest first, each to the cohort with the
    fewest steps.
    """
    roots = share_prefixes(specs, is_shared=is_shared)
    if not roots:
        return ()
    size = {root: count_steps([root]) for root in roots}
    cohorts: list[list[Stretch]] = [[] for _ in range(_num_cohorts(specs, size, num_rows))]
    for root in sorted(roots, key=lambda root: (-size[root], root.runs)):
        open_ones = [cohort for cohort in cohorts if len(cohort) < num_rows]
        min(open_ones, key=lambda cohort: sum(size[one] for one in cohort)).append(root)
    members = (sorted(run for root in cohort for run in root.runs) for cohort in cohorts)
    return tuple(sorted(tuple(runs) for runs in members))


def one_trunk_ladder(spec: RunSpec, horizons: Sequence[int]) -> tuple[RunSpec, ...]:
    """Return runs of several lengths that share one trunk, so that it is trained only once.

    Every rung holds the decay coefficient and the warmup **steps** of ``spec``. It does **not**
    hold what a sweep holds otherwise: the averaging timescale ``1 / (lr * decay * steps)`` is
    shorter for longer rungs, and so is the warmup's share of the run. Each rung's learning rate
    decays over the same share of its own length. Weights of losses and biases change at the step
    at which they change on the longest rung.

    Parameters
    ----------
    spec
        Gives everything but the lengths; its schedule is warmup, stable, decay.
    horizons
        Optimiser steps of the rungs, each at least the warmup's.

    Raises
    ------
    SpecError
        If the schedule has no trunk that is the same for every length, or a length is none.
    """
    if not isinstance(spec.schedule.shape, WSDShape):
        raise SpecError(
            "run.schedule.shape",
            "must be warmup-stable-decay: rungs share one trunk, which holds decay coefficient and "
            "warmup steps (not timescale and warmup ratio)",
            spec.schedule.shape.kind,
            "Use a WSD schedule, or train every rung from its start.",
        )
    if not horizons or min(horizons) <= 0:
        raise SpecError(
            "horizons", "must hold positive numbers of steps", horizons, "Try [500, 1000]."
        )
    longest = max(horizons)
    return tuple(
        replace(
            spec,
            num_steps=num_steps,
            mtp_weight=_by_steps(spec.mtp_weight, num_steps, longest),
            bias_rate=_by_steps(spec.bias_rate, num_steps, longest),
        )
        for num_steps in horizons
    )


def _num_cohorts(specs: Sequence[RunSpec], size: Mapping[Stretch, int], num_rows: int) -> int:
    """Return how many cohorts are filled, between what the rows demand and one a root."""
    full = num_rows * max(spec.num_steps for spec in specs)
    by_steps = (2 * sum(size.values()) + full) // (2 * full)
    return min(len(size), max(by_steps, -(-len(size) // num_rows)))


def _by_steps(phases: tuple[PhaseSpec, ...], num_steps: int, longest: int) -> tuple[PhaseSpec, ...]:
    """Return phases that end after as many steps of this rung as of the longest one."""
    if num_steps == longest:
        return phases
    found = []
    for phase in phases:
        steps_within = sum(step / longest < phase.until_fraction for step in range(longest))
        until = (steps_within - 0.5) / num_steps  # between two steps, where no rounding matters
        found.append(replace(phase, until_fraction=until))
    return tuple(found)


def _origin(spec: RunSpec) -> str:
    """Return all that acts on a run besides what is prescribed step by step."""
    return canonical_json(
        replace(
            spec,
            optimizer=replace(spec.optimizer, peak_lr=1.0),
            schedule=ScheduleSpec(warmup_steps=0, shape=ConstantShape()),
            num_steps=1,
            mtp_weight=(PhaseSpec(until_fraction=1.0, value=0.0),),
            bias_rate=(),
            eval=EvalSpec(interval_steps=1),
        )
    )


def _prescribed(specs: Sequence[RunSpec]) -> list[_Values]:
    """Return learning rate, MTP weight and bias rate of every step of every run, ``[steps, 3]``."""

    @cache
    def factors(schedule: ScheduleSpec, num_steps: int) -> _Values:
        return np.array(lr_factors(schedule, num_steps))

    @cache
    def phased(phases: tuple[PhaseSpec, ...], num_steps: int) -> _Values:
        return np.array([phase_value(phases, step, num_steps) for step in range(num_steps)])

    return [
        np.column_stack(
            [
                spec.optimizer.peak_lr * factors(spec.schedule, spec.num_steps),
                phased(spec.mtp_weight, spec.num_steps),
                phased(spec.bias_rate, spec.num_steps),
            ]
        )
        for spec in specs
    ]


def _branch(runs: Sequence[int], start: int, values: Sequence[_Values]) -> list[Stretch]:
    """Return the stretches in which ``runs``, alike until ``start``, go on."""
    groups: dict[bytes, list[int]] = {}
    for run in runs:
        if len(values[run]) > start:
            groups.setdefault(values[run][start].tobytes(), []).append(run)
    found = []
    for group in groups.values():
        stop = _common(group, start, values)
        found.append(Stretch(tuple(group), start, stop, tuple(_branch(group, stop, values))))
    return found


def _common(runs: Sequence[int], start: int, values: Sequence[_Values]) -> int:
    """Return until which step the prescriptions of ``runs`` are the same."""
    stop = min(len(values[run]) for run in runs)
    first = values[runs[0]]
    for run in runs[1:]:
        differs = (values[run][start:stop] != first[start:stop]).any(axis=1)
        if differs.any():
            stop = start + int(differs.argmax())
    return stop
