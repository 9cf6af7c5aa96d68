"""The held-out loss and when it is taken."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simulator.data import ValidationSet
from simulator.model import Transformer
from simulator.specs.run import EvalSpec
from simulator.training.evaluate import Evaluator, eval_steps, final_steps
from tests.simulator.training.engines import CPU, make_tokens, make_trained


def make_set(**changes: object) -> ValidationSet:
    fields: dict[str, object] = {
        "name": "heldout",
        "tokens": make_tokens(6, seed=9)[0],
        "bytes_per_token": None,
        "exact_nll": None,
        "exact_entropy": None,
    }
    return ValidationSet(**(fields | changes))  # type: ignore[arg-type]


def make_evaluator(model: Transformer, *sets: ValidationSet, batch_sequences: int = 8) -> Evaluator:
    return Evaluator(
        lambda row: model, sets, batch_sequences=batch_sequences, device=CPU, is_autocast=False
    )


evals = st.builds(
    EvalSpec,
    interval_steps=st.integers(0, 30),
    final_points=st.integers(1, 6),
    final_spacing_steps=st.integers(1, 6),
)


@given(evals, st.integers(1, 60))
def test_final_steps_end_with_the_run_and_are_evaluated(spec: EvalSpec, num_steps: int) -> None:
    final = final_steps(spec, num_steps)
    assert final[-1] == num_steps
    assert 1 <= len(final) <= spec.final_points
    assert all(b - a == spec.final_spacing_steps for a, b in itertools.pairwise(final))
    assert set(final) <= eval_steps(spec, num_steps)


@given(evals, st.integers(1, 60))
def test_every_evaluation_lies_in_the_run(spec: EvalSpec, num_steps: int) -> None:
    assert all(1 <= step <= num_steps for step in eval_steps(spec, num_steps))


def test_evaluations_come_at_the_interval_and_at_the_end() -> None:
    spec = EvalSpec(interval_steps=8, final_points=3, final_spacing_steps=2)
    assert sorted(eval_steps(spec, 20)) == [8, 16, 18, 20]


def test_run_shorter_than_the_final_points_has_fewer_of_them() -> None:
    spec = EvalSpec(interval_steps=0, final_points=3, final_spacing_steps=2)
    assert final_steps(spec, 2) == (2,)
    assert final_steps(spec, 1) == (1,)


def test_loss_is_the_mean_over_every_predicted_token() -> None:
    model, found = make_trained().model, make_set()
    evaluation = make_evaluator(model, found)(0)
    with torch.no_grad():
        nll = model.all_token_nll(torch.from_numpy(found.tokens))
    assert evaluation.loss["heldout"][0] == pytest.approx(float(nll.main.mean()), rel=1e-6)
    mtp = evaluation.mtp_loss["heldout"]
    assert mtp is not None
    assert mtp[0] == pytest.approx(float(nll.mtp[0].mean()), rel=1e-6)


def test_loss_does_not_depend_on_the_size_of_a_forward_pass() -> None:
    model = make_trained().model
    whole = make_evaluator(model, make_set(), batch_sequences=6)(0).loss["heldout"]
    parts = make_evaluator(model, make_set(), batch_sequences=4)(0).loss["heldout"]
    np.testing.assert_allclose(parts, whole, rtol=1e-6)


def test_every_set_is_evaluated_by_name() -> None:
    other = make_set(name="other", tokens=make_tokens(3, seed=5)[0])
    evaluation = make_evaluator(make_trained().model, make_set(), other)(0)
    assert list(evaluation.loss) == ["heldout", "other"]
    assert evaluation.loss["heldout"] != evaluation.loss["other"]


def test_bits_per_byte_divide_by_the_bytes_of_a_token() -> None:
    evaluation = make_evaluator(make_trained().model, make_set(bytes_per_token=3.0))(0)
    bits = evaluation.bits_per_byte["heldout"]
    assert bits is not None
    assert bits[0] == pytest.approx(evaluation.loss["heldout"][0] / math.log(2) / 3)


def test_known_exact_loss_replaces_the_sample_by_its_expectation() -> None:
    exact_nll = np.random.default_rng(0).uniform(0.5, 1.5, (6, 32))
    model = make_trained().model
    plain = make_evaluator(model, make_set())(0).loss["heldout"]
    paired = make_evaluator(model, make_set(exact_nll=exact_nll, exact_entropy=0.9))(0)
    np.testing.assert_allclose(paired.loss["heldout"], 0.9 + plain - exact_nll.mean())


def test_evaluation_leaves_the_model_alone() -> None:
    trained = make_trained()
    before = {name: tensor.clone() for name, tensor in trained.engine.state(0).items()}
    make_evaluator(trained.model, make_set())(0)
    assert all(torch.equal(before[n], tensor) for n, tensor in trained.engine.state(0).items())
    assert not trained.optimizer.grads.any()
