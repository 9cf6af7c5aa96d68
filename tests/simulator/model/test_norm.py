import pytest
import torch

from simulator.model.norm import _few_passes, _library, rms_norm

EPS = 1e-6


@pytest.mark.parametrize("stack", [(), (3,)])
def test_output_and_gradients_equal_the_formula(stack: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(*stack, 7, 24, requires_grad=True)
    gain = torch.randn(*stack, 24, requires_grad=True)
    upstream = torch.randn(*stack, 7, 24)
    x64, gain64 = (t.detach().double().requires_grad_() for t in (x, gain))
    expected = x64 / (x64.square().mean(-1, keepdim=True) + EPS).sqrt() * gain64.unsqueeze(-2)

    got = rms_norm(x, gain, EPS)

    torch.testing.assert_close(got, expected.float(), rtol=1e-5, atol=1e-6)
    grads = torch.autograd.grad(got, (x, gain), upstream)
    wanted = torch.autograd.grad(expected, (x64, gain64), upstream.double())
    for grad, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(grad, want.float(), rtol=1e-5, atol=1e-5)


def test_every_device_computes_the_same() -> None:
    x, gain = torch.randn(2, 5, 16), torch.randn(2, 16)
    torch.testing.assert_close(_library(x, gain, EPS), _few_passes(x, gain, EPS))


def test_an_input_of_zeros_has_finite_gradients() -> None:
    x = torch.zeros(2, 8, requires_grad=True)
    rms_norm(x, torch.ones(8), EPS).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_bfloat16_stays_bfloat16_with_statistics_in_float32() -> None:
    x = (torch.randn(4, 64) * 1e3).bfloat16()
    y = rms_norm(x, torch.ones(64), EPS)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float().square().mean(-1), torch.ones(4), rtol=1e-2, atol=0)
