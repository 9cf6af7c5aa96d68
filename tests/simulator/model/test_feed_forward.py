import torch
from torch.nn import functional

from simulator.model.feed_forward import FeedForward, swiglu


def test_output_and_gradient_equal_the_formula() -> None:
    torch.manual_seed(0)
    gate_up = torch.randn(2, 5, 12, requires_grad=True)
    upstream = torch.randn(2, 5, 6)
    expected = functional.silu(gate_up[..., :6]) * gate_up[..., 6:]

    got = swiglu(gate_up)

    torch.testing.assert_close(got, expected)
    (grad,) = torch.autograd.grad(got, gate_up, upstream)
    (wanted,) = torch.autograd.grad(expected, gate_up, upstream)
    torch.testing.assert_close(grad, wanted)


def test_gate_rows_come_first() -> None:
    layer = FeedForward(4, 3)
    with torch.no_grad():
        layer.w13.weight[3:] = 1.0  # the up projection alone
        layer.w2.weight.fill_(1.0)
    assert not layer(torch.ones(1, 4)).any()  # silu of a closed gate is zero
