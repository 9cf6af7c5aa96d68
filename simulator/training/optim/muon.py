"""Muon on the flat buffers: momentum, one batch of orthogonalisations a shape, decay, update.

Matrices of one shape, of all layers, experts and runs, go through one chain of batched products, a
matrix with more rows than columns transposed. No matrix sees another one.

References
----------
Newton-Schulz iteration, its coefficients and Nesterov's momentum: K. Jordan, "Muon: an optimizer
for hidden layers in neural networks" (https://kellerjordan.github.io/posts/muon), as implemented by
``torch.optim.Muon``. Decay beside it: arXiv 2502.16982, section 2.2.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from simulator.specs.run import MuonSpec
from simulator.training.optim.layout import MuonGroup

__all__ = ["muon_step", "orthogonalise"]

NUM_ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the odd quintic whose iteration brings singular values close to 1."""
MIN_NORM = 1e-7
"""A smaller matrix is not scaled up to norm 1."""


def muon_step(
    groups: Sequence[MuonGroup],
    *,
    values: Tensor,
    grads: Tensor,
    averages: Tensor,
    rows: Sequence[int],
    lr: Sequence[float],
    specs: Sequence[MuonSpec],
    dtype: torch.dtype,
) -> None:
    """Update the matrices of some runs in place.

    Parameters
    ----------
    values, grads, averages
        Parameters, gradients and Muon's averages of gradients of all runs, shape [K, P].
    rows
        The runs to update.
    lr, specs
        Learning rate and optimiser of each of these.
    dtype
        Of the matrix products.
    """
    part = slice(groups[0].start, groups[-1].stop)
    updates = grads.new_empty(len(rows), part.stop - part.start)
    for update, row, spec in zip(updates, rows, specs, strict=True):
        averages[row, part].lerp_(grads[row, part], 1 - spec.momentum)
        torch.lerp(grads[row, part], averages[row, part], spec.momentum, out=update)
    _orthogonalise_groups(updates, groups, dtype)
    for update, row, rate, spec in zip(updates, rows, lr, specs, strict=True):
        for group in groups:
            kept = 1 - rate * spec.weight_decay * group.decay
            values[row, group.start : group.stop].mul_(kept)
        values[row, part].add_(update, alpha=-rate)


def orthogonalise(stack: Tensor) -> Tensor:
    """Return matrices of about the same singular vectors, and singular values of about 1.

    Parameters
    ----------
    stack
        Shape [N, rows, columns], rows <= columns.
    """
    a, b, c = COEFFICIENTS
    norm = torch.linalg.vector_norm(stack, dim=(-2, -1), keepdim=True)
    stack = stack / norm.clamp(min=MIN_NORM)
    for _ in range(NUM_ITERATIONS):
        gram = torch.bmm(stack, stack.mT)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        stack = torch.baddbmm(stack, polynomial, stack, beta=a)
    return stack


def _orthogonalise_groups(updates: Tensor, groups: Sequence[MuonGroup], dtype: torch.dtype) -> None:
    """Put in place of every matrix its orthogonalised one times its scale."""
    by_shape: dict[tuple[int, int], list[tuple[Tensor, float]]] = defaultdict(list)
    for view, scale in _matrices(updates, groups):
        out, fan_in = view.shape[-3] * view.shape[-2], view.shape[-1]
        by_shape[min(out, fan_in), max(out, fan_in)].append((view, scale))
    for items in by_shape.values():
        stacks = [_stack(view).to(dtype) for view, _ in items]
        found = orthogonalise(torch.cat(stacks))
        parts = torch.split(found, [len(stack) for stack in stacks])
        for (view, scale), part in zip(items, parts, strict=True):
            is_transposed = view.shape[-3] * view.shape[-2] > view.shape[-1]
            view.copy_((part.mT if is_transposed else part).reshape(view.shape))
            view.mul_(scale)


def _matrices(updates: Tensor, groups: Sequence[MuonGroup]) -> Iterator[tuple[Tensor, float]]:
    """Yield a view of each matrix of a group's tensors, in all runs, and its scale.

    Shape [runs, tensors, stack, blocks, rows of a block, in].
    """
    first = groups[0].start
    for group in groups:
        rows, fan_in = group.shape[-2:]
        rule = group.rule
        tensors = updates[:, group.start - first : group.stop - first]
        tensors = tensors.view(len(updates), group.num_tensors, -1)[..., : group.num_elements]
        block = (rule.num_blocks, rows // rule.num_blocks, fan_in)
        blocks = tensors.view(len(updates), group.num_tensors, -1, *block)
        views = torch.split(blocks, [matrix.rows for matrix in rule.matrices], dim=-2)
        for view, matrix in zip(views, rule.matrices, strict=True):
            yield view, matrix.scale


def _stack(view: Tensor) -> Tensor:
    """Return the matrices of a view as [N, rows, columns] with rows <= columns."""
    stack = view.flatten(-3, -2).flatten(0, 2)
    return stack.mT if stack.shape[-2] > stack.shape[-1] else stack
