"""The routed experts of all models: every token through its own experts' matrices.

Shapes: M tokens of all models, D width of the residual stream, E routed experts of all models, A
activated experts of a token, I hidden width of one expert, S = M * A slots (one token at one of its
experts), L lines (the slots in the order in which they are multiplied, with padding).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from simulator.model.feed_forward import swiglu_forward, swiglu_gradient

__all__ = ["Slots", "apply_experts"]

CAPACITY_STEP = 32
"""Lines of one expert are a multiple of it in bfloat16, whose products are slow at first sight of
each new size (8 times, measured on 2 cores with AMX): so few sizes occur."""


@dataclass(frozen=True, slots=True)
class Slots:
    """All slots in the order of their experts."""

    tokens: Tensor
    """Row of the token each slot belongs to, all models' tokens in one column."""
    weights: Tensor
    """Factor of each slot's output."""
    ends: Tensor
    """Where each expert's slots end, int32, all models' experts in one column."""
    load: Tensor
    """Slots of each expert, ``[*K, E]``, int64."""


def apply_experts(
    x_ND: Tensor, slots: Slots, base_ND: Tensor, w13_EID: Tensor, w2_EDI: Tensor
) -> Tensor:
    """Return ``base`` plus each token's weighted experts, ``[*K, N, D]``.

    Parameters
    ----------
    x_ND, base_ND
        Activations, and what the experts' outputs are added to, ``[*K, N, D]``.
    slots
        Which token goes where.
    w13_EID
        Gate and up projections, the gate's rows first, ``[*K, E, 2 * I, D]``. The products run in
        their type.
    w2_EDI
        Down projections, ``[*K, E, D, I]``.
    """
    dtype = _compute_dtype(w13_EID)
    w13_EID, w2_EDI = (w.flatten(0, -3).to(dtype) for w in (w13_EID, w2_EDI))
    operands = (x_ND.flatten(0, -2).to(dtype), slots.weights.to(dtype), slots.tokens, slots.ends)
    y_MD: Tensor
    if torch.compiler.is_compiling():
        y_MD = _opaque(*operands, w13_EID, w2_EDI)[0]
    else:
        y_MD = _Experts.apply(*operands, w13_EID, w2_EDI)  # type: ignore[no-untyped-call]
    return base_ND + y_MD.view(base_ND.shape)


def _compute_dtype(weight: Tensor) -> torch.dtype:
    """Return the type matrix products run in: autocast does not know these."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the slots lie among the lines, and how lines are multiplied."""

    tokens: Tensor
    """Token of each line, ``[L]``; that of padding is any."""
    weights: Tensor
    """Factor of each line, ``[L]``; that of padding is zero."""
    lines: Tensor | None
    """Line of each slot, ``[S]``; None where lines are slots."""
    linear: Callable[[Tensor, Tensor], Tensor]
    """Lines ``[L, D]`` times each expert's ``[E, D, O]``, ``[L, O]``."""
    weight_gradient: Callable[[Tensor, Tensor], Tensor]
    """Lines ``[L, O]`` and ``[L, D]`` to each expert's sum of outer products, ``[E, O, D]``."""


def _lay_out(tokens_S: Tensor, weights_S: Tensor, ends_E: Tensor) -> _Layout:
    return (_padded if _is_padded(weights_S) else _grouped)(tokens_S, weights_S, ends_E)


def _is_padded(weights_S: Tensor) -> bool:
    return weights_S.dtype == torch.bfloat16 and weights_S.device.type == "cpu"


def _grouped(tokens_S: Tensor, weights_S: Tensor, ends_E: Tensor) -> _Layout:
    """Lines are slots, and products are of as many rows as an expert has slots."""

    def weight_gradient(grad_LO: Tensor, x_LD: Tensor) -> Tensor:
        if _has_grouped_kernel(grad_LO, x_LD):
            return functional.grouped_mm(grad_LO.mT, x_LD, offs=ends_E)
        parts = zip(_split(grad_LO, ends_E), _split(x_LD, ends_E), strict=True)
        return torch.stack([grad_SO.mT @ x_SD for grad_SO, x_SD in parts])

    def linear(x_LD: Tensor, weight_EDO: Tensor) -> Tensor:
        if _has_grouped_kernel(x_LD, weight_EDO):
            return functional.grouped_mm(x_LD, weight_EDO, offs=ends_E)
        parts = zip(_split(x_LD, ends_E), weight_EDO.unbind(), strict=True)
        return torch.cat([x_SD @ weight_DO for x_SD, weight_DO in parts])

    return _Layout(tokens_S, weights_S, None, linear, weight_gradient)


def _padded(tokens_S: Tensor, weights_S: Tensor, ends_E: Tensor) -> _Layout:
    """Every expert has as many lines as the fullest one needs, so that no slot is dropped."""
    starts_E = functional.pad(ends_E, (1, -1))
    load_E = ends_E - starts_E
    num_experts, largest = len(ends_E), int(load_E.amax())
    capacity = max(1, -(-largest // CAPACITY_STEP)) * CAPACITY_STEP
    shift_E = torch.arange(0, num_experts * capacity, capacity) - starts_E
    lines_S = torch.arange(len(tokens_S)) + shift_E.repeat_interleave(
        load_E, output_size=len(tokens_S)
    )
    total = num_experts * capacity
    tokens_L = tokens_S.new_zeros(total).index_copy_(0, lines_S, tokens_S)
    weights_L = weights_S.new_zeros(total).index_copy_(0, lines_S, weights_S)

    def by_expert(x_LD: Tensor) -> Tensor:
        return x_LD.view(num_experts, capacity, -1)

    return _Layout(
        tokens_L,
        weights_L,
        lines_S,
        lambda x_LD, weight_EDO: torch.bmm(by_expert(x_LD), weight_EDO).flatten(0, 1),
        lambda grad_LO, x_LD: torch.bmm(by_expert(grad_LO).mT, by_expert(x_LD)),
    )


def _has_grouped_kernel(*operands: Tensor) -> bool:
    """Whether the library's grouped product exists and takes these rows: multiples of 16 bytes.

    It runs every type on the CPU and on CUDA devices, where only bfloat16 has a kernel of its own
    and float32 goes expert by expert.
    """
    row_sizes = (operand.shape[-1] * operand.element_size() for operand in operands)
    return hasattr(functional, "grouped_mm") and all(size % 16 == 0 for size in row_sizes)


def _split(x_LD: Tensor, ends_E: Tensor) -> tuple[Tensor, ...]:
    return x_LD.split_with_sizes([b - a for a, b in pairwise([0, *ends_E.tolist()])])


def _forward(
    x_MD: Tensor, layout: _Layout, w13_EID: Tensor, w2_EDI: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the experts' sum for each token, float32, the lines' inputs and hidden values."""
    x_LD = x_MD.index_select(0, layout.tokens)
    hidden_LI = layout.linear(x_LD, w13_EID.mT)
    weighted_LI = swiglu_forward(hidden_LI).mul_(layout.weights.unsqueeze(-1))
    y_LD = layout.linear(weighted_LI, w2_EDI.mT)
    y_MD = torch.zeros(x_MD.shape, device=x_MD.device)
    return y_MD.index_add_(0, layout.tokens, y_LD.float()), x_LD, hidden_LI


def _backward(
    grad_MD: Tensor,
    x_LD: Tensor,
    hidden_LI: Tensor,
    layout: _Layout,
    w13_EID: Tensor,
    w2_EDI: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of activations, slots' weights and both stacks of matrices."""
    weights_L1 = layout.weights.unsqueeze(-1)
    grad_y_LD = grad_MD.to(x_LD.dtype).index_select(0, layout.tokens)
    activated_LI = swiglu_forward(hidden_LI)
    grad_LI = layout.linear(grad_y_LD, w2_EDI)
    grad_weights_L = (grad_LI * activated_LI).sum(dim=-1)
    if layout.lines is not None:
        grad_weights_L = grad_weights_L.index_select(0, layout.lines)
    grad_w2_EDI = layout.weight_gradient(grad_y_LD, activated_LI.mul_(weights_L1))
    grad_hidden_LI = swiglu_gradient(grad_LI.mul_(weights_L1), hidden_LI)
    grad_w13_EID = layout.weight_gradient(grad_hidden_LI, x_LD)
    grad_x_LD = layout.linear(grad_hidden_LI, w13_EID)
    grad_x_MD = torch.zeros(grad_MD.shape, device=grad_MD.device)
    grad_x_MD.index_add_(0, layout.tokens, grad_x_LD.float())
    return grad_x_MD.to(x_LD.dtype), grad_weights_L, grad_w13_EID, grad_w2_EDI


class _Experts(torch.autograd.Function):
    """Keeps the lines' inputs and hidden values, and the layout, for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x_MD: Tensor,
        weights_S: Tensor,
        tokens_S: Tensor,
        ends_E: Tensor,
        w13_EID: Tensor,
        w2_EDI: Tensor,
    ) -> Tensor:
        ctx.layout = _lay_out(tokens_S, weights_S, ends_E)
        y_MD, x_LD, hidden_LI = _forward(x_MD, ctx.layout, w13_EID, w2_EDI)
        ctx.save_for_backward(x_LD, hidden_LI, w13_EID, w2_EDI)
        return y_MD

    @staticmethod
    def backward(ctx: Any, grad_MD: Tensor) -> tuple[Tensor | None, ...]:
        x_LD, hidden_LI, w13_EID, w2_EDI = ctx.saved_tensors
        grads = _backward(grad_MD, x_LD, hidden_LI, ctx.layout, w13_EID, w2_EDI)
        return grads[0], grads[1], None, None, grads[2], grads[3]


@torch.library.custom_op("eighthscale::experts", mutates_args=())
def _opaque(
    x_MD: Tensor,
    weights_S: Tensor,
    tokens_S: Tensor,
    ends_E: Tensor,
    w13_EID: Tensor,
    w2_EDI: Tensor,
) -> list[Tensor]:
    """Return the experts' sum, and their hidden values where their size is fixed.

    A compiler sees neither the sizes that depend on the routing nor the float32 grouped product,
    which it has no rule for. Hidden values without a fixed size are made again when needed.
    """
    layout = _lay_out(tokens_S, weights_S, ends_E)
    y_MD, _, hidden_LI = _forward(x_MD, layout, w13_EID, w2_EDI)
    return [y_MD, hidden_LI if layout.lines is None else hidden_LI.new_empty(0)]


@_opaque.register_fake
def _(
    x_MD: Tensor,
    weights_S: Tensor,
    tokens_S: Tensor,
    ends_E: Tensor,
    w13_EID: Tensor,
    w2_EDI: Tensor,
) -> list[Tensor]:
    del ends_E, w2_EDI
    hidden = (0,) if _is_padded(weights_S) else (len(tokens_S), w13_EID.shape[1])
    return [x_MD.new_empty(x_MD.shape, dtype=torch.float32), x_MD.new_empty(hidden)]


@torch.library.custom_op("eighthscale::experts_gradient", mutates_args=())
def _opaque_gradient(
    grad_MD: Tensor,
    hidden: Tensor,
    x_MD: Tensor,
    weights_S: Tensor,
    tokens_S: Tensor,
    ends_E: Tensor,
    w13_EID: Tensor,
    w2_EDI: Tensor,
) -> list[Tensor]:
    layout = _lay_out(tokens_S, weights_S, ends_E)
    x_LD = x_MD.index_select(0, layout.tokens)
    hidden_LI = hidden if layout.lines is None else layout.linear(x_LD, w13_EID.mT)
    return list(_backward(grad_MD, x_LD, hidden_LI, layout, w13_EID, w2_EDI))


@_opaque_gradient.register_fake
def _(
    grad_MD: Tensor,
    hidden: Tensor,
    x_MD: Tensor,
    weights_S: Tensor,
    tokens_S: Tensor,
    ends_E: Tensor,
    w13_EID: Tensor,
    w2_EDI: Tensor,
) -> list[Tensor]:
    del grad_MD, hidden, tokens_S, ends_E
    return [x.new_empty(x.shape) for x in (x_MD, weights_S, w13_EID, w2_EDI)]


def _keep_for_backward(ctx: Any, inputs: tuple[Tensor, ...], output: list[Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs)


def _differentiate(ctx: Any, grads: list[Tensor]) -> tuple[Tensor | None, ...]:
    grad_x, grad_weights, grad_w13, grad_w2 = _opaque_gradient(grads[0], *ctx.saved_tensors)
    return grad_x, grad_weights, None, None, grad_w13, grad_w2


_opaque.register_autograd(_differentiate, setup_context=_keep_for_backward)
