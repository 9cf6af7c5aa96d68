"""Models on one device: accumulation, loss weights, balance, and what a step tells."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from simulator.specs.model import ModelSpec
from simulator.training.records import FloatArray, StepStats
from tests.builders import make_model
from tests.simulator.training.engines import (
    VALUES,
    make_tokens,
    make_trained,
    with_balance_loss,
)

ON = np.array([True])


def losses(stats: StepStats) -> dict[str, FloatArray]:
    found = {"main": stats.loss, "mtp": stats.mtp_loss, "balance": stats.balance_loss}
    return {name: loss for name, loss in found.items() if loss is not None}


@pytest.mark.parametrize("micro_batch_sequences", [1, 3, 5])
@pytest.mark.parametrize("spec", [make_model(), with_balance_loss()], ids=["v3", "v2"])
def test_accumulated_gradient_equals_that_of_the_big_batch(
    spec: ModelSpec, micro_batch_sequences: int
) -> None:
    whole = make_trained(spec)
    parts = make_trained(spec, micro_batch_sequences=micro_batch_sequences)
    expected = whole.engine.forward_backward(make_tokens(), VALUES)
    found = parts.engine.forward_backward(make_tokens(), VALUES)
    assert losses(found).keys() == losses(expected).keys()
    for name, value in losses(expected).items():
        np.testing.assert_allclose(losses(found)[name], value, rtol=1e-5)
    difference = torch.linalg.vector_norm(parts.optimizer.grads - whole.optimizer.grads)
    assert float(difference) <= 1e-5 * float(whole.optimizer.grad_norm())


def test_expert_loads_are_counted_over_the_global_batch() -> None:
    whole, parts = make_trained(), make_trained(micro_batch_sequences=3)
    expected = whole.engine.forward_backward(make_tokens(), VALUES)
    found = parts.engine.forward_backward(make_tokens(), VALUES)
    np.testing.assert_array_equal(found.max_violation, expected.max_violation)
    whole.engine.apply(VALUES, ON)
    parts.engine.apply(VALUES, ON)
    for name, bias in whole.model.named_buffers():
        assert torch.equal(parts.model.get_buffer(name), bias)


def test_max_violation_is_largest_over_mean_load_minus_one() -> None:
    trained = make_trained()
    stats = trained.engine.forward_backward(make_tokens(), VALUES)
    with torch.no_grad():
        loads = trained.model(torch.from_numpy(make_tokens()[0])).expert_load
    expected = [float(load.max() / load.double().mean() - 1) for load in loads]
    np.testing.assert_allclose(stats.max_violation[0], expected, rtol=1e-6)


def test_statistics_are_arrays_over_runs() -> None:
    stats = make_trained().engine.forward_backward(make_tokens(), VALUES)
    assert stats.loss.shape == stats.grad_norm.shape == stats.is_clipped.shape == (1,)
    assert stats.max_violation.shape == (1, 3)  # two main layers and the prediction module's


def test_prediction_loss_moves_the_parameters_by_its_weight() -> None:
    trained = make_trained()
    norms = []
    for weight in (0.0, 0.1, 0.2):
        trained.engine.forward_backward(
            make_tokens(), replace(VALUES, mtp_weight=np.array([weight]))
        )
        gradient = trained.model.get_parameter("mtp.0.proj.weight").grad
        assert gradient is not None
        norms.append(float(torch.linalg.vector_norm(gradient)))
    assert norms[0] == 0.0
    assert norms[2] == pytest.approx(2 * norms[1], rel=1e-4)


def test_balance_loss_reaches_the_router() -> None:
    gradients = []
    for alpha in (0.0, 0.05):
        spec = with_balance_loss()
        assert spec.moe is not None
        trained = make_trained(replace(spec, moe=replace(spec.moe, aux_loss_alpha=alpha)))
        trained.engine.forward_backward(make_tokens(), VALUES)
        gradient = trained.model.get_parameter("layers.1.ffn.gate.weight").grad
        assert gradient is not None
        gradients.append(gradient.clone())
    assert not torch.allclose(gradients[0], gradients[1], rtol=1e-2, atol=0)


def test_update_lowers_the_loss_of_its_batch() -> None:
    trained = make_trained()
    before = trained.engine.forward_backward(make_tokens(), VALUES).loss
    trained.engine.apply(VALUES, ON)
    assert trained.engine.forward_backward(make_tokens(), VALUES).loss < before


def test_skipped_step_changes_nothing() -> None:
    trained = make_trained()
    trained.engine.forward_backward(make_tokens(), VALUES)
    before = {name: tensor.clone() for name, tensor in trained.engine.state(0).items()}
    trained.engine.apply(VALUES, ~ON)
    assert all(torch.equal(before[n], tensor) for n, tensor in trained.engine.state(0).items())


def test_balance_bias_rests_at_rate_zero() -> None:
    trained = make_trained()
    trained.engine.forward_backward(make_tokens(), VALUES)
    trained.engine.apply(replace(VALUES, bias_rate=np.array([0.0])), ON)
    assert not any(buffer.any() for buffer in trained.model.buffers())


def test_balance_bias_moves_by_its_rate() -> None:
    trained = make_trained()
    trained.engine.forward_backward(make_tokens(), VALUES)
    trained.engine.apply(VALUES, ON)
    largest = max(float(buffer.abs().max()) for buffer in trained.model.buffers())
    assert largest == pytest.approx(VALUES.bias_rate[0])


def test_state_takes_another_engine_to_the_same_place() -> None:
    first, second = make_trained(), make_trained()
    for seed in range(3):
        first.engine.forward_backward(make_tokens(seed=seed), VALUES)
        first.engine.apply(VALUES, ON)
    for name, tensor in second.engine.state(0).items():
        tensor.copy_(first.engine.state(0)[name])
    for trained in (first, second):
        trained.engine.forward_backward(make_tokens(seed=3), VALUES)
        trained.engine.apply(VALUES, ON)
    assert torch.equal(first.optimizer.values, second.optimizer.values)


def test_state_holds_the_balance_biases() -> None:
    names = set(make_trained().engine.state(0))
    assert {"values", "exp_avg", "exp_avg_sq", "num_updates"} < names
    assert {"model.layers.1.ffn.gate.bias", "model.mtp.0.block.ffn.gate.bias"} < names


def test_bfloat16_computes_nearly_the_same_loss() -> None:
    exact = make_trained().engine.forward_backward(make_tokens(), VALUES)
    rough = make_trained(precision="bf16").engine.forward_backward(make_tokens(), VALUES)
    assert rough.loss[0] != exact.loss[0]
    assert rough.loss[0] == pytest.approx(exact.loss[0], rel=1e-2)  # bfloat16 has 8 bits


def test_model_without_prediction_or_experts_has_neither_statistic() -> None:
    spec = replace(make_model(), n_mtp_modules=0, moe=None)
    stats = make_trained(spec).engine.forward_backward(make_tokens(window=33), VALUES)
    assert stats.mtp_loss is None
    assert stats.balance_loss is None
    assert stats.max_violation.shape == (1, 0)
