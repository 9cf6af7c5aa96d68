import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling.ranking import Estimate
from scaling.ties import RunNoise, split, standard_error

UNKNOWN = RunNoise(std=None, dof=0)


def make_estimates(*means: float, num_failed: int = 0) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(
            config=config,
            mean=mean,
            variance_factor=0.25,
            num_seeds=4,
            num_failed=num_failed,
            is_measured=True,
        )
        for config, mean in enumerate(means)
    )


def ids(estimates: tuple[Estimate, ...]) -> list[int]:
    return [estimate.config for estimate in estimates]


def test_without_noise_the_margin_alone_decides() -> None:
    parts = split(make_estimates(1.0, 2.0, 3.0, 3.125, 3.126), UNKNOWN, delta=0.125, top_k=3)
    assert (ids(parts.top), ids(parts.ties), ids(parts.others)) == ([0, 1, 2], [3], [4])
    assert parts.num_tied == 2


def test_members_of_the_top_that_tie_with_its_last_are_counted() -> None:
    parts = split(make_estimates(1.0, 2.95, 3.0, 3.05), UNKNOWN, delta=0.1, top_k=3)
    assert parts.num_tied == 3


def test_no_further_tie_means_none_at_all() -> None:
    assert split(make_estimates(3.0, 3.0, 3.0, 9.0), UNKNOWN, delta=0.1, top_k=3).num_tied == 0


def test_fewer_configurations_than_places() -> None:
    parts = split(make_estimates(1.0, 2.0), UNKNOWN, delta=0.1, top_k=3)
    assert (ids(parts.top), parts.ties, parts.others) == ([0, 1], (), ())


def test_failed_ones_are_taken_only_where_nothing_else_is_there() -> None:
    failed = make_estimates(1.0, 2.0, num_failed=1)
    assert ids(split(failed, UNKNOWN, delta=0.1, top_k=3).top) == [0, 1]
    sound = make_estimates(5.0)
    parts = split((*sound, *failed[1:]), UNKNOWN, delta=0.1, top_k=3)
    assert (ids(parts.top), ids(parts.others)) == ([0], [1])


@given(
    st.lists(st.floats(2.0, 2.1), min_size=4, max_size=20),
    st.floats(1e-5, 0.05),
    st.floats(1.0, 4.0),
    st.integers(1, 30),
)
def test_more_noise_never_unties(means: list[float], std: float, factor: float, dof: int) -> None:
    estimates = make_estimates(*sorted(means))
    quiet = split(estimates, RunNoise(std=std, dof=dof), delta=0.005, top_k=3)
    loud = split(estimates, RunNoise(std=factor * std, dof=dof), delta=0.005, top_k=3)
    assert set(ids(quiet.ties)) <= set(ids(loud.ties))
    assert ids(quiet.top) == ids(loud.top)


@given(st.lists(st.floats(2.0, 2.1), min_size=4, max_size=20), st.floats(0.0, 0.05))
def test_a_wider_margin_never_unties(means: list[float], extra: float) -> None:
    noise = RunNoise(std=0.004, dof=6)
    narrow = split(make_estimates(*sorted(means)), noise, delta=0.002, top_k=3)
    wide = split(make_estimates(*sorted(means)), noise, delta=0.002 + extra, top_k=3)
    assert set(ids(narrow.ties)) <= set(ids(wide.ties))


def test_standard_error_adds_both_variances() -> None:
    a, b = make_estimates(1.0, 2.0)
    assert standard_error(a, b, RunNoise(std=0.01, dof=3)) == pytest.approx(0.01 * 0.5**0.5)
    assert standard_error(a, b, UNKNOWN) is None
