import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.priors import optimal_batch_tokens
from sweeps.horizon import Horizon, proxy_horizon
from sweeps.spec import TargetSpec
from sweeps.tables.target import HorizonTable
from tests.sweeps.sweep_specs import make_target

TARGET = make_target(num_tokens=10**12, global_batch_sequences=4096, seq_len=4096)
TARGET_PARAMS, PROXY_PARAMS = 10**10, 10**8


def horizon(target: TargetSpec = TARGET, **table: float) -> Horizon:
    return proxy_horizon(
        HorizonTable(**table),  # type: ignore[arg-type]
        target,
        target_params=TARGET_PARAMS,
        proxy_params=PROXY_PARAMS,
    )


def excess(tokens: float, batch_tokens: float) -> float:
    return batch_tokens / optimal_batch_tokens(tokens)


def test_left_alone_tokens_per_parameter_are_the_targets() -> None:
    found = horizon()
    assert found.num_tokens / PROXY_PARAMS == pytest.approx(100.0, rel=1e-3)
    assert found.batch.seq_len == 4096


def test_left_alone_the_batch_sits_where_the_targets_does() -> None:
    found = horizon()
    wanted = excess(TARGET.num_tokens, TARGET.global_batch_sequences * TARGET.seq_len)
    assert excess(found.num_tokens, found.batch.global_batch_tokens) == pytest.approx(
        wanted, rel=0.02
    )
    assert found.batch.global_batch_sequences % 16 == 0


@given(num_steps=st.integers(10, 10**6))
def test_with_steps_given_the_batch_sits_where_the_targets_does(num_steps: int) -> None:
    found = horizon(num_steps=num_steps, seq_len=1)
    wanted = excess(TARGET.num_tokens, TARGET.global_batch_sequences * TARGET.seq_len)
    assert found.num_steps == num_steps
    assert excess(found.num_tokens, found.batch.global_batch_tokens) == pytest.approx(
        wanted, rel=0.02
    )


def test_tokens_per_parameter_can_be_given() -> None:
    found = horizon(tokens_per_param=20.0)
    assert found.num_tokens / PROXY_PARAMS == pytest.approx(20.0, rel=1e-2)


def test_what_is_given_is_kept_and_needs_no_note() -> None:
    found = horizon(num_steps=500, global_batch_sequences=2, seq_len=128)
    assert (found.num_steps, found.batch.global_batch_tokens) == (500, 256)
    assert found.notes == ()


def test_what_a_rule_gave_is_named() -> None:
    notes = horizon().notes
    assert [note.split()[0] for note in notes] == [
        "horizon.num_steps",
        "horizon.global_batch_sequences",
    ]


def test_a_tiny_horizon_is_at_least_one_step_of_one_sequence() -> None:
    target = make_target(num_tokens=100, global_batch_sequences=1, seq_len=32)
    found = horizon(target, tokens_per_param=1e-9)
    assert (found.num_steps, found.batch.global_batch_sequences) == (1, 1)
