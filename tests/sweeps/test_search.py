"""What enters the ledger of what is suggested."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from simulator.specs.codec import fingerprint
from sweeps.search import DRAWS_PER_TRIAL, Params, next_batch
from sweeps.space import apply
from sweeps.spec import SearchSpec
from tests.sweeps.sweep_specs import make_sweep

SWEEP = replace(make_sweep(), search=SearchSpec(sampler="tpe", num_trials=6, batch_size=3, seed=0))


def point(lr: float, warmup: float = 0.1) -> Params:
    return {"peak_lr": lr, "tau": 0.2, "warmup_ratio": warmup, "schedule": "wsd20_sqrt"}


def asking(points: Iterable[Params]) -> Callable[[int], Iterator[Params]]:
    return lambda batch: iter(points)


def counting() -> Callable[[int], Iterator[Params]]:
    return lambda batch: (point(1e-3 * (1 + 10 * batch + draw)) for draw in range(1000))


def test_incumbent_comes_first_and_takes_a_place() -> None:
    first = next_batch(SWEEP, (), counting())
    assert [trial.label for trial in first] == ["incumbent", "", ""]
    assert [trial.batch for trial in first] == [-1, 0, 0]
    assert [trial.draw for trial in first] == [-1, 0, 1]
    assert {trial.round_size for trial in first} == {3}
    second = next_batch(SWEEP, first, counting())
    assert [trial.number for trial in second] == [3, 4, 5]
    assert [trial.batch for trial in second] == [1, 1, 1]
    assert next_batch(SWEEP, (*first, *second), counting()) == ()


def test_trials_name_the_run_they_resolve_to() -> None:
    for trial in next_batch(SWEEP, (), counting()):
        assert trial.fingerprint == fingerprint(apply(SWEEP, trial.params, trial.seed))
        assert trial.config == trial.number


def test_last_batch_is_cut_to_the_number_of_trials() -> None:
    sweep = replace(SWEEP, search=replace(SWEEP.search, num_trials=4))
    first = next_batch(sweep, (), counting())
    assert len(next_batch(sweep, first, counting())) == 1


def test_repeated_run_is_not_tried_again() -> None:
    """0.1 and 0.11 of 20 steps are both two steps of warmup."""
    points = [point(1e-3), point(1e-3, 0.11), point(5e-3), point(2e-3)]
    batch = next_batch(SWEEP, (), asking(points))
    assert [(trial.params["peak_lr"], trial.draw) for trial in batch[1:]] == [(1e-3, 0), (2e-3, 3)]


def test_nearly_exhausted_space_gives_a_short_batch_then_none() -> None:
    def repeating() -> Iterator[Params]:
        while True:
            yield point(1e-3)

    batch = next_batch(SWEEP, (), lambda batch: repeating())
    assert [trial.params["peak_lr"] for trial in batch] == [5e-3, 1e-3]
    assert {trial.round_size for trial in batch} == {2}
    assert next_batch(SWEEP, batch, lambda batch: repeating()) == ()


def test_draws_of_a_batch_are_bounded() -> None:
    drawn = []

    def repeating(batch: int) -> Iterator[Params]:
        while True:
            drawn.append(batch)
            yield point(5e-3)

    next_batch(SWEEP, (), repeating)
    assert len(drawn) == DRAWS_PER_TRIAL * SWEEP.search.batch_size
