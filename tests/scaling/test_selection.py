from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from scaling.noise import LossTable
from scaling.outcome import Selection
from scaling.selection import choose_finalists, seeds_to_resolve, select
from tests.scaling.loss_tables import Study, draw_table, play

DELTA = 0.0066


def choose(losses: dict[int, float], **changes: object) -> tuple[int, ...]:
    arguments: dict[str, object] = {"noise_std": 0.004, "delta": DELTA, "max_configs": 5}
    return choose_finalists(losses, **(arguments | changes))  # type: ignore[arg-type]


def run(losses: LossTable, **changes: object) -> Selection:
    arguments: dict[str, object] = {"delta": DELTA, "rng": np.random.default_rng(0)}
    return select(losses, **(arguments | changes))  # type: ignore[arg-type]


def clear_table(num_configs: int = 12, num_seeds: int = 4) -> dict[int, dict[int, float]]:
    """Configurations 0.05 nats apart, noise 0.002: everything is told apart."""
    rng = np.random.default_rng(5)
    means = 2.2 + 0.05 * np.arange(num_configs)
    table = draw_table(rng, means, num_seeds, 0.002)
    return {config: row if config < 4 else {0: row[0]} for config, row in table.items()}


# Finalists


def test_finalists_are_those_that_may_be_within_the_margin() -> None:
    """Reach: delta + 1.2816 * sqrt(2) * noise."""
    reach = DELTA + norm.isf(0.1) * sqrt(2) * 0.004
    losses = {0: 2.0, 1: 2.001, 2: 2.002, 3: 2.0 + reach - 1e-6, 4: 2.0 + reach + 1e-6}
    assert choose(losses) == (0, 1, 2, 3)


def test_at_least_three_are_measured() -> None:
    assert choose({0: 2.0, 1: 3.0, 2: 4.0, 3: 5.0}) == (0, 1, 2)


def test_incumbent_is_always_in_and_counts() -> None:
    losses = {config: 2.0 + 1e-4 * config for config in range(9)} | {20: 3.0}
    assert choose(losses, always=(20,)) == (0, 1, 2, 3, 20)


def test_a_diverged_incumbent_stays_in_and_comes_last() -> None:
    assert choose({0: 2.0, 1: 2.1, 9: nan}, always=(9,)) == (0, 1, 9)


def test_failed_trials_are_no_finalists() -> None:
    assert choose({0: 2.0, 1: nan, 2: inf, 3: 2.1}) == (0, 3)


def test_unknown_noise_takes_the_best() -> None:
    losses = {config: 2.0 + config for config in range(9)}
    assert choose(losses, noise_std=None) == (0, 1, 2, 3, 4)


def test_an_incumbent_that_was_never_tried_is_ignored() -> None:
    assert choose({0: 2.0}, always=(7,)) == (0,)


@given(
    st.dictionaries(st.integers(0, 30), st.floats(2.0, 2.2), min_size=1),
    st.floats(0.0, 0.05),
    st.floats(1.0, 5.0),
)
def test_more_noise_never_drops_a_finalist(
    losses: dict[int, float], noise_std: float, factor: float
) -> None:
    few = choose(losses, noise_std=noise_std, max_configs=99)
    many = choose(losses, noise_std=factor * noise_std, max_configs=99)
    assert set(few) <= set(many)


@pytest.mark.parametrize(
    ("noise_std", "delta", "seeds"),
    [(0.002, 0.002, 8), (0.002, 0.003, 6), (0.002, 0.005, 4), (0.0, 0.002, 3)],
)
def test_seeds_for_a_paired_difference(noise_std: float, delta: float, seeds: int) -> None:
    """The guide's table for a standard deviation of the difference of 0.002: 8, 4 + 2, 2 + 2."""
    assert seeds_to_resolve(noise_std / sqrt(2), delta) == seeds


# Outcome


def test_a_clear_table_is_resolved_in_order() -> None:
    selection = run(clear_table())
    assert selection.verdict == "resolved"
    assert [config.config for config in selection.top] == [0, 1, 2]
    assert selection.ties == ()
    assert [config.config for config in selection.others] == list(range(3, 12))
    assert selection.runs_needed == 0
    assert selection.seeds == (1, 2, 3)


def test_differences_are_those_of_the_means_on_the_seeds_named() -> None:
    selection = run(clear_table())
    best, second = selection.top[:2]
    by_seed = [dict(zip(c.seeds, c.losses, strict=True)) for c in (best, second)]
    paired = [by_seed[1][seed] - by_seed[0][seed] for seed in selection.seeds]
    assert second.difference == pytest.approx(np.mean(paired))
    assert second.difference == pytest.approx(second.mean_loss - best.mean_loss)
    assert selection.noise_std is not None
    assert second.standard_error == pytest.approx(selection.noise_std * sqrt(2 / 3))
    assert second.difference_in_noise == pytest.approx(second.difference / selection.noise_std)
    assert (best.difference, best.standard_error, best.difference_in_noise) == (0.0, None, 0.0)


def test_every_configuration_appears_once() -> None:
    losses = clear_table() | {50: {0: nan}, 51: {0: 2.2, 1: inf}}
    selection = run(losses)
    shown = [c.config for c in (*selection.top, *selection.ties, *selection.others)]
    assert sorted([*shown, *selection.failed]) == sorted(losses)
    assert selection.failed == (50,)
    assert selection.num_configs == len(losses)


def test_equal_configurations_are_not_resolved_and_say_how_many_runs_would() -> None:
    table = draw_table(np.random.default_rng(2), np.full(12, 2.2), 3, 0.01)
    losses = {config: row if config < 4 else {0: row[0]} for config, row in table.items()}
    selection = run(losses)
    assert selection.verdict == "not_resolved"
    assert selection.noise_std is not None
    wanted = seeds_to_resolve(selection.noise_std, DELTA)
    shown = (*selection.top, *selection.ties)
    have = [2 if config.is_finalist else 1 for config in shown]
    assert selection.runs_needed == sum(max(0, wanted - count) for count in have)
    assert f"About {selection.runs_needed} more runs" in selection.statement


def test_equality_that_more_seeds_would_not_change_is_said() -> None:
    table = draw_table(np.random.default_rng(2), np.full(6, 2.2), 12, 0.001)
    selection = run(table, delta=0.01)
    assert (selection.verdict, selection.runs_needed) == ("not_resolved", 0)
    assert "equal to within the margin" in selection.statement


def test_a_third_of_the_configurations_may_tie() -> None:
    """Four of twelve are equal, four of eleven are too many."""
    means = np.array([2.2, 2.2, 2.2, 2.2] + [2.4 + 0.01 * i for i in range(8)])
    table = draw_table(np.random.default_rng(3), means, 6, 0.0005)
    assert run(table).verdict == "resolved"
    assert run(table).num_tied == 4
    del table[11]
    assert run(table).verdict == "not_resolved"


def test_failed_configurations_count_among_all() -> None:
    means = np.array([2.2, 2.2, 2.2, 2.2] + [2.4 + 0.01 * i for i in range(7)])
    table = draw_table(np.random.default_rng(3), means, 6, 0.0005)
    assert run(table | {99: {0: nan}}).verdict == "resolved"


def test_guards_make_it_vacuous() -> None:
    selection = run(clear_table(), vacuous=("nothing was learnt",))
    assert selection.verdict == "vacuous"
    assert "nothing was learnt" in selection.statement
    assert selection.top


def test_unknown_noise_resolves_nothing() -> None:
    selection = run({config: {0: 2.0 + 0.1 * config} for config in range(9)})
    assert selection.verdict == "not_resolved"
    assert selection.noise is None
    assert selection.p_within_delta is None
    assert selection.top[1].standard_error is None
    assert "noise is unknown" in selection.statement


def test_nothing_finished_is_incomplete() -> None:
    selection = run({0: {0: nan}, 1: {}})
    assert (selection.verdict, selection.top, selection.failed) == ("incomplete", (), (0, 1))


def test_a_winner_that_failed_on_a_seed_is_not_among_the_best() -> None:
    losses = clear_table()
    losses[0][2] = nan
    selection = run(losses)
    assert [config.config for config in selection.top] == [1, 2, 3]
    assert selection.others[-1].config == 0
    assert "failed_on_a_seed" in {flag.code for flag in selection.flags}


def test_stale_seeds_are_remarked() -> None:
    selection = run(clear_table(num_seeds=2))
    assert "search_seed_included" in {flag.code for flag in selection.flags}
    assert "search_seed_included" not in {flag.code for flag in run(clear_table()).flags}


def test_noise_is_taken_near_the_best() -> None:
    losses = clear_table()
    expected = run(losses).noise
    losses[30] = {0: 3.0, 1: 3.9, 2: 3.2, 3: 4.4}
    assert run(losses).noise == expected


def test_no_noise_at_all() -> None:
    selection = run({c: {s: 2.0 + 0.1 * c for s in range(3)} for c in range(10)})
    assert selection.noise_std == pytest.approx(0.0, abs=1e-12)
    assert selection.verdict == "resolved"


def test_selection_is_reproducible() -> None:
    assert run(clear_table()) == run(clear_table())


def test_order_of_the_table_does_not_matter() -> None:
    losses = clear_table()
    assert run(dict(reversed(losses.items()))) == run(losses)


@given(st.floats(-1.0, 5.0))
@settings(max_examples=20)
def test_a_common_shift_changes_only_the_losses(shift: float) -> None:
    """Within the rounding of a shifted loss; the margin is given in nats."""
    losses = clear_table()
    moved = {c: {s: loss + shift for s, loss in row.items()} for c, row in losses.items()}
    before, after = run(losses, num_draws=100), run(moved, num_draws=100)
    assert after.verdict == before.verdict
    assert [c.config for c in after.top] == [c.config for c in before.top]
    assert [c.difference for c in after.top] == pytest.approx(
        [c.difference for c in before.top], abs=1e-9
    )


# Whole studies, simulated


STUDIES = {
    "quiet": Study(noise_std=0.004),
    "loud": Study(noise_std=0.01, transfer_std=0.003, delta=0.0022),
    "flat": Study(spread=0.01, noise_std=0.01, transfer_std=0.003, delta=0.0022, num_seeds=4),
    "long": Study(spread=0.01, noise_std=0.002, delta=0.0022, num_seeds=5, max_finalists=8),
}


@pytest.mark.parametrize("name", STUDIES)
def test_stated_probabilities_are_not_above_the_realised_frequencies(name: str) -> None:
    """300 studies each; 2.5 standard errors of a frequency near 0.9 are 0.043."""
    rng = np.random.default_rng(11)
    played = [play(STUDIES[name], rng) for _ in range(300)]
    within = [s.p_within_delta for s, _, _ in played if s.p_within_delta is not None]
    contains = [s.p_contains_best for s, _, _ in played if s.p_contains_best is not None]
    assert len(within) == len(contains) == 300
    assert np.mean(within) <= np.mean([hit for _, hit, _ in played]) + 0.043
    assert np.mean(contains) <= np.mean([hit for _, _, hit in played]) + 0.043


def test_stated_probability_is_not_uselessly_low() -> None:
    """Five measured finalists and little noise: the set is nearly sure, and the claim says so."""
    rng = np.random.default_rng(12)
    played = [play(STUDIES["quiet"], rng) for _ in range(50)]
    assert np.mean([s.p_within_delta or 0.0 for s, _, _ in played]) > 0.95


def test_noise_enlarges_the_tie_set() -> None:
    rng = np.random.default_rng(13)
    ties = [
        np.mean([len(play(Study(noise_std=std), rng)[0].ties) for _ in range(60)])
        for std in (0.001, 0.004, 0.016)
    ]
    assert ties[0] < ties[1] < ties[2]
