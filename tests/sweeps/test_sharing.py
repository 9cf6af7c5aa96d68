"""What the plan knows of shared steps before anything is trained."""

from typing import Any

import pytest

from simulator.prefix import count_steps, share_prefixes
from sweeps.backends.optuna import OptunaSearch
from sweeps.draft import Draft
from sweeps.plan_types import SharingPlan
from sweeps.resolve import draft_sweep
from sweeps.search import next_batch
from sweeps.sharing import plan_sharing
from sweeps.space import apply
from sweeps.tables.search import PeakLrTable, RunTable, SearchTable, SpaceTable, TauTable
from sweeps.tables.target import HorizonTable
from tests.builders import make_data
from tests.sweeps.files import QUICKSTART, own_file

STEPS = 100


def draft(run: RunTable | None = None, **search: Any) -> Draft:
    """Two peaks of a grid that the sampler may take, one warmup, three WSD schedules."""
    space = SpaceTable(
        peak_lr=PeakLrTable(low=1e-3, high=4e-3),
        tau=TauTable(values=(1.0,)),
        warmup_ratio=(0.1,),
        schedule=("wsd10_sqrt", "wsd20_sqrt", "wsd20_linear"),
    )
    file = own_file(
        horizon=HorizonTable(num_steps=STEPS),
        space=space,
        search=SearchTable(**({"sampler": "grid", "num_trials": 7} | search)),
        run=run or RunTable(),
    )
    return draft_sweep(file, root=QUICKSTART)


def sharing_of(made: Draft) -> SharingPlan:
    search = OptunaSearch(made.space, made.search)
    return plan_sharing(made, search.ask, search.tell)


def test_grid_is_known_as_a_whole_and_as_it_will_be_run() -> None:
    made = draft(batch_size=7)
    found = sharing_of(made)
    sweep = made.with_data(make_data())
    search = OptunaSearch(sweep.space, sweep.search)
    trials = next_batch(sweep, [], search.ask)
    specs = [apply(sweep, trial.params, trial.seed) for trial in trials]
    assert found.is_whole_search
    assert found.num_trials == len(specs) == 7
    assert found.steps_alone == 7 * STEPS
    assert found.steps_trained == count_steps(share_prefixes(specs))
    assert found.steps_trained < found.steps_alone


def test_small_batches_share_less() -> None:
    small, large = sharing_of(draft(batch_size=2)), sharing_of(draft(batch_size=7))
    assert small.steps_trained > large.steps_trained
    assert small.steps_trained_in_one_batch == large.steps_trained


@pytest.mark.parametrize("sampler", ["qmc", "random"])
def test_samplers_that_learn_nothing_are_known_too(sampler: str) -> None:
    found = sharing_of(draft(sampler=sampler, batch_size=3))
    assert found.is_whole_search
    assert found.num_trials == 7


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes"])
def test_of_samplers_that_learn_the_first_batch_is_known(sampler: str) -> None:
    found = sharing_of(draft(sampler=sampler, batch_size=3))
    assert not found.is_whole_search
    assert found.num_trials == 3
    assert found.steps_alone == 3 * STEPS


def test_nothing_is_saved_where_sharing_is_off() -> None:
    found = sharing_of(draft(run=RunTable(share_prefixes=False)))
    assert found.steps_trained == found.steps_trained_in_one_batch == found.steps_alone
