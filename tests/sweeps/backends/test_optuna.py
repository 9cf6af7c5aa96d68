"""Suggestions: repeatable, inside the space, and taught by what was told."""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from simulator.records.types import TrialRecord
from sweeps.backends.optuna import OptunaSearch
from sweeps.coordinates import encode, levels
from sweeps.objective import Observation
from sweeps.search import Params
from sweeps.spec import ChoiceDomain, FloatDomain, SamplerName, SearchSpec, SpaceSpec
from tests.sweeps.sweep_specs import make_space

SAMPLERS: tuple[SamplerName, ...] = ("tpe", "gp", "cmaes", "qmc", "random", "grid")
LOOSE = FloatDomain(name="tau", low=0.05, high=1.6)


def make_search(
    sampler: SamplerName, space: SpaceSpec | None = None, **changes: Any
) -> OptunaSearch:
    fields: dict[str, Any] = {"sampler": sampler, "num_trials": 12, "batch_size": 4, "seed": 3}
    return OptunaSearch(space or make_space(), SearchSpec(**(fields | changes)))


def observation(number: int, batch: int, draw: int, params: Params, **told: Any) -> Observation:
    trial = TrialRecord(
        number=number,
        batch=batch,
        purpose="search",
        config=number,
        params=dict(params),
        seed=0,
        draw=draw,
        fingerprint=str(number),
    )
    return Observation(trial, **({"value": 2.0, "is_feasible": True} | told))


def loss_of(params: Params) -> float:
    return 2.0 + abs(float(params["peak_lr"]) - 8e-3) + float(params["tau"])


def play(search: OptunaSearch, num_batches: int, size: int = 4) -> list[Params]:
    """Ask and tell batch after batch."""
    every: list[Params] = []
    for batch in range(num_batches):
        asked = list(islice(search.ask(batch), size))
        search.tell(
            [
                observation(len(every) + draw, batch, draw, params, value=loss_of(params))
                for draw, params in enumerate(asked)
            ]
        )
        every += asked
    return every


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_suggestions_are_repeatable(sampler: SamplerName) -> None:
    assert play(make_search(sampler), 3) == play(make_search(sampler), 3)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_suggestions_depend_on_the_seed(sampler: SamplerName) -> None:
    assert play(make_search(sampler), 2) != play(make_search(sampler, seed=4), 2)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_suggestions_lie_in_the_space(sampler: SamplerName) -> None:
    space = make_space()
    for params in play(make_search(sampler), 3):
        assert encode(space.domains, params) is not None
        assert [*params] == [domain.name for domain in space.domains]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_state_is_rebuilt_from_what_was_told(sampler: SamplerName) -> None:
    """A search that is told everything at once goes on like one that lived through it."""
    lived = make_search(sampler)
    every = play(lived, 4)
    told_at_once = make_search(sampler)
    for batch in range(4):
        part = every[4 * batch : 4 * batch + 4]
        told_at_once.tell(
            [
                observation(4 * batch + draw, batch, draw, params, value=loss_of(params))
                for draw, params in enumerate(part)
            ]
        )
    assert list(islice(told_at_once.ask(4), 4)) == list(islice(lived.ask(4), 4))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_unfinished_batch_is_asked_alike(sampler: SamplerName) -> None:
    search = make_search(sampler)
    play(search, 3)
    assert list(islice(search.ask(3), 2)) == list(islice(search.ask(3), 4))[:2]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes"])
def test_models_move_towards_what_is_good(sampler: SamplerName) -> None:
    def distance(params: Sequence[Params]) -> float:
        return sum(loss_of(point) - 2.0 for point in params) / len(params)

    space = make_space(domains=(make_space().domains[0], LOOSE, *make_space().domains[2:]))
    every = play(make_search(sampler, space, num_trials=40), 10)
    assert distance(every[-12:]) < 0.7 * distance(every[:12])


@pytest.mark.parametrize(("sampler", "num_seeds"), [("tpe", 4), ("gp", 1), ("cmaes", 4)])
def test_diverged_trials_keep_the_model_away(sampler: SamplerName, num_seeds: int) -> None:
    early = late = 0
    for seed in range(num_seeds):
        search = make_search(sampler, num_trials=40, seed=seed)
        is_over = [float(params["peak_lr"]) > CLIFF for params in play_at_a_cliff(search)]
        early += sum(is_over[:16])
        late += sum(is_over[-16:])
    assert early >= 5 * num_seeds
    assert late <= early / 2


CLIFF = 1e-2


def play_at_a_cliff(search: OptunaSearch) -> list[Params]:
    """Ten batches where everything above a peak rate diverges, an octave above the optimum."""
    asked: list[Params] = []
    for batch in range(10):
        part = list(islice(search.ask(batch), 4))
        seen = []
        for draw, params in enumerate(part):
            octaves = math.log2(2 * float(params["peak_lr"]) / CLIFF)
            is_feasible = octaves < 1.0
            value = 2.0 + 0.05 * octaves**2 if is_feasible else 3.0
            told = {"value": value, "is_feasible": is_feasible}
            seen.append(observation(len(asked) + draw, batch, draw, params, **told))
        search.tell(seen)
        asked += part
    return asked


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_failed_trials_and_strangers_teach_nothing(sampler: SamplerName) -> None:
    stranger = {"peak_lr": 9.0, "tau": 0.2, "warmup_ratio": 0.1, "schedule": "unheard_of"}
    search = make_search(sampler)
    search.tell([observation(0, -1, -1, stranger, value=1.0)])
    every = play(search, 2)
    search.tell([observation(9, 2, 0, every[0], value=None, is_feasible=False)])
    assert len(list(islice(search.ask(3), 4))) == 4


def test_space_filling_goes_on_over_batches() -> None:
    whole = list(islice(make_search("qmc").ask(0), 12))
    assert play(make_search("qmc"), 3) == whole


def test_skipped_draws_are_not_drawn_again() -> None:
    search = make_search("qmc")
    whole = list(islice(search.ask(0), 8))
    search.tell([observation(0, 0, 0, whole[0]), observation(1, 0, 3, whole[3])])
    assert list(islice(search.ask(1), 4)) == whole[4:8]


def test_grid_is_walked_once_and_ends() -> None:
    space = make_space()
    size = 1
    for domain in space.domains:
        size *= len(levels(domain))
    points = list(make_search("grid").ask(0))
    assert len(points) == size == 7 * 3 * 2 * 3
    assert len({tuple(point.items()) for point in points}) == size
    first = {tuple(point.items()) for point in play(make_search("grid"), 2)}
    assert first == {tuple(point.items()) for point in points[:8]}


def test_single_point_space_can_be_asked() -> None:
    space = make_space()
    fixed = tuple(
        replace(d, values=d.values[:1])
        if isinstance(d, ChoiceDomain)
        else FloatDomain(name=d.name, low=d.low, high=d.low)
        for d in space.domains
    )
    for sampler in SAMPLERS:
        search = make_search(sampler, make_space(domains=fixed))
        (point,) = play(search, 1, size=1)
        assert point["peak_lr"] == 1e-3
        assert len(list(islice(search.ask(1), 1))) == (0 if sampler == "grid" else 1)


def test_torch_is_loaded_by_the_gaussian_process_alone() -> None:
    code = (
        "import sys; from itertools import islice\n"
        "from tests.sweeps.backends.test_optuna import make_search, play\n"
        "for name in ('tpe', 'cmaes', 'qmc', 'random', 'grid'): play(make_search(name), 4)\n"
        "assert 'torch' not in sys.modules\n"
        "play(make_search('gp'), 3)\n"
        "sys.exit('torch' not in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
