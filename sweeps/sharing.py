"""What sharing prefixes saves, as far as it can be known before anything is trained."""

from collections.abc import Iterator, Sequence

from simulator.prefix import count_steps, share_prefixes
from simulator.records.types import TrialRecord
from simulator.specs.data import DataSpec, SourceSpec, TokenizerSpec, ValidationSpec
from simulator.specs.run import RunSpec
from sweeps.draft import Draft
from sweeps.objective import Observation
from sweeps.plan_types import SharingPlan
from sweeps.search import AskFn, TellFn, next_batch
from sweeps.space import apply
from sweeps.spec import SweepSpec

__all__ = ["plan_sharing"]

_FORESEEN = ("grid", "qmc", "random")
"""Samplers that suggest the same whatever the runs come to."""

_ANY_DATA = DataSpec(
    sources=(SourceSpec(kind="sympy"),),
    tokenizer=TokenizerSpec(kind="none", vocab_size=1),
    validation=(ValidationSpec(name="any", num_sequences=1),),
    content_sha256="",
)
"""All runs of a sweep share their data; which they are does not matter here."""


def plan_sharing(draft: Draft, ask: AskFn, tell: TellFn) -> SharingPlan:
    """Return what the search's trials share that are known already.

    Parameters
    ----------
    ask, tell
        A sampler that has not been asked yet.
    """
    sweep = draft.with_data(_ANY_DATA)
    batches = list(_known_batches(sweep, ask, tell))
    specs = [spec for batch in batches for spec in batch]
    is_shared = draft.execution.shares_prefixes
    return SharingPlan(
        num_trials=len(specs),
        is_whole_search=sweep.search.sampler in _FORESEEN,
        steps_alone=sum(spec.num_steps for spec in specs),
        steps_trained=sum(_trained(batch, is_shared=is_shared) for batch in batches),
        steps_trained_in_one_batch=_trained(specs, is_shared=is_shared),
    )


def _known_batches(sweep: SweepSpec, ask: AskFn, tell: TellFn) -> Iterator[list[RunSpec]]:
    """Yield the runs of each batch, the first alone where the rest depends on what it teaches."""
    ledger: list[TrialRecord] = []
    while batch := next_batch(sweep, ledger, ask):
        yield [apply(sweep, trial.params, trial.seed) for trial in batch]
        if sweep.search.sampler not in _FORESEEN:
            return
        ledger += batch
        tell([Observation(trial=trial, value=None, is_feasible=True) for trial in batch])


def _trained(specs: Sequence[RunSpec], *, is_shared: bool) -> int:
    return count_steps(share_prefixes(specs, is_shared=is_shared))
