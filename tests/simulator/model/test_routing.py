from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simulator.model.routing import (
    Gate,
    Routing,
    balance_loss,
    choose_experts,
    expert_scores,
    gate_weights,
    updated_bias,
)
from simulator.specs.model import MoESpec
from tests.builders import make_moe

BATCH, POSITIONS, EXPERTS = 3, 8, 12
GROUPED = make_moe(
    n_routed_experts=EXPERTS, n_activated_experts=3, n_expert_groups=4, n_limited_groups=2
)
SOFTMAX = replace(GROUPED, score_func="softmax", balance="aux_loss", group_score="max")


def _scores(spec: MoESpec, seed: int = 0) -> Tensor:
    logits = torch.randn(BATCH * POSITIONS, EXPERTS, generator=torch.Generator().manual_seed(seed))
    return logits.sigmoid() if spec.score_func == "sigmoid" else logits.softmax(-1)


def _top2_sum(scores: list[float]) -> float:
    return sum(sorted(scores)[-2:])


@pytest.mark.parametrize(("spec", "group_score"), [(GROUPED, _top2_sum), (SOFTMAX, max)])
def test_choice_is_the_best_within_the_best_groups(
    spec: MoESpec, group_score: Callable[[list[float]], float]
) -> None:
    scores = _scores(spec)
    chosen = choose_experts(scores, None, spec)
    for row, experts in zip(scores.tolist(), chosen.tolist(), strict=True):
        groups = [row[i : i + 3] for i in range(0, EXPERTS, 3)]
        best = sorted(range(4), key=lambda g: group_score(groups[g]))[-2:]
        allowed = [e for e in range(EXPERTS) if e // 3 in best]
        assert set(experts) == set(sorted(allowed, key=lambda e: row[e])[-3:])


def test_negative_biased_scores_do_not_let_other_groups_in() -> None:
    scores = _scores(GROUPED)
    free = choose_experts(scores, None, GROUPED)
    shifted = choose_experts(scores, torch.full((EXPERTS,), -5.0), GROUPED)
    assert torch.equal(free.sort().values, shifted.sort().values)


def test_bias_changes_the_choice_and_not_the_weights() -> None:
    gate = Gate(16, GROUPED)
    x = torch.randn(20, 16)
    with torch.no_grad():
        gate.weight.normal_()
    assert gate.bias is not None
    gate.bias[5] = 10.0
    routing = gate(x)
    assert (routing.experts == 5).any(dim=-1).all()
    chosen = x.matmul(gate.weight.T).sigmoid().gather(-1, routing.experts)
    expected = chosen / chosen.sum(-1, keepdim=True) * GROUPED.route_scale
    torch.testing.assert_close(routing.weights, expected)


def test_weights_are_bare_scores_when_not_normalised() -> None:
    spec = replace(SOFTMAX, norm_topk_prob=False, route_scale=16.0)
    scores = _scores(spec)
    experts = choose_experts(scores, None, spec)
    torch.testing.assert_close(gate_weights(scores, experts, spec), scores.gather(-1, experts) * 16)


def test_scores_are_float32_under_autocast() -> None:
    x, weight = torch.randn(40, 64), torch.randn(EXPERTS, 64)
    exact = expert_scores(x, weight, GROUPED)
    with torch.autocast("cpu", torch.bfloat16):
        got = expert_scores(x, weight, GROUPED)
    assert got.dtype == torch.float32
    assert torch.equal(got, exact)


def _naive_balance(scores: Tensor, chosen: Tensor, alpha: float) -> float:
    """One group of tokens: alpha * sum over experts of load share times mean score."""
    total = 0.0
    num_tokens, num_chosen = chosen.shape
    for expert in range(EXPERTS):
        count = sum(expert in row for row in chosen.tolist())
        frequency = count * EXPERTS / (num_chosen * num_tokens)
        normalised = [(row[expert] / row.sum()).item() for row in scores]
        total += frequency * sum(normalised) / num_tokens
    return alpha * total


@pytest.mark.parametrize("seq_aux", [True, False])
@pytest.mark.parametrize("spec", [GROUPED, SOFTMAX], ids=["v3", "v2"])
def test_balance_loss_equals_the_naive_sum(spec: MoESpec, *, seq_aux: bool) -> None:
    spec = replace(spec, aux_loss_alpha=0.01, seq_aux=seq_aux)
    scores = _scores(spec)
    chosen = choose_experts(scores, torch.linspace(-1, 1, EXPERTS), spec)
    counted = scores.topk(3).indices if spec.balance == "bias" else chosen
    length = POSITIONS if seq_aux else BATCH * POSITIONS
    expected = [
        _naive_balance(s, c, 0.01)
        for s, c in zip(scores.split(length), counted.split(length), strict=True)
    ]
    routing = Routing(experts=chosen, weights=torch.ones_like(scores[:, :3]), scores=scores)
    got = balance_loss(routing, POSITIONS, spec)
    assert got.item() == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def test_even_load_has_a_balance_loss_of_alpha() -> None:
    spec = replace(SOFTMAX, aux_loss_alpha=0.5, n_activated_experts=1, n_limited_groups=4)
    scores = torch.full((EXPERTS, EXPERTS), 1 / EXPERTS)
    chosen = torch.arange(EXPERTS).unsqueeze(-1)
    routing = Routing(experts=chosen, weights=scores[:, :1], scores=scores)
    assert balance_loss(routing, EXPERTS, spec).item() == pytest.approx(0.5)


def test_bias_rises_below_the_mean_load_and_falls_above() -> None:
    bias, load = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([10, 2, 6])
    torch.testing.assert_close(updated_bias(bias, load, 0.01), torch.tensor([0.09, 0.21, 0.3]))
