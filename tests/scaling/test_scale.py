from collections import Counter

import pytest

from scaling.scale import multipliers_of
from simulator.parametrisation import rule_table
from simulator.specs.errors import SpecError
from tests.scaling.transfers import make_parametrisation, make_scale, make_transfer


@pytest.mark.parametrize("kind", ["sp_fullalign", "mup"])
@pytest.mark.parametrize(
    ("anchor", "role", "factor"),
    [("proxy", "target", 1 / 8), ("proxy", "proxy", 1.0), ("target", "proxy", 8.0)],
)
def test_matrices_follow_the_width_and_embeddings_do_not(
    kind: str, anchor: str, role: str, factor: float
) -> None:
    parametrisation = make_parametrisation(kind=kind, anchor=anchor)
    factors = multipliers_of(getattr(parametrisation, role), parametrisation)
    assert factors.matrix_lr == factor
    assert factors.matrix_decay == 1 / factor
    assert factors.embedding_lr == 1.0


def test_the_commonest_factor_is_that_of_the_width_ratio() -> None:
    """``Transfer.width_ratio`` speaks of ``dim``; most matrices indeed scale with it."""
    transfer = make_transfer()
    rules = rule_table(transfer.parametrisation.target, transfer.parametrisation)
    factors = Counter(rule.lr_multiplier for rule in rules if rule.kind == "matrix")
    assert factors.most_common(1)[0][0] == 1 / transfer.width_ratio


def test_control_gives_every_tensor_one_rate() -> None:
    parametrisation = make_parametrisation(kind="uniform_lr_sp")
    factors = multipliers_of(parametrisation.target, parametrisation)
    assert (factors.matrix_lr, factors.matrix_decay, factors.embedding_lr) == (1.0, 1.0, 1.0)


def test_ratios_are_target_over_proxy() -> None:
    transfer = make_transfer(
        target=make_scale(active_params=2_000_000, num_tokens=5_120_000, batch_tokens=1024)
    )
    assert transfer.tokens_ratio == 10
    assert transfer.batch_ratio == 2
    assert transfer.steps_ratio == 5
    assert transfer.tokens_per_param_ratio == 5
    assert transfer.width_ratio == 8


def test_a_run_shorter_than_a_batch_has_one_step() -> None:
    assert make_scale(num_tokens=100).num_steps == 1


def test_an_empty_run_is_refused() -> None:
    with pytest.raises(SpecError, match="num_tokens must be positive; got 0"):
        make_scale(num_tokens=0)
