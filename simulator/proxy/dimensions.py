"""The table of dimensions, target beside proxy, with the reason for each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from simulator.proxy.shape import CUTTABLE, Ranks, width_dimensions
from simulator.specs.model import GQASpec, MLASpec, ModelSpec, MoESpec

__all__ = ["DimensionChange", "compare", "transfer_axes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionChange:
    """One dimension of the target beside the proxy's."""

    name: str
    target: float
    proxy: float
    treatment: Literal["scaled", "kept", "cut"]
    reason: str


def transfer_axes(dimensions: tuple[DimensionChange, ...], factor: int) -> tuple[str, ...]:
    """Return the axes along which results have to be carried over."""
    axes = ["width"] if factor > 1 else []
    for change in dimensions:
        if change.treatment == "cut":
            axes.append(CUTTABLE.get(change.name, "sparse attention"))
    return tuple(dict.fromkeys(axes))


_WIDTH = "width-like: divided by the ratio"
_HEAD_DIM = "head dimensions, hence softmax scale and rotary frequencies, stay the target's"
_SPARSITY = "experts, top-k and groups stay: hyperparameters do not transfer across sparsity"
_ROUTING = "routing and balance act on scores, which do not depend on width"
_DEPTH = "depth is another axis of transfer"
_REASONS: Mapping[str, str] = {
    "n_heads": "heads are divided and keep their dimension: the many-heads limit is well behaved",
    "q_lora_rank": "divided with the width, so that every matrix has the same ratio",
    "kv_lora_rank": "divided with the width, so that every matrix has the same ratio",
    "moe_inter_dim": "divided with the width: granularity stays the target's",
    "shared_width": "divided with the width: the balance of shared and routed stays",
    "qk_nope_head_dim": _HEAD_DIM,
    "qk_rope_head_dim": _HEAD_DIM,
    "v_head_dim": _HEAD_DIM,
    "head_dim": _HEAD_DIM,
    "n_layers": _DEPTH,
    "n_dense_layers": _DEPTH,
    "n_routed_experts": _SPARSITY,
    "n_activated_experts": _SPARSITY,
    "n_shared_experts": _SPARSITY,
    "n_expert_groups": _SPARSITY,
    "n_limited_groups": _SPARSITY,
    "route_scale": _ROUTING,
    "aux_loss_alpha": _ROUTING,
    "vocab_size": "the same tokens are predicted; embedding and head shrink by the ratio only once",
    "n_mtp_modules": "trained with the target's own auxiliary task",
    "rope_theta": "positions are encoded as in the target",
    "max_seq_len": "sequence length is no width",
}
_HELD = "held on request: what reads the latent keeps its fan-in and its multiplier is 1"
_FULL_RANK = "full-rank query: there is no latent to divide"


def compare(
    target: ModelSpec, proxy: ModelSpec, factor: int, ranks: Ranks
) -> Iterator[DimensionChange]:
    """Yield every dimension of the target beside the proxy's, in the order people read them."""
    before, after = dict(_values(target)), dict(_values(proxy))
    width_like = {name for name, _ in width_dimensions(target, "scale")} | {"shared_width"}
    for name, old in before.items():
        new = after.get(name, 0)
        is_held = ranks == "hold" and name.endswith("_lora_rank")
        if name in width_like and (new != old or is_held or factor == 1):
            change = _width_change(name, old, new, factor=factor, is_held=is_held)
            if name == "n_kv_heads" and factor > 1:
                change = replace(change, reason=_sharing(before["n_heads"] / old))
            yield change
        elif new != old:
            axis = CUTTABLE.get(name, "sparse attention")
            reason = f"cut: adds {axis} as an axis of transfer, outside the supported regime"
            yield DimensionChange(name=name, target=old, proxy=new, treatment="cut", reason=reason)
        else:
            yield DimensionChange(
                name=name, target=old, proxy=new, treatment="kept", reason=_kept_reason(name, old)
            )


def _width_change(
    name: str, old: float, new: float, *, factor: int, is_held: bool
) -> DimensionChange:
    reason = _REASONS.get(name, _WIDTH)
    if is_held:
        reason = _HELD
    elif factor == 1:
        reason = "the ratio is 1"
    return DimensionChange(
        name=name,
        target=old,
        proxy=new,
        treatment="kept" if new == old else "scaled",
        reason=reason,
    )


def _sharing(num_query_heads: float) -> str:
    if num_query_heads == 1:
        return "multi-head attention: divided as n_heads is"
    return f"divided as n_heads is: {num_query_heads:g} query heads share one, as in the target"


def _kept_reason(name: str, value: float) -> str:
    if name == "q_lora_rank" and not value:
        return _FULL_RANK
    if name == "n_mtp_modules" and not value:
        return "the target predicts one token at a time"
    if name == "n_kv_heads":
        return "a single key-value head cannot be divided; fewer query heads share it"
    if name == "inter_dim":
        return "no layer has a dense feed-forward"
    return _REASONS[name]


def _values(model: ModelSpec) -> Iterator[tuple[str, float]]:
    """Yield every dimension worth a line, in the order people read them."""
    yield "dim", model.dim
    match model.attention:
        case MLASpec() as mla:
            yield from _fields(mla, "n_heads", "q_lora_rank", "kv_lora_rank")
            yield from _fields(mla, "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
            if mla.indexer is not None:
                yield "indexer_heads", mla.indexer.n_heads
        case GQASpec() as gqa:
            yield from _fields(gqa, "n_heads", "n_kv_heads", "head_dim")
        case _ as never:
            assert_never(never)
    yield "inter_dim", model.inter_dim
    yield "n_layers", model.n_layers
    if model.moe is not None:
        yield from _moe_values(model.moe)
    yield from _fields(model, "n_mtp_modules", "vocab_size", "max_seq_len")
    yield "rope_theta", model.rope.theta


def _moe_values(moe: MoESpec) -> Iterator[tuple[str, float]]:
    yield from _fields(moe, "n_dense_layers", "moe_inter_dim")
    yield "shared_width", moe.n_shared_experts * moe.moe_inter_dim
    yield from _fields(moe, "n_routed_experts", "n_activated_experts", "n_shared_experts")
    yield from _fields(moe, "n_expert_groups", "n_limited_groups", "route_scale", "aux_loss_alpha")


def _fields(owner: object, *names: str) -> Iterator[tuple[str, float]]:
    for name in names:
        yield name, getattr(owner, name)
