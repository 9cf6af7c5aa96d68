import pytest
import torch
from torch import Tensor

from simulator.model.latent_heads import HeadLayout, latent_heads
from simulator.model.rope import RotaryTables, rotary_tables
from simulator.specs.model import RopeSpec

NUM_POSITIONS = 6


def _complex_turns(tables: RotaryTables) -> Tensor:
    return torch.complex(tables.cos.double(), tables.sin.double())


def _reference(
    queries: Tensor, keys_values: Tensor, shared_key: Tensor, tables: RotaryTables, to: HeadLayout
) -> tuple[Tensor, Tensor, Tensor]:
    """Compose the same from cuts, complex products and concatenations."""

    def heads(x: Tensor) -> Tensor:
        return x.reshape(-1, NUM_POSITIONS, to.heads, x.shape[-1] // to.heads).transpose(1, 2)

    def rotated(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(pairs * _complex_turns(tables)).flatten(-2)

    q, kv = heads(queries), heads(keys_values)
    shared = shared_key.reshape(-1, 1, NUM_POSITIONS, to.rope)
    key = rotated(shared).expand(-1, to.heads, -1, -1)
    q = torch.cat([q[..., : to.nope], rotated(q[..., to.nope :])], -1) * to.scale
    return q, torch.cat([kv[..., : to.nope], key], -1), kv[..., to.nope :]


@pytest.mark.parametrize("stack", [(), (2,)])
@pytest.mark.parametrize(("nope", "rope", "value"), [(4, 2, 6), (3, 4, 5)])
def test_heads_and_gradients_equal_the_composition(
    nope: int, rope: int, value: int, stack: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    to = HeadLayout(heads=3, nope=nope, rope=rope, value=value, scale=0.3)
    tokens = 2 * NUM_POSITIONS
    sizes = (3 * (nope + rope), 3 * (nope + value), rope)
    inputs = [
        torch.randn(*stack, tokens, size, dtype=torch.float64, requires_grad=True) for size in sizes
    ]
    tables = rotary_tables(RopeSpec(theta=100.0), rope, NUM_POSITIONS, torch.device("cpu"))
    got = latent_heads(inputs[0], inputs[1], inputs[2], tables, to)
    wanted = _reference(inputs[0], inputs[1], inputs[2], tables, to)
    upstream = [torch.randn_like(x) for x in wanted]
    grads = torch.autograd.grad(got, inputs, upstream)
    wanted_grads = torch.autograd.grad(wanted, inputs, upstream)
    for grad, want in zip(grads, wanted_grads, strict=True):
        torch.testing.assert_close(grad, want)
    logits, wanted_logits = got[0] @ got[1].mT, wanted[0] @ wanted[1].mT
    torch.testing.assert_close(logits, wanted_logits)
    torch.testing.assert_close(got[2], wanted[2])
