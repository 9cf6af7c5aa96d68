"""What the training loop relies on, whatever the engine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from simulator.training import Engine
from simulator.training.records import BoolArray, StepValues
from simulator.training.scripted import ScriptedEngine
from tests.simulator.training.engines import make_tokens, make_trained


@dataclass(frozen=True)
class Case:
    make: Callable[[], Engine]
    num_rows: int

    def values(self) -> StepValues:
        return StepValues(lr=np.full(self.num_rows, 1e-2), mtp_weight=0.3, bias_rate=1e-2)

    def rows(self, *, active: bool) -> BoolArray:
        return np.full(self.num_rows, active)

    def step(self, engine: Engine, seed: int, *, active: bool = True) -> None:
        engine.forward_backward(make_tokens(seed=seed), self.values())
        engine.apply(self.values(), self.rows(active=active))


CASES = {
    "solo": Case(lambda: make_trained().engine, 1),
    "solo, micro-batches": Case(lambda: make_trained(micro_batch_sequences=3).engine, 1),
    "scripted": Case(lambda: ScriptedEngine(lambda batch: np.array([2.0])), 1),
    "scripted, three runs": Case(
        lambda: ScriptedEngine(lambda batch: np.array([2.0, 3.0, 4.0]), num_rows=3), 3
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def test_statistics_have_one_entry_a_run(case: Case) -> None:
    stats = case.make().forward_backward(make_tokens(), case.values())
    shape = (case.num_rows,)
    assert stats.loss.shape == stats.grad_norm.shape == stats.is_clipped.shape == shape
    assert stats.max_violation.shape[:1] == shape
    assert stats.loss.dtype == stats.grad_norm.dtype == np.float64


def test_backward_alone_changes_no_state(case: Case) -> None:
    engine = case.make()
    before = {name: tensor.clone() for name, tensor in engine.state().items()}
    engine.forward_backward(make_tokens(), case.values())
    assert all(torch.equal(before[name], tensor) for name, tensor in engine.state().items())


def test_inactive_runs_keep_their_state(case: Case) -> None:
    engine = case.make()
    case.step(engine, 0)
    before = {name: tensor.clone() for name, tensor in engine.state().items()}
    case.step(engine, 1, active=False)
    assert all(torch.equal(before[name], tensor) for name, tensor in engine.state().items())


def test_active_runs_change_their_state(case: Case) -> None:
    engine = case.make()
    before = {name: tensor.clone() for name, tensor in engine.state().items()}
    case.step(engine, 0)
    assert any(not torch.equal(before[name], tensor) for name, tensor in engine.state().items())


def test_copied_state_repeats_what_follows(case: Case) -> None:
    first, second = case.make(), case.make()
    for seed in range(2):
        case.step(first, seed)
    for name, tensor in second.state().items():
        tensor.copy_(first.state()[name])
    case.step(first, 2)
    case.step(second, 2)
    for name, tensor in first.state().items():
        assert torch.equal(second.state()[name], tensor)
