"""When compiling repays."""

import pytest

from simulator.counting.compilation import CompilationVerdict, weigh_compilation
from tests.builders import make_model


def _weigh(*, steps: int, layers: int = 3, workers: int = 1) -> CompilationVerdict:
    model = make_model(n_layers=layers)
    return weigh_compilation(model, trial_steps=steps, tokens_per_step=256, num_workers=workers)


def test_a_long_sweep_repays_compiling_and_a_short_one_does_not() -> None:
    short, long = _weigh(steps=1_000), _weigh(steps=100_000)
    assert not short.is_worth_it
    assert long.is_worth_it
    assert "does not save the 60 s" in short.reason
    assert "saves more than the 60 s" in long.reason


def test_the_reason_names_the_steps_at_which_both_are_even() -> None:
    even = int(_weigh(steps=1).reason.split("even at ")[1].split(" ")[0].replace(",", ""))
    assert not _weigh(steps=even - 1).is_worth_it
    assert _weigh(steps=even + 1).is_worth_it


def test_every_worker_compiles() -> None:
    one, two = (_weigh(steps=1, workers=workers).cost_seconds for workers in (1, 2))
    assert two == pytest.approx(2 * one)


def test_kinds_of_layers_cost_and_every_layer_saves() -> None:
    few, many = (_weigh(steps=1000, layers=layers) for layers in (3, 7))
    assert many.cost_seconds == few.cost_seconds
    assert many.saved_seconds == pytest.approx(2 * few.saved_seconds)  # prediction module included
