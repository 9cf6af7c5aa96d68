"""Which trials a search tries next: a library suggests, this file decides what enters the ledger.

Suggestions come in batches of a fixed size. Batch ``b`` depends on the search's seed, on ``b``, and
on what the batches before it taught, in the order of their trials; never on which worker was first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from simulator.records.types import TrialRecord
from simulator.specs.codec import fingerprint
from sweeps.objective import Observation
from sweeps.space import apply
from sweeps.spec import SweepSpec

__all__ = ["AskFn", "Params", "TellFn", "next_batch"]

Params = Mapping[str, float | str]
"""A point of the search space."""

AskFn = Callable[[int], Iterator[Params]]
"""Yields suggestions for one batch, given its number; ends where the space is exhausted."""

TellFn = Callable[[Sequence[Observation]], None]
"""Takes in what one finished batch taught, in the order of its trials."""

DRAWS_PER_TRIAL = 16
"""How many suggestions may be drawn for each place of a batch before the space counts as
exhausted."""


def next_batch(
    sweep: SweepSpec, ledger: Sequence[TrialRecord], ask: AskFn
) -> tuple[TrialRecord, ...]:
    """Return the next batch of search trials; empty when the search is over.

    The incumbent is the first trial and takes a place beside batch 0. A suggestion that resolves to
    a run the study has already (levels can coincide after rounding) is not tried again: another one
    is drawn, at most ``DRAWS_PER_TRIAL`` for each place. A batch that stays short is run as it is,
    and a batch without a single new run ends the search.
    """
    searched = [trial for trial in ledger if trial.purpose == "search"]
    num_places = min(sweep.search.batch_size, sweep.search.num_trials - len(searched))
    if num_places <= 0:
        return ()
    batch = max((trial.batch for trial in searched), default=-1) + 1
    trials = [] if searched else [_incumbent(sweep)]
    known = {trial.fingerprint for trial in [*ledger, *trials]}
    number = len(ledger) + len(trials)
    suggestions = enumerate(islice(ask(batch), DRAWS_PER_TRIAL * num_places))
    while len(trials) < num_places and (drawn := next(suggestions, None)) is not None:
        draw, params = drawn
        identity = fingerprint(apply(sweep, params, seed=0))
        if identity not in known:
            known.add(identity)
            trials.append(
                TrialRecord(
                    number=number,
                    batch=batch,
                    purpose="search",
                    config=number,
                    params=dict(params),
                    seed=0,
                    draw=draw,
                    fingerprint=identity,
                )
            )
            number += 1
    return tuple(replace(trial, round_size=len(trials)) for trial in trials)


def _incumbent(sweep: SweepSpec) -> TrialRecord:
    params = dict(sweep.incumbent.params)
    return TrialRecord(
        number=0,
        batch=-1,
        purpose="search",
        config=0,
        params=params,
        seed=0,
        label="incumbent",
        fingerprint=fingerprint(apply(sweep, params, seed=0)),
    )
