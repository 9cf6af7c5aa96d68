"""What lowers confidence in a proxy, as flags."""

from collections.abc import Iterator, Mapping

from simulator.counting.memory import state_bytes
from simulator.counting.params import count_params
from simulator.proxy.dimensions import DimensionChange
from simulator.proxy.shape import FLOORS, width_dimensions
from simulator.records.summary import Flag
from simulator.specs.model import GQASpec, ModelSpec

__all__ = ["EMBEDDING_SHARE", "LARGE_PROXY_PARAMS", "WIDEST_TESTED_FACTOR", "proxy_flags"]

EMBEDDING_SHARE = 0.5
"""Share of a token's parameters in embedding and head above which a proxy is flagged.

Ours: matrices shrink with the square of the ratio and tables with the ratio, so past one half the
proxy's cost and noise are mostly the tables'.
"""

LARGE_PROXY_PARAMS = 1_000_000_000
"""Total parameters above which a proxy is flagged as too big to be trained many times. Ours."""

WIDEST_TESTED_FACTOR = 16
"""Ratio of fan-ins up to which the rule is recommended (arXiv 2407.05872, 2509.01322)."""

_GIB = 2**30


def proxy_flags(
    proxy: ModelSpec,
    *,
    width_factor: int,
    passed_over: Mapping[int, tuple[str, ...]],
    dimensions: tuple[DimensionChange, ...],
) -> Iterator[Flag]:
    """Yield the flags of a proxy.

    Parameters
    ----------
    passed_over
        Ratios that were asked for or tried before ``width_factor``, with what forbade each.
    """
    yield from _ratio_flags(width_factor, passed_over)
    yield from _floor_flags(proxy)
    yield from _cut_flags(dimensions)
    yield from _size_flags(proxy, width_factor)


def _ratio_flags(factor: int, passed_over: Mapping[int, tuple[str, ...]]) -> Iterator[Flag]:
    if passed_over:
        reasons = "; ".join(f"{ratio}: {', '.join(why)}" for ratio, why in passed_over.items())
        yield Flag(
            severity="red" if factor == 1 else "amber",
            code="width_factor_fallback",
            message=f"Width ratio {factor} is used, the next that is possible. Not {reasons}.",
        )
    if factor > WIDEST_TESTED_FACTOR:
        yield Flag(
            severity="amber",
            code="width_extrapolation",
            message=f"Width ratio {factor} is past {WIDEST_TESTED_FACTOR}, where the rule of "
            "learning rates has been tested.",
        )


def _floor_flags(proxy: ModelSpec) -> Iterator[Flag]:
    for name, value in width_dimensions(proxy, "scale"):
        warn = FLOORS.get(name, (1, 1))[0]
        if value < warn:
            yield Flag(
                severity="amber",
                code=f"narrow_{name}",
                message=f"{name} {value} is under {warn}: the best learning rate commonly drifts "
                "with width there. Take a smaller ratio, or correct it by a ladder of widths.",
            )


def _cut_flags(dimensions: tuple[DimensionChange, ...]) -> Iterator[Flag]:
    for change in dimensions:
        if change.name == "indexer_heads" and change.treatment == "cut":
            yield Flag(
                severity="amber",
                code="dense_attention",
                message="The target attends sparsely through an indexer; the proxy attends to "
                "all positions. Both agree while a sequence is no longer than the indexer keeps.",
            )
    cuts = [change for change in dimensions if change.treatment == "cut"]
    asked = [change for change in cuts if change.name != "indexer_heads"]
    if asked:
        listed = ", ".join(f"{c.name} {c.target:g} -> {c.proxy:g}" for c in asked)
        yield Flag(
            severity="amber",
            code="exploratory",
            message=f"Exploratory: beyond width, {listed} is cut. No rule carries "
            "hyperparameters over that axis; confirm on a run without the cut.",
        )


def _size_flags(proxy: ModelSpec, factor: int) -> Iterator[Flag]:
    count = count_params(proxy)
    share = (count.embedding + count.head) / count.active
    if share > EMBEDDING_SHARE:
        yield Flag(
            severity="amber",
            code="embedding_share",
            message=f"Embedding and head hold {share:.0%} of the parameters a token uses "
            f"(flagged above {EMBEDDING_SHARE:.0%}); compare by parameters without them.",
        )
    if count.total > LARGE_PROXY_PARAMS:
        yield Flag(
            severity="amber",
            code="large_proxy",
            message=f"1/{factor} width still leaves {count.total / 1e9:.1f} B parameters "
            f"({count.active_non_embedding / 1e9:.2f} B active without tables) and "
            f"{state_bytes(proxy) / _GIB:.0f} GiB of training state under AdamW: width does not "
            "divide the number of experts or layers. Cut those, each an axis of transfer more, or "
            "bring the memory.",
        )
    match proxy.attention:
        case GQASpec(n_kv_heads=1, n_heads=heads) if heads > 1 and factor > 1:
            yield Flag(
                severity="info",
                code="single_kv_head",
                message=f"The proxy's {heads} query heads share one key-value head.",
            )
        case _:
            return
