"""A step on one micro-batch: in both precisions, compiled and not, of one model and of several."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from simulator.model import LossParts, Transformer, build_model
from simulator.specs.model import ModelSpec
from simulator.training.stepping import Precision, Stepper, make_stepper, why_not_compiled
from tests.builders import make_model
from tests.simulator.training.engines import with_balance_loss

SEQUENCES, POSITIONS = 4, 16
MTP_WEIGHT = 0.3
ROUNDING = 2.0**-8
"""Relative, of one bfloat16; a gradient here has been through some thirty."""


def _model(spec: ModelSpec, rows: int | None = None) -> Transformer:
    """Return one model, or several stacked; each row has its own values, whoever else is there."""
    model = build_model(spec)
    stack = () if rows is None else (rows,)
    for index, parameter in enumerate(model.parameters()):
        values = [_values(parameter, spec.init_std, 1000 * row + index) for row in range(rows or 1)]
        parameter.data = torch.stack(values).view(*stack, *parameter.shape)
        parameter.grad = torch.zeros_like(parameter)
    for name, buffer in list(model.named_buffers()):
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, buffer.expand(*stack, *buffer.shape).clone())
    return model


def _values(parameter: nn.Parameter, std: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(parameter.shape, generator=generator)
    return drawn * std if parameter.dim() > 1 else 1.0 + 0.1 * drawn


def _chunk(spec: ModelSpec, rows: int | None = None, sequences: int = SEQUENCES) -> Tensor:
    shape = (sequences, POSITIONS + 1 + spec.n_mtp_modules)
    windows = [
        torch.randint(spec.vocab_size, shape, generator=torch.Generator().manual_seed(row))
        for row in range(rows or 1)
    ]
    return windows[0] if rows is None else torch.stack(windows)


def _stepper(model: Transformer, precision: Precision = "fp32") -> Stepper:
    return make_stepper(model, precision=precision, is_compiled=False)


def _grads(model: Transformer) -> Tensor:
    grads = [p.grad.detach().reshape(-1) for p in model.parameters() if p.grad is not None]
    return torch.cat(grads)


def _distance(found: Transformer, wanted: Transformer) -> float:
    expected = _grads(wanted)
    return float((_grads(found) - expected).norm() / expected.norm())


def _objective(parts: LossParts) -> Tensor:
    objective = parts.main
    if parts.mtp is not None:
        objective = objective + MTP_WEIGHT * parts.mtp
    return objective if parts.balance is None else objective + parts.balance


@pytest.mark.parametrize("spec", [make_model(), with_balance_loss()], ids=["v3", "v2"])
def test_gradients_of_the_weighted_objective_are_added(spec: ModelSpec) -> None:
    model, wanted = _model(spec), _model(spec)
    stepper = _stepper(model)
    for _ in range(2):
        parts = stepper(_chunk(spec), 0.25, MTP_WEIGHT)
        (_objective(wanted(_chunk(spec))) * 0.25).backward()
    assert _distance(model, wanted) < 1e-6
    assert not parts.main.requires_grad


def test_each_row_has_its_own_weight_of_further_prediction() -> None:
    spec, weights = make_model(), torch.tensor([0.3, 0.0])
    stacked = _model(spec, 2)
    _stepper(stacked)(_chunk(spec, 2), 1.0, weights)
    solo = _model(spec)
    _stepper(solo)(_chunk(spec), 1.0, 0.3)
    for both, one in zip(stacked.parameters(), solo.parameters(), strict=True):
        assert both.grad is not None
        torch.testing.assert_close(both.grad[0], one.grad, rtol=1e-4, atol=1e-6)
    unused = [p.grad for name, p in stacked.named_parameters() if name.startswith("mtp")]
    assert all(grad is not None and not grad[1].any() for grad in unused)


@pytest.mark.parametrize("rows", [None, 2])
def test_bfloat16_gives_the_losses_and_gradients_up_to_its_rounding(rows: int | None) -> None:
    spec = make_model(moe=None)  # routing would magnify the rounding
    rough, exact = _model(spec, rows), _model(spec, rows)
    found = _stepper(rough, "bf16")(_chunk(spec, rows), 1.0, MTP_WEIGHT)
    wanted = _stepper(exact)(_chunk(spec, rows), 1.0, MTP_WEIGHT)
    torch.testing.assert_close(found.main, wanted.main, rtol=2e-3, atol=0.0)
    assert ROUNDING / 8 < _distance(rough, exact) < 8 * ROUNDING


def test_bfloat16_leaves_parameters_and_gradients_float32() -> None:
    spec = make_model()
    model = _model(spec)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    _stepper(model, "bf16")(_chunk(spec), 1.0, MTP_WEIGHT)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32


def test_a_refresh_takes_over_new_weights_and_another_number_of_rows() -> None:
    spec = make_model()
    model, other = _model(spec, 3), _model(spec, 2)
    stepper = _stepper(model, "bf16")
    stepper(_chunk(spec, 3), 1.0, MTP_WEIGHT)
    for parameter, new in zip(model.parameters(), other.parameters(), strict=True):
        parameter.data, parameter.grad = new.data * 1.5, torch.zeros_like(new)
        new.data = new.data * 1.5
    for name, buffer in other.named_buffers():
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, buffer)
    stepper.refresh()
    found = stepper(_chunk(spec, 2), 1.0, MTP_WEIGHT)
    wanted = _stepper(other, "bf16")(_chunk(spec, 2), 1.0, MTP_WEIGHT)
    assert torch.equal(found.main, wanted.main)
    assert torch.equal(_grads(model), _grads(other))


def test_nothing_speaks_against_compiling_where_there_is_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g++").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert why_not_compiled() is None


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "g++" in str(why_not_compiled())


@pytest.mark.slow
@pytest.mark.skipif(why_not_compiled() is not None, reason=str(why_not_compiled()))
@pytest.mark.parametrize("spec", [make_model(), with_balance_loss()], ids=["v3", "v2"])
@pytest.mark.parametrize("rows", [None, 2])
def test_a_compiled_step_equals_the_eager_one(
    spec: ModelSpec, rows: int | None, tmp_path: Path
) -> None:
    compiled, eager = _model(spec, rows), _model(spec, rows)
    stepper = make_stepper(compiled, precision="fp32", is_compiled=True, cache=tmp_path)
    for _ in range(2):
        found = stepper(_chunk(spec, rows), 0.5, MTP_WEIGHT)
        wanted = _stepper(eager)(_chunk(spec, rows), 0.5, MTP_WEIGHT)
        torch.testing.assert_close(found.main, wanted.main, rtol=0.0, atol=1e-6)
        assert _distance(compiled, eager) < 1e-6
    assert any(tmp_path.rglob("*.cpp"))  # its code is kept where it was asked to be


@pytest.mark.slow
@pytest.mark.skipif(why_not_compiled() is not None, reason=str(why_not_compiled()))
def test_a_compiled_step_in_bfloat16_follows_new_weights_and_other_shapes(tmp_path: Path) -> None:
    spec = make_model(moe=None, n_layers=2)
    compiled, eager = _model(spec), _model(spec)
    stepper = make_stepper(compiled, precision="bf16", is_compiled=True, cache=tmp_path)
    plain = _stepper(eager, "bf16")
    for sequences in (SEQUENCES, 1, SEQUENCES):
        found = stepper(_chunk(spec, sequences=sequences), 1.0, MTP_WEIGHT)
        wanted = plain(_chunk(spec, sequences=sequences), 1.0, MTP_WEIGHT)
        torch.testing.assert_close(found.main, wanted.main, rtol=2e-3, atol=0.0)
        assert _distance(compiled, eager) < 8 * ROUNDING
        for parameter in (*compiled.parameters(), *eager.parameters()):
            parameter.data.mul_(1.1)
        stepper.refresh()
        plain.refresh()
