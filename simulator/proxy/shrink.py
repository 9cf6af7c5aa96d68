"""From a target to its narrow proxy, with the reason for every dimension.

Width-like dimensions are divided by one ratio and nothing else changes: head dimensions, experts,
top-k, groups, depth and vocabulary stay as they are, because changing them is a different axis of
transfer. Nothing is rounded. Where the ratio does not divide, or a floor refuses it, the next
smaller ratio is taken and said.

References
----------
Shape rule and floors: the fixed-head-dimension limit of arXiv 2405.15712, practised by 2404.05728,
2407.05872, 2509.01322 (a 560 B MoE at ratio 8) and 2608.20061 (which freezes depth). Experts:
2601.20205 and 2508.09752 find that hyperparameters do not transfer when sparsity changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.proxy.dimensions import DimensionChange, compare, transfer_axes
from simulator.proxy.flags import proxy_flags
from simulator.proxy.shape import RATIOS, Ranks, apply_cuts, narrow, obstacles, without_indexer
from simulator.records.summary import Flag
from simulator.specs.errors import SpecError
from simulator.specs.model import ModelSpec

__all__ = ["ProxyPlan", "shrink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyPlan:
    """A proxy and how it came about."""

    model: ModelSpec
    width_factor: int
    """Ratio of target width to proxy width."""
    dimensions: tuple[DimensionChange, ...]
    warnings: tuple[Flag, ...]
    transfer_axes: tuple[str, ...]
    """Axes along which results have to be carried over; ``width`` alone is the supported case."""


def shrink(
    target: ModelSpec,
    *,
    width_factor: int = 8,
    ranks: Ranks = "scale",
    cuts: Mapping[str, int] | None = None,
) -> ProxyPlan:
    """Return the proxy of ``target`` at ``1 / width_factor`` of its width.

    Parameters
    ----------
    width_factor
        Ratio asked for, >= 1; where it is not possible the next of 8, 4, 2, 1 is taken.
    ranks
        Whether the latent ranks of MLA are divided too, or held.
    cuts
        New, smaller values of dimensions in ``CUTTABLE``; each adds an axis of transfer.

    Raises
    ------
    SpecError
        If the ratio is not positive, or a cut is unknown, not smaller, or impossible.
    """
    if width_factor < 1:
        raise SpecError("proxy.width_factor", "must be at least 1", width_factor, "Use 8.")
    trained = without_indexer(apply_cuts(target, cuts or {}))
    ratios = (width_factor, *(ratio for ratio in RATIOS if ratio < width_factor))
    forbidden = {ratio: obstacles(trained, ratio, ranks) for ratio in ratios}
    factor = next(ratio for ratio in ratios if not forbidden[ratio])
    model = narrow(trained, factor, ranks)
    dimensions = tuple(compare(target, model, factor, ranks))
    flags = proxy_flags(
        model,
        width_factor=factor,
        passed_over={ratio: why for ratio, why in forbidden.items() if ratio > factor},
        dimensions=dimensions,
    )
    return ProxyPlan(
        model=model,
        width_factor=factor,
        dimensions=dimensions,
        warnings=tuple(flags),
        transfer_axes=transfer_axes(dimensions, factor),
    )
