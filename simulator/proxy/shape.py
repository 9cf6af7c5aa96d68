"""Which dimensions carry the width, what forbids a ratio, and which may be cut on request.

References
----------
Floors and the fixed head dimension: arXiv 2405.15712, practised by 2404.05728, 2407.05872,
2509.01322 and 2608.20061. Experts stay because hyperparameters do not transfer when sparsity
changes: arXiv 2601.20205, 2508.09752.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal, assert_never

from simulator.specs.errors import SpecError
from simulator.specs.model import AttentionSpec, GQASpec, MLASpec, ModelSpec, MoESpec

__all__ = [
    "CUTTABLE",
    "FLOORS",
    "RATIOS",
    "Ranks",
    "apply_cuts",
    "narrow",
    "obstacles",
    "width_dimensions",
    "without_indexer",
]

RATIOS = (8, 4, 2, 1)
"""Ratios tried in turn when the one asked for does not divide or falls under a floor."""

FLOORS: Mapping[str, tuple[int, int]] = {
    "dim": (128, 64),
    "n_heads": (4, 2),
    "q_lora_rank": (32, 16),
    "kv_lora_rank": (16, 8),
    "moe_inter_dim": (32, 16),
    "inter_dim": (128, 64),
}
"""Smallest proxy dimension without a warning, and smallest at all.

Below a width of 128 or 4 heads the optimal learning rate drifted by 0.3 to 0.4 octave per
doubling in this project's own CPU runs; corrections to averages go as 1/sqrt(width).
"""

CUTTABLE: Mapping[str, str] = {
    "n_layers": "depth",
    "n_dense_layers": "depth",
    "n_routed_experts": "expert sparsity",
    "n_activated_experts": "expert sparsity",
    "n_expert_groups": "routing groups",
    "n_limited_groups": "routing groups",
    "vocab_size": "vocabulary",
    "n_mtp_modules": "multi-token prediction",
}
"""Dimensions that may be cut on request, and the axis of transfer each cut adds."""

Ranks = Literal["scale", "hold"]
"""Whether the latent ranks of MLA are divided too, or held."""


def _check_cuts(target: ModelSpec, cuts: Mapping[str, int]) -> None:
    for name, value in cuts.items():
        path = f"proxy.cuts.{name}"
        if name not in CUTTABLE:
            close = difflib.get_close_matches(name, CUTTABLE, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(CUTTABLE)}."
            raise SpecError(path, "is not a dimension that may be cut", value, hint)
        current = _cuttable_value(target, name)
        if current is None:
            raise SpecError(path, "must be left out: the target has no experts", value, "Drop it.")
        lowest = 0 if name in ("n_mtp_modules", "n_dense_layers") else 1
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= current:
            raise SpecError(
                path,
                f"must be a whole number in [{lowest}, {current}]; a cut never enlarges",
                value,
                "Give a smaller value, or drop it.",
            )
    _check_moe_layer_left(target, cuts)


def _check_moe_layer_left(target: ModelSpec, cuts: Mapping[str, int]) -> None:
    if target.moe is None:
        return
    dense = cuts.get("n_dense_layers", target.moe.n_dense_layers)
    layers = cuts.get("n_layers", target.n_layers)
    if layers <= dense < target.n_layers:
        raise SpecError(
            "proxy.cuts.n_layers",
            f"must exceed the {dense} dense layers, so that a layer with experts is left",
            layers,
            f"Use at least {dense + 1}, or cut n_dense_layers too.",
        )


def _cuttable_value(model: ModelSpec, name: str) -> int | None:
    owner = model if name in ("n_layers", "vocab_size", "n_mtp_modules") else model.moe
    return None if owner is None else int(getattr(owner, name))


def apply_cuts(target: ModelSpec, cuts: Mapping[str, int]) -> ModelSpec:
    """Return the target with smaller values of dimensions in ``CUTTABLE``.

    Raises
    ------
    SpecError
        If a cut is unknown, does not make the value smaller, or leaves an impossible model.
    """
    _check_cuts(target, cuts)
    return replace(
        target,
        n_layers=cuts.get("n_layers", target.n_layers),
        vocab_size=cuts.get("vocab_size", target.vocab_size),
        n_mtp_modules=cuts.get("n_mtp_modules", target.n_mtp_modules),
        moe=None if target.moe is None else _cut_moe(target.moe, cuts),
    )


def _cut_moe(moe: MoESpec, cuts: Mapping[str, int]) -> MoESpec:
    return replace(
        moe,
        n_dense_layers=cuts.get("n_dense_layers", moe.n_dense_layers),
        n_routed_experts=cuts.get("n_routed_experts", moe.n_routed_experts),
        n_activated_experts=cuts.get("n_activated_experts", moe.n_activated_experts),
        n_expert_groups=cuts.get("n_expert_groups", moe.n_expert_groups),
        n_limited_groups=cuts.get("n_limited_groups", moe.n_limited_groups),
    )


def without_indexer(model: ModelSpec) -> ModelSpec:
    """Return the model with dense attention."""
    match model.attention:
        case MLASpec() as attention:
            return replace(model, attention=replace(attention, indexer=None))
        case GQASpec():
            return model
        case _ as never:
            assert_never(never)


def width_dimensions(model: ModelSpec, ranks: Ranks) -> Iterator[tuple[str, int]]:
    """Yield what is divided; dimensions no tensor has are left out."""
    yield "dim", model.dim
    if any(not model.is_moe_layer(layer) for layer in range(model.n_layers)):
        yield "inter_dim", model.inter_dim
    yield "n_heads", model.attention.n_heads
    match model.attention:
        case GQASpec() as attention:
            if attention.n_kv_heads > 1:
                yield "n_kv_heads", attention.n_kv_heads
        case MLASpec() as attention:
            if ranks == "scale" and attention.q_lora_rank:
                yield "q_lora_rank", attention.q_lora_rank
            if ranks == "scale":
                yield "kv_lora_rank", attention.kv_lora_rank
        case _ as never:
            assert_never(never)
    if model.moe is not None:
        yield "moe_inter_dim", model.moe.moe_inter_dim


def obstacles(model: ModelSpec, ratio: int, ranks: Ranks) -> tuple[str, ...]:
    """Return why ``ratio`` is impossible, in phrases; empty where it is possible."""
    found = []
    for name, value in width_dimensions(model, ranks):
        refused = FLOORS.get(name, (1, 1))[1]
        if value % ratio:
            found.append(f"{name} {value} does not divide by {ratio}")
        elif ratio > 1 and value // ratio < refused:
            found.append(f"{name} {value} / {ratio} = {value // ratio}, under the floor {refused}")
    return tuple(found)


def narrow(model: ModelSpec, ratio: int, ranks: Ranks) -> ModelSpec:
    """Return the model with every width-like dimension divided by a ratio that is possible."""
    new = {name: value // ratio for name, value in width_dimensions(model, ranks)}
    moe = model.moe
    if moe is not None:
        moe = replace(moe, moe_inter_dim=new["moe_inter_dim"])
    return replace(
        model,
        dim=new["dim"],
        inter_dim=new.get("inter_dim", model.inter_dim),
        attention=_narrow_attention(model.attention, new),
        moe=moe,
    )


def _narrow_attention(attention: AttentionSpec, new: Mapping[str, int]) -> AttentionSpec:
    match attention:
        case MLASpec():
            return replace(
                attention,
                n_heads=new["n_heads"],
                q_lora_rank=new.get("q_lora_rank", attention.q_lora_rank),
                kv_lora_rank=new.get("kv_lora_rank", attention.kv_lora_rank),
            )
        case GQASpec():
            n_kv_heads = new.get("n_kv_heads", attention.n_kv_heads)
            return replace(attention, n_heads=new["n_heads"], n_kv_heads=n_kv_heads)
        case _ as never:
            assert_never(never)
