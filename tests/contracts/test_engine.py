"""What the training loop relies on, whatever the engine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from simulator.training import Engine
from simulator.training.records import BoolArray, StepValues, TokenArray
from simulator.training.scripted import ScriptedEngine
from tests.simulator.training.engines import make_tokens, make_trained


@dataclass(frozen=True)
class Case:
    make: Callable[[], Engine]
    num_rows: int

    def values(self) -> StepValues:
        return StepValues(
            lr=np.full(self.num_rows, 1e-2),
            mtp_weight=np.full(self.num_rows, 0.3),
            bias_rate=np.full(self.num_rows, 1e-2),
        )

    def tokens(self, seed: int = 0) -> TokenArray:
        return np.concatenate([make_tokens(seed=seed + row) for row in range(self.num_rows)])

    def state(self, engine: Engine) -> dict[tuple[int, str], Tensor]:
        """Return the live tensors of every row."""
        rows = range(self.num_rows)
        return {(row, name): t for row in rows for name, t in engine.state(row).items()}

    def rows(self, *, active: bool) -> BoolArray:
        return np.full(self.num_rows, active)

    def step(self, engine: Engine, seed: int, *, active: bool = True) -> None:
        engine.forward_backward(self.tokens(seed), self.values())
        engine.apply(self.values(), self.rows(active=active))


CASES = {
    "solo": Case(lambda: make_trained().engine, 1),
    "solo, micro-batches": Case(lambda: make_trained(micro_batch_sequences=3).engine, 1),
    "three rows": Case(lambda: make_trained(seeds=(0, 1, 2)).engine, 3),
    "scripted": Case(lambda: ScriptedEngine(lambda row, batch: 2.0), 1),
    "scripted, three runs": Case(
        lambda: ScriptedEngine(lambda row, batch: 2.0 + row, num_rows=3), 3
    ),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def test_statistics_have_one_entry_a_run(case: Case) -> None:
    stats = case.make().forward_backward(case.tokens(), case.values())
    shape = (case.num_rows,)
    assert stats.loss.shape == stats.grad_norm.shape == stats.is_clipped.shape == shape
    assert stats.max_violation.shape[:1] == shape
    assert stats.loss.dtype == stats.grad_norm.dtype == np.float64


def test_backward_alone_changes_no_state(case: Case) -> None:
    engine = case.make()
    before = {name: tensor.clone() for name, tensor in case.state(engine).items()}
    engine.forward_backward(case.tokens(), case.values())
    assert all(torch.equal(before[name], tensor) for name, tensor in case.state(engine).items())


def test_inactive_runs_keep_their_state(case: Case) -> None:
    engine = case.make()
    case.step(engine, 0)
    before = {name: tensor.clone() for name, tensor in case.state(engine).items()}
    case.step(engine, 1, active=False)
    assert all(torch.equal(before[name], tensor) for name, tensor in case.state(engine).items())


def test_active_runs_change_their_state(case: Case) -> None:
    engine = case.make()
    before = {name: tensor.clone() for name, tensor in case.state(engine).items()}
    case.step(engine, 0)
    assert any(not torch.equal(before[name], tensor) for name, tensor in case.state(engine).items())


def test_copied_state_repeats_what_follows(case: Case) -> None:
    first, second = case.make(), case.make()
    for seed in range(2):
        case.step(first, seed)
    for name, tensor in case.state(second).items():
        tensor.copy_(case.state(first)[name])
    case.step(first, 2)
    case.step(second, 2)
    for name, tensor in case.state(first).items():
        assert torch.equal(case.state(second)[name], tensor)
