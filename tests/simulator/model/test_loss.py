import pytest
import torch
from torch.nn import functional

from simulator.model.loss import cross_entropy


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_loss_and_gradient_equal_the_library(scale: float) -> None:
    torch.manual_seed(0)
    logits = (torch.randn(9, 17) * scale).requires_grad_()
    targets, upstream = torch.randint(17, (9,)), torch.randn(9)
    expected = functional.cross_entropy(logits, targets, reduction="none")

    got = cross_entropy(logits, targets)

    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    (grad,) = torch.autograd.grad(got, logits, upstream)
    (wanted,) = torch.autograd.grad(expected, logits, upstream)
    torch.testing.assert_close(grad, wanted, rtol=1e-5, atol=1e-6)


def test_a_target_of_probability_zero_has_its_finite_loss() -> None:
    logits = torch.tensor([[0.0, -500.0]])
    assert cross_entropy(logits, torch.tensor([1])).item() == pytest.approx(500.0)


def test_models_share_targets_or_bring_their_own() -> None:
    logits = torch.randn(2, 3, 5)
    shared = torch.tensor([0, 4, 2])
    own = torch.stack([shared, shared.flip(0)])
    rows = [cross_entropy(logits[k], own[k]) for k in range(2)]
    torch.testing.assert_close(cross_entropy(logits, own), torch.stack(rows))
    torch.testing.assert_close(cross_entropy(logits, shared)[0], rows[0])


def test_bfloat16_logits_have_a_float32_loss_and_a_bfloat16_gradient() -> None:
    logits = torch.randn(3, 5, dtype=torch.bfloat16, requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0, 1, 2]))
    loss.sum().backward()
    assert loss.dtype == torch.float32
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
