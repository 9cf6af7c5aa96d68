from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from simulator.model.expert_products import apply_experts
from simulator.model.moe import MoE, sort_slots
from simulator.specs.model import MoESpec
from tests.builders import make_moe

DIM, TOKENS = 16, 40


def _layer(spec: MoESpec, *, seed: int = 0, dim: int = DIM) -> MoE:
    torch.manual_seed(seed)
    layer = MoE(dim, spec)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5)
    return layer


def _expert_by_expert(layer: MoE, x: Tensor) -> Tensor:
    """Apply every expert to its own tokens, one after the other."""
    routing = layer.gate(x)
    y = layer.shared_experts(x) if layer.spec.n_shared_experts else torch.zeros_like(x)
    for expert in range(layer.spec.n_routed_experts):
        token, place = torch.where(routing.experts == expert)
        gate, up = (x[token] @ layer.experts.w13[expert].T).chunk(2, -1)
        out = (functional.silu(gate) * up) @ layer.experts.w2[expert].T
        y = y.index_add(0, token, out * routing.weights[token, place].unsqueeze(-1))
    return y


@pytest.mark.parametrize(
    "spec",
    [
        make_moe(),
        make_moe(n_shared_experts=0, n_activated_experts=8),
        make_moe(n_routed_experts=64, n_activated_experts=1),  # some experts get no token
        make_moe(moe_inter_dim=7),  # no kernel for these row sizes
    ],
    ids=["usual", "all_experts", "idle_experts", "unaligned"],
)
def test_output_and_gradients_equal_a_loop_over_experts(spec: MoESpec) -> None:
    layer = _layer(spec)
    x = torch.randn(TOKENS, DIM, requires_grad=True)
    expected = _expert_by_expert(layer, x)
    upstream = torch.randn_like(expected)
    parameters = [x, *layer.parameters()]

    got, _ = layer(x, TOKENS)

    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    grads = torch.autograd.grad(got, parameters, upstream)
    wanted = torch.autograd.grad(expected, parameters, upstream)
    for grad, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, want, rtol=1e-4, atol=1e-5)


def test_no_token_is_dropped_however_uneven_the_load() -> None:
    layer = _layer(make_moe())
    assert layer.gate.bias is not None
    layer.gate.bias[0] = 100.0
    x = torch.randn(TOKENS, DIM)
    y, statistics = layer(x, TOKENS)
    assert statistics.load.sum() == TOKENS * 2
    assert statistics.load[0] == TOKENS
    torch.testing.assert_close(y, _expert_by_expert(layer, x), rtol=1e-5, atol=1e-5)


def test_every_slot_is_sorted_to_its_expert_once() -> None:
    experts = torch.randint(8, (2, TOKENS, 3), generator=torch.Generator().manual_seed(0))
    weights = torch.rand(2, TOKENS, 3)
    slots = sort_slots(experts, weights, 8)
    expert = torch.repeat_interleave(torch.arange(16), slots.load.flatten())
    found = sorted(zip(slots.tokens.tolist(), expert.tolist(), slots.weights.tolist(), strict=True))
    expected = sorted(
        (model * TOKENS + token, model * 8 + e, w)
        for model in range(2)
        for token in range(TOKENS)
        for e, w in zip(experts[model, token].tolist(), weights[model, token].tolist(), strict=True)
    )
    assert found == expected
    assert slots.ends.tolist() == slots.load.flatten().cumsum(0).tolist()


def test_balance_loss_is_there_only_when_the_model_has_one() -> None:
    x = torch.randn(TOKENS, DIM)
    without = [make_moe(), make_moe(balance="none", aux_loss_alpha=0.1)]
    assert all(_layer(spec)(x, TOKENS)[1].balance is None for spec in without)
    spec = replace(make_moe(), aux_loss_alpha=0.1)
    balance = _layer(spec)(x, TOKENS)[1].balance
    assert balance is not None
    assert balance.item() == pytest.approx(0.1, rel=0.5)


def test_experts_compute_in_the_type_of_autocast() -> None:
    layer = _layer(make_moe())
    x = torch.randn(TOKENS, DIM)
    routing = layer.gate(x)
    slots = sort_slots(routing.experts, routing.weights, 8)
    exact = apply_experts(x, slots, torch.zeros_like(x), layer.experts.w13, layer.experts.w2)
    with torch.autocast("cpu", torch.bfloat16):
        rough = apply_experts(x, slots, torch.zeros_like(x), layer.experts.w13, layer.experts.w2)
    difference = (rough - exact).abs().max() / exact.abs().max()
    assert 1e-4 < difference < 2e-2  # rounded to bfloat16, and no worse


@pytest.mark.parametrize("favourite", [0.0, 100.0], ids=["usual", "one_expert_has_every_token"])
def test_experts_in_bfloat16_equal_float32_ones_up_to_rounding(favourite: float) -> None:
    layer = _layer(make_moe())
    assert layer.gate.bias is not None
    layer.gate.bias[0] = favourite
    x = torch.randn(TOKENS, DIM)
    routing = layer.gate(x)

    def results(dtype: torch.dtype) -> list[Tensor]:
        leaves = [x.to(dtype), layer.experts.w13.detach().to(dtype)]
        leaves += [layer.experts.w2.detach().to(dtype), routing.weights.detach()]
        tokens, w13, w2, weights = (leaf.requires_grad_() for leaf in leaves)
        slots = sort_slots(routing.experts, weights, 8)
        y = apply_experts(tokens, slots, torch.zeros_like(x), w13, w2)
        y.square().sum().backward()
        grads = [leaf.grad for leaf in leaves]
        return [y.detach(), *(grad.float() for grad in grads if grad is not None)]

    for rough, exact in zip(results(torch.bfloat16), results(torch.float32), strict=True):
        assert (rough - exact).norm() < 2e-2 * exact.norm()
