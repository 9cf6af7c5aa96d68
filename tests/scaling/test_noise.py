from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaling.noise import estimate_noise, finite_losses
from tests.scaling.loss_tables import draw_table, drop

NOISE_STD, SHARED_STD = 0.004, 0.006


def estimates(num_tables: int, num_configs: int, num_seeds: int, missing: float) -> np.ndarray:
    """Return rows of (paired variance, degrees of freedom, seed variance)."""
    rng = np.random.default_rng(7)
    rows = []
    for _ in range(num_tables):
        means = 2.0 + 0.05 * rng.standard_normal(num_configs)
        table = drop(draw_table(rng, means, num_seeds, NOISE_STD, SHARED_STD), rng, missing)
        noise = estimate_noise(table)
        if noise is not None and noise.paired_std is not None:
            rows.append((noise.paired_std**2, noise.degrees_of_freedom, noise.seed_std**2))
    return np.array(rows)


@pytest.mark.parametrize(
    ("num_configs", "num_seeds", "missing"), [(4, 3, 0.0), (6, 5, 0.3), (3, 8, 0.5), (12, 3, 0.4)]
)
def test_paired_variance_is_unbiased_for_any_pattern_of_missing_runs(
    num_configs: int, num_seeds: int, missing: float
) -> None:
    """Mean over 600 tables within 4 of its own standard errors."""
    variance, dof, _ = estimates(600, num_configs, num_seeds, missing).T
    error = NOISE_STD**2 * np.sqrt(np.mean(2.0 / dof) / len(dof))
    assert abs(variance.mean() - NOISE_STD**2) < 4 * error


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_degrees_of_freedom_are_those_of_a_chi_square(missing: float) -> None:
    """variance * dof / sigma^2 has mean dof and variance 2 dof."""
    variance, dof, _ = estimates(1500, 5, 4, missing).T
    standardised = (variance * dof / NOISE_STD**2 - dof) / np.sqrt(2.0 * dof)
    assert standardised.std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_seed_variance_holds_both_parts(missing: float) -> None:
    variance = estimates(2000, 4, 5, missing)[:, 2]
    expected = NOISE_STD**2 + SHARED_STD**2
    assert variance.mean() == pytest.approx(expected, rel=4 * variance.std() / expected / 2000**0.5)


def test_balanced_table_by_hand() -> None:
    """Residuals are +-0.25 in every cell; one degree of freedom is left."""
    noise = estimate_noise({1: {0: 1.0, 1: 2.0}, 2: {0: 3.0, 1: 3.0}})
    assert noise is not None
    assert noise.paired_std == pytest.approx(0.5)
    assert noise.degrees_of_freedom == 1
    assert noise.seed_std == pytest.approx(0.5)
    assert noise.num_replicates == 4


def test_one_configuration_has_seed_noise_only() -> None:
    noise = estimate_noise({3: {0: 1.0, 1: 2.0, 2: 3.0}})
    assert noise is not None
    assert noise.seed_std == pytest.approx(1.0)
    assert noise.paired_std is None
    assert noise.degrees_of_freedom == 2


def test_disjoint_seeds_leave_nothing_to_pair() -> None:
    noise = estimate_noise({1: {0: 1.0, 1: 2.0}, 2: {2: 3.0, 3: 5.0}})
    assert noise is not None
    assert noise.paired_std is None
    assert noise.degrees_of_freedom == 2


@pytest.mark.parametrize("losses", [{}, {1: {}}, {1: {0: 2.0}, 2: {0: 3.0}}, {1: {0: 2.0, 1: nan}}])
def test_no_pair_of_seeds_means_no_noise(losses: dict[int, dict[int, float]]) -> None:
    assert estimate_noise(losses) is None


def test_failed_runs_are_left_out_and_counted() -> None:
    sound = {1: {0: 1.0, 1: 2.0}, 2: {0: 3.0, 1: 3.0}}
    broken = {1: sound[1] | {2: nan}, 2: sound[2] | {3: inf}, 4: {0: -inf}}
    noise, expected = estimate_noise(broken), estimate_noise(sound)
    assert noise is not None
    assert expected is not None
    assert noise.num_excluded == 3
    assert noise.paired_std == expected.paired_std


def test_finite_losses_keeps_a_configuration_that_never_finished() -> None:
    assert finite_losses({1: {0: nan}, 2: {0: 1.0, 1: inf}}) == {1: {}, 2: {0: 1.0}}


tables = st.dictionaries(
    st.integers(0, 9),
    st.dictionaries(st.integers(0, 5), st.floats(1.0, 5.0), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


@given(tables, st.floats(-1.0, 1.0), st.floats(0.01, 10.0))
@settings(max_examples=100)
def test_noise_ignores_shifts_of_rows_and_columns_and_scales_with_the_losses(
    table: dict[int, dict[int, float]], shift: float, scale: float
) -> None:
    changed = {
        config: {seed: scale * (loss + config * shift + seed * shift) for seed, loss in row.items()}
        for config, row in table.items()
    }
    noise, moved = estimate_noise(table), estimate_noise(changed)
    if noise is None or moved is None:
        assert noise is moved
        return
    assert moved.degrees_of_freedom == noise.degrees_of_freedom
    if noise.paired_std is None or moved.paired_std is None:
        assert noise.paired_std is moved.paired_std
        return
    assert moved.paired_std == pytest.approx(
        scale * noise.paired_std, rel=1e-6, abs=1e-12 + 1e-9 * scale
    )
