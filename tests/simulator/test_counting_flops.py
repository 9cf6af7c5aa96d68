"""FLOPs per token against numbers worked out by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.counting.flops import flops_per_token
from simulator.counting.params import count_params
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, IndexerSpec, ModelSpec
from tests.simulator.model_specs import make_mla, make_model, model_specs


def test_a_dense_model_by_hand() -> None:
    model = make_model(
        vocab_size=10,
        dim=8,
        inter_dim=16,
        n_layers=2,
        attention=GQASpec(n_heads=2, n_kv_heads=1, head_dim=4),
        moe=None,
        n_mtp_modules=0,
    )
    projections = 8 * 8 + 2 * 4 * 8 + 8 * 8
    feed_forward = 3 * 8 * 16
    scores_and_values = 2 * 2 * (4 + 4) * (5 + 1) / 2

    found = flops_per_token(model, 5)

    layers = 2 * (2 * projections + 2 * feed_forward + scores_and_values)
    assert found.forward == layers + 2 * 10 * 8
    assert found.training == 3 * found.forward
    assert found.mtp_forward == 0


@settings(max_examples=50, deadline=None)
@given(model_specs(), st.integers(1, 64))
def test_weights_cost_two_flops_for_every_active_matrix_parameter(
    model: ModelSpec, seq_len: int
) -> None:
    untied = replace(model, tie_embeddings=False)
    count = count_params(untied)
    vectors = count.parts["norm"]
    found = flops_per_token(untied, seq_len)

    weights = found.forward - found.parts["attention_scores"]
    assert sum(found.parts.values()) == pytest.approx(found.forward)
    assert weights <= 2 * (count.active - count.embedding - vectors)
    assert (
        weights
        == flops_per_token(untied, 1).forward
        - (flops_per_token(untied, 1).parts["attention_scores"])
    )


def test_a_tied_head_costs_as_much_as_an_untied_one() -> None:
    model = make_model()

    tied = flops_per_token(replace(model, tie_embeddings=True), 64)

    assert tied == flops_per_token(model, 64)


def test_attention_grows_with_the_mean_number_of_visible_positions() -> None:
    model = make_model()

    short, long = (flops_per_token(model, t).parts["attention_scores"] for t in (9, 99))

    assert long / short == (99 + 1) / (9 + 1)


def test_prediction_modules_are_apart_and_pay_for_their_own_head_pass() -> None:
    model = make_model(n_mtp_modules=1)
    without = flops_per_token(replace(model, n_mtp_modules=0), 64)
    found = flops_per_token(model, 64)

    assert found.forward == without.forward
    assert found.mtp_forward > 2 * model.vocab_size * model.dim
    assert found.training_with_mtp == 3 * (found.forward + found.mtp_forward)


def test_an_indexer_caps_the_positions_attended_to() -> None:
    dense = make_model(attention=make_mla())
    indexer = IndexerSpec(n_heads=1, head_dim=2, top_k=4)
    sparse = make_model(attention=make_mla(indexer=indexer))
    index = 2 * 1 * 2 * (64 + 1) / 2 * 3

    found = flops_per_token(sparse, 64).parts["attention_scores"]

    seen = (1 + 2 + 3 + 61 * 4) / 64
    full = flops_per_token(dense, 64).parts["attention_scores"]
    assert found == pytest.approx(full * seen / ((64 + 1) / 2) + index)


def test_a_sequence_needs_a_token() -> None:
    with pytest.raises(SpecError, match="seq_len must be positive; got 0"):
        flops_per_token(make_model(), 0)
