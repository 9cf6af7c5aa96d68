"""Policies stop what cannot recover, and nothing else."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from simulator.training.policies import GO_ON, Policy, Verdict, consult
from simulator.training.policies.collapse import RouterCollapsePolicy, full_collapse
from simulator.training.policies.divergence import (
    DivergencePolicy,
    NonFinitePolicy,
    divergence_window,
)
from simulator.training.records import StepStats
from tests.builders import make_moe


def make_stats(
    loss: Sequence[float], *, norm: float = 1.0, violation: Sequence[Sequence[float]] | None = None
) -> StepStats:
    return StepStats(
        loss=np.array(loss, dtype=np.float64),
        mtp_loss=None,
        balance_loss=None,
        grad_norm=np.full(len(loss), norm),
        is_clipped=np.zeros(len(loss), dtype=bool),
        max_violation=np.array(violation if violation is not None else [[]] * len(loss)),
    )


def make_divergence(warmup_steps: int = 5, window: int = 5) -> DivergencePolicy:
    return DivergencePolicy(warmup_steps=warmup_steps, window=window)


def stopped_at(policy: Policy, losses: Iterable[float]) -> int | None:
    """Return the step at which a run of these losses is stopped."""
    for step, loss in enumerate(losses, 1):
        if policy.decide(step, make_stats([loss]))[0].action == "stop":
            return step
    return None


@pytest.mark.parametrize(("loss", "norm"), [(np.nan, 1.0), (np.inf, 1.0), (2.0, np.nan)])
def test_not_a_number_stops_the_run_as_diverged(loss: float, norm: float) -> None:
    (verdict,) = NonFinitePolicy().decide(7, make_stats([loss], norm=norm))
    assert (verdict.action, verdict.status) == ("stop", "diverged")
    assert "step 7" in verdict.reason


def test_not_a_number_stops_its_own_run_only() -> None:
    verdicts = NonFinitePolicy().decide(1, make_stats([2.0, np.nan, 3.0]))
    assert [verdict.action for verdict in verdicts] == ["go_on", "stop", "go_on"]


def test_median_above_the_first_loss_after_warmup_is_divergence() -> None:
    assert stopped_at(make_divergence(), [5.5] + [5.7] * 20) == 11  # warmup and window are over


def test_run_that_hardly_learns_is_none() -> None:
    assert stopped_at(make_divergence(), [5.5] + [5.51, 5.49, 5.6] * 20) is None


def test_loss_above_the_first_one_during_warmup_is_none() -> None:
    losses = [5.5] + [6.0] * 8 + [4.0] * 10
    assert stopped_at(make_divergence(warmup_steps=10), losses) is None


def test_falling_noisy_loss_is_none() -> None:
    noise = np.random.default_rng(0).normal(0, 0.3, 300)
    losses = 2.0 + 3.5 * np.exp(-np.arange(300) / 30) + noise
    assert stopped_at(make_divergence(), losses) is None


def test_loss_far_above_its_median_for_three_steps_is_divergence() -> None:
    losses = [5.5, 3.0] + [1.0] * 10 + [3.5] * 3
    assert stopped_at(make_divergence(), losses) == 15


def test_single_spikes_are_none() -> None:
    losses = [5.5] + ([1.0] * 5 + [4.0, 4.0]) * 5
    assert stopped_at(make_divergence(), losses) is None


def test_divergence_names_its_numbers() -> None:
    policy = make_divergence()
    verdicts = [policy.decide(step, make_stats([5.5 + step]))[0] for step in range(1, 12)]
    assert "above the first loss 6.5" in verdicts[-1].reason


def test_stopped_run_does_not_disturb_the_others() -> None:
    policy = make_divergence()
    actions = [
        policy.decide(step, make_stats([np.nan, 5.0 - 0.1 * step]))[1].action
        for step in range(1, 30)
    ]
    assert set(actions) == {"go_on"}


@pytest.mark.parametrize(("num_steps", "window"), [(20, 5), (400, 20), (10**6, 50)])
def test_window_is_a_twentieth_of_the_run_within_bounds(num_steps: int, window: int) -> None:
    assert divergence_window(num_steps) == window


def make_collapse(
    num_steps: int = 100, warmup_steps: int = 10, balance_steps: int = 0
) -> RouterCollapsePolicy:
    limit = full_collapse(make_moe(n_routed_experts=8, n_activated_experts=2))
    return RouterCollapsePolicy(
        limit=limit, warmup_steps=warmup_steps, num_steps=num_steps, balance_steps=balance_steps
    )


def collapse_step(policy: Policy, violations: Iterable[Sequence[float]]) -> int | None:
    for step, layers in enumerate(violations, 1):
        if policy.decide(step, make_stats([2.0], violation=[layers]))[0].action == "stop":
            return step
    return None


def test_full_collapse_is_every_token_on_one_expert() -> None:
    assert full_collapse(make_moe(n_routed_experts=8, n_activated_experts=2)) == 3.0


def test_layer_that_keeps_to_the_same_experts_is_collapsed() -> None:
    assert collapse_step(make_collapse(), [(0.3, 3.0)] * 40) == 30  # 20 steps after warmup


def test_uneven_load_is_no_collapse() -> None:
    assert collapse_step(make_collapse(), [(2.7, 2.7)] * 100) is None


def test_collapse_that_heals_is_none() -> None:
    assert collapse_step(make_collapse(), ([(3.0, 0.1)] * 15 + [(1.0, 0.1)]) * 6) is None


def test_balance_bias_is_given_the_time_it_needs() -> None:
    policy = make_collapse(balance_steps=60)
    assert collapse_step(policy, [(0.3, 3.0)] * 100) == 70  # 60 steps after warmup


def test_collapse_names_the_layer() -> None:
    policy = make_collapse()
    stats = make_stats([2.0], violation=[(0.3, 3.0)])
    verdicts = [policy.decide(step, stats)[0] for step in range(1, 31)]
    assert verdicts[-1].reason.startswith("router collapsed: MaxVio of MoE layer 1 ")


@pytest.mark.parametrize("num_before", [0, 1, 12])
def test_restored_divergence_policy_judges_as_the_uninterrupted_one(num_before: int) -> None:
    losses = [5.5, 3.0] + [1.0] * 10 + [3.5] * 3
    first, second = make_divergence(), make_divergence()
    for step, loss in enumerate(losses[:num_before], 1):
        first.decide(step, make_stats([loss]))
    second.restore(first.state())
    later = [
        second.decide(step, make_stats([loss]))[0].action
        for step, loss in enumerate(losses[num_before:], num_before + 1)
    ]
    assert later.index("stop") + num_before + 1 == 15


def test_restored_collapse_policy_judges_as_the_uninterrupted_one() -> None:
    first, second = make_collapse(), make_collapse()
    stats = make_stats([2.0], violation=[(0.3, 3.0)])
    for step in range(1, 26):
        first.decide(step, stats)
    second.restore(first.state())
    actions = [second.decide(step, stats)[0].action for step in range(26, 31)]
    assert actions == ["go_on"] * 4 + ["stop"]


class Always:
    """A policy of one opinion."""

    def __init__(self, *verdicts: Verdict) -> None:
        self._verdicts = verdicts

    def decide(self, step: int, stats: StepStats) -> Sequence[Verdict]:
        return self._verdicts

    def state(self) -> dict[str, object]:
        return {}

    def restore(self, state: dict[str, object]) -> None:
        pass


def test_severest_verdict_holds_for_each_run() -> None:
    skip, stop = Verdict(action="skip", reason="s"), Verdict(action="stop", reason="t")
    rewind = Verdict(action="rewind", reason="r")
    policies = [Always(skip, rewind, GO_ON), Always(stop, skip, GO_ON)]
    assert consult(policies, 1, make_stats([1.0] * 3)) == (stop, rewind, GO_ON)


def test_without_policies_every_run_goes_on() -> None:
    assert consult([], 1, make_stats([1.0, np.nan])) == (GO_ON, GO_ON)
