import pytest
import torch
from torch import Tensor

from simulator.model.causal_attention import (
    _blockwise,
    _library,
    causal_attention,
    max_causal_logits,
)


def _inputs(num_positions: int, *, heads: int = 4, groups: int = 4) -> tuple[Tensor, ...]:
    torch.manual_seed(num_positions)
    q = torch.randn(2, heads, num_positions, 12, requires_grad=True)
    k = torch.randn(2, groups, num_positions, 12, requires_grad=True)
    v = torch.randn(2, groups, num_positions, 10, requires_grad=True)
    return q, k, v


@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("num_positions", [1, 63, 64, 65, 150])
def test_output_and_gradients_equal_the_library(num_positions: int, groups: int) -> None:
    q, k, v = _inputs(num_positions, groups=groups)
    expected = _library(q, k, v)
    upstream = torch.randn_like(expected)

    got = _blockwise(q, k, v)

    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    grads = torch.autograd.grad(got, (q, k, v), upstream)
    wanted = torch.autograd.grad(expected, (q, k, v), upstream)
    for grad, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, want, rtol=1e-4, atol=1e-5)


def test_logits_far_above_the_range_of_exp_stay_finite() -> None:
    q, k, v = _inputs(70)
    y = causal_attention(q * 1e3, k, v)
    grads = torch.autograd.grad(y.sum(), (q, k, v))
    assert y.isfinite().all()
    assert all(grad.isfinite().all() for grad in grads)


def test_largest_logit_is_over_earlier_positions_only() -> None:
    q, k, _ = _inputs(9, groups=2)
    logits = q @ k.repeat_interleave(2, dim=1).mT
    expected = torch.full((2, 4), float("-inf"))
    for row in range(9):
        for column in range(row + 1):
            expected = torch.maximum(expected, logits[:, :, row, column])
    torch.testing.assert_close(max_causal_logits(q, k), expected)
