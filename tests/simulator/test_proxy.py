"""Proxies: one ratio for every width, nothing rounded, nothing cut unasked, all of it said."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import find, given, settings

from simulator.counting.memory import state_bytes
from simulator.counting.params import count_params
from simulator.proxy import DimensionChange, ProxyPlan, nearest_fitting, shrink
from simulator.proxy.shape import FLOORS, width_dimensions
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, IndexerSpec, MLASpec, ModelSpec
from simulator.targets.reader import read_target
from tests.simulator.model_specs import make_gqa, make_mla, make_model, make_moe, wide_specs

GIB = 2**30
PRESETS = ("deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "kimi-k2", "llama-3.1-8b")


def preset(name: str) -> ModelSpec:
    return read_target(name).trainable_model()


def dimension(plan: ProxyPlan, name: str) -> DimensionChange:
    return next(change for change in plan.dimensions if change.name == name)


def codes(plan: ProxyPlan) -> set[str]:
    return {flag.code for flag in plan.warnings}


# --- the published targets -----------------------------------------------------------------


def test_v3_at_one_eighth_has_the_published_shape() -> None:
    model = shrink(preset("deepseek-v3")).model

    assert isinstance(model.attention, MLASpec)
    assert (model.dim, model.inter_dim, model.attention.n_heads) == (896, 2304, 16)
    assert (model.attention.q_lora_rank, model.attention.kv_lora_rank) == (192, 64)
    assert (model.attention.qk_head_dim, model.attention.v_head_dim) == (192, 128)
    assert model.moe is not None
    assert model.moe.moe_inter_dim == 256
    assert (model.n_layers, model.vocab_size, model.n_mtp_modules) == (61, 129280, 1)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("deepseek-v3", 10.7, 0.57),
        ("deepseek-v2", 3.8, 0.33),
        ("deepseek-v2-lite", 0.3, 0.04),
        ("kimi-k2", 16.3, 0.50),
        ("llama-3.1-8b", 0.2, 0.11),
    ],
)
def test_one_eighth_of_the_width_is_not_one_sixty_fourth_of_the_parameters(
    name: str, total: float, active: float
) -> None:
    plan = shrink(preset(name))
    count = count_params(plan.model)

    assert plan.width_factor == 8
    assert count.total / 1e9 == pytest.approx(total, abs=0.06)
    assert count.active_non_embedding / 1e9 == pytest.approx(active, abs=0.006)


def test_a_large_proxy_says_so_and_what_to_do() -> None:
    plan = shrink(preset("deepseek-v3"))

    message = next(flag.message for flag in plan.warnings if flag.code == "large_proxy")
    assert "10.7 B" in message
    assert "0.57 B active" in message
    assert "Cut" in message


@pytest.mark.parametrize("name", PRESETS)
def test_every_dimension_has_a_reason_and_nothing_is_cut_unasked(name: str) -> None:
    plan = shrink(preset(name))

    assert all(change.reason for change in plan.dimensions)
    assert {change.treatment for change in plan.dimensions} == {"scaled", "kept"}
    assert plan.transfer_axes == ("width",)


def test_llama_keeps_the_queries_that_share_a_key() -> None:
    plan = shrink(preset("llama-3.1-8b"))

    assert plan.model.attention == GQASpec(n_heads=4, n_kv_heads=1, head_dim=128)
    assert dimension(plan, "n_kv_heads").treatment == "scaled"
    assert "4 query heads share one" in dimension(plan, "n_kv_heads").reason


# --- the rule ------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(wide_specs())
def test_width_like_dimensions_share_one_ratio_and_the_rest_stays(target: ModelSpec) -> None:
    plan = shrink(target)

    proxy_widths = dict(width_dimensions(plan.model, "scale"))
    for name, value in width_dimensions(target, "scale"):
        assert proxy_widths.get(name, 1) * plan.width_factor == value
    assert plan.model.n_layers == target.n_layers
    assert plan.model.rope == target.rope
    assert plan.model.init_std == target.init_std
    for change in plan.dimensions:
        assert (change.treatment == "scaled") == (change.target != change.proxy)


@pytest.mark.parametrize("factor", [8, 4, 2, 1])
def test_random_targets_reach_every_ratio(factor: int) -> None:
    found = find(
        wide_specs(),
        lambda target: shrink(target).width_factor == factor,
        settings=settings(max_examples=500, database=None),
        random=Random(0),
    )

    assert shrink(found).width_factor == factor


@settings(max_examples=150, deadline=None)
@given(wide_specs())
def test_the_ratio_is_the_largest_that_divides_and_stays_above_the_floors(
    target: ModelSpec,
) -> None:
    widths = dict(width_dimensions(target, "scale"))

    def is_possible(ratio: int) -> bool:
        return ratio == 1 or all(
            value % ratio == 0 and value // ratio >= FLOORS.get(name, (1, 1))[1]
            for name, value in widths.items()
        )

    assert shrink(target).width_factor == next(r for r in (8, 4, 2, 1) if is_possible(r))


@pytest.mark.parametrize(
    ("changes", "factor", "reason"),
    [
        ({"dim": 1028}, 4, "dim 1028 does not divide by 8"),
        ({"inter_dim": 2050}, 2, "inter_dim 2050 does not divide by 8"),
        ({"attention": make_mla(n_heads=8)}, 4, "n_heads 8 / 8 = 1, under the floor 2"),
        (
            {"attention": make_mla(n_heads=32, kv_lora_rank=32)},
            4,
            "kv_lora_rank 32 / 8 = 4, under the floor 8",
        ),
        (
            {"attention": make_mla(n_heads=32, q_lora_rank=64)},
            4,
            "q_lora_rank 64 / 8 = 8, under the floor 16",
        ),
        (
            {"moe": make_moe(moe_inter_dim=64)},
            4,
            "moe_inter_dim 64 / 8 = 8, under the floor 16",
        ),
        ({"attention": make_gqa(n_heads=32, n_kv_heads=4)}, 4, "n_kv_heads 4 does not divide by 8"),
        ({"dim": 64}, 1, "dim 64 / 2 = 32, under the floor 64"),
    ],
)
def test_an_impossible_ratio_falls_to_the_next_and_says_why(
    changes: dict[str, Any], factor: int, reason: str
) -> None:
    plan = shrink(make_model(**changes))

    assert plan.width_factor == factor
    flag = next(flag for flag in plan.warnings if flag.code == "width_factor_fallback")
    assert reason in flag.message
    assert flag.severity == ("red" if factor == 1 else "amber")


def test_a_possible_ratio_is_not_remarked_on() -> None:
    assert "width_factor_fallback" not in codes(shrink(make_model()))


@pytest.mark.parametrize("factor", [1, 2, 4, 16])
def test_other_ratios_can_be_asked_for(factor: int) -> None:
    wide = make_model(dim=2048, inter_dim=4096, attention=make_mla(n_heads=64))

    assert shrink(wide, width_factor=factor).model.dim == 2048 // factor


def test_a_ratio_below_one_is_refused() -> None:
    with pytest.raises(SpecError, match=r"proxy\.width_factor must be at least 1; got 0"):
        shrink(make_model(), width_factor=0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"dim": 768}, "narrow_dim"),
        ({"attention": make_mla(n_heads=16)}, "narrow_n_heads"),
        ({"attention": make_mla(n_heads=32, kv_lora_rank=64)}, "narrow_kv_lora_rank"),
        ({"attention": make_mla(n_heads=32, q_lora_rank=128)}, "narrow_q_lora_rank"),
        ({"moe": make_moe(moe_inter_dim=128)}, "narrow_moe_inter_dim"),
        ({"inter_dim": 512}, "narrow_inter_dim"),
    ],
)
def test_dimensions_under_a_warning_floor_are_flagged(changes: dict[str, Any], code: str) -> None:
    assert code in codes(shrink(make_model(**changes)))
    assert code not in codes(shrink(make_model()))


def test_a_share_of_tables_above_one_half_is_flagged() -> None:
    assert "embedding_share" in codes(shrink(make_model(vocab_size=50_000)))
    assert "embedding_share" not in codes(shrink(make_model()))


def test_held_ranks_stay_and_say_so() -> None:
    plan = shrink(make_model(), ranks="hold")

    assert isinstance(plan.model.attention, MLASpec)
    assert (plan.model.attention.q_lora_rank, plan.model.attention.kv_lora_rank) == (256, 128)
    assert dimension(plan, "kv_lora_rank").treatment == "kept"
    assert "held on request" in dimension(plan, "kv_lora_rank").reason


def test_a_full_rank_query_has_nothing_to_divide() -> None:
    plan = shrink(make_model(attention=make_mla(n_heads=32, q_lora_rank=0)))

    assert dimension(plan, "q_lora_rank").proxy == 0
    assert "full-rank" in dimension(plan, "q_lora_rank").reason


def test_a_single_key_value_head_stays() -> None:
    plan = shrink(make_model(attention=make_gqa(n_heads=32, n_kv_heads=1)))

    assert plan.model.attention == GQASpec(n_heads=4, n_kv_heads=1, head_dim=16)
    assert "single key-value head" in dimension(plan, "n_kv_heads").reason


def test_an_unused_dense_width_does_not_forbid_a_ratio() -> None:
    plan = shrink(make_model(inter_dim=1001, moe=make_moe(n_dense_layers=0)))

    assert (plan.width_factor, plan.model.inter_dim) == (8, 1001)


def test_shared_experts_scale_with_the_routed_ones() -> None:
    plan = shrink(make_model(moe=make_moe(n_shared_experts=2)))

    change = dimension(plan, "shared_width")
    assert (change.target, change.proxy, change.treatment) == (512, 64, "scaled")


def test_the_proxy_of_a_sparse_target_attends_densely_and_says_so() -> None:
    indexer = IndexerSpec(n_heads=2, head_dim=8, top_k=4)
    plan = shrink(make_model(attention=make_mla(n_heads=32, indexer=indexer)))

    assert isinstance(plan.model.attention, MLASpec)
    assert plan.model.attention.indexer is None
    assert dimension(plan, "indexer_heads").treatment == "cut"
    assert "dense_attention" in codes(plan)
    assert plan.transfer_axes == ("width", "sparse attention")


# --- cuts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuts", "axes"),
    [
        ({"n_layers": 2}, ("depth",)),
        ({"n_routed_experts": 4}, ("expert sparsity",)),
        ({"n_activated_experts": 1}, ("expert sparsity",)),
        ({"vocab_size": 100}, ("vocabulary",)),
        ({"n_mtp_modules": 0}, ("multi-token prediction",)),
        ({"n_layers": 2, "n_routed_experts": 4}, ("depth", "expert sparsity")),
    ],
)
def test_a_cut_is_marked_exploratory_with_the_axis_it_adds(
    cuts: dict[str, int], axes: tuple[str, ...]
) -> None:
    plan = shrink(make_model(), cuts=cuts)

    assert plan.transfer_axes == ("width", *axes)
    assert "exploratory" in codes(plan)
    for name, value in cuts.items():
        change = dimension(plan, name)
        assert (change.treatment, change.proxy) == ("cut", value)


def test_a_cut_to_the_target_s_own_value_is_none() -> None:
    plan = shrink(make_model(), cuts={"n_layers": 3})

    assert plan == shrink(make_model())


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ({"n_layer": 2}, r"proxy\.cuts\.n_layer is not .* Did you mean 'n_layers'"),
        ({"dim": 64}, r"proxy\.cuts\.dim is not a dimension that may be cut"),
        ({"n_layers": 4}, r"proxy\.cuts\.n_layers must be a whole number in \[1, 3\]"),
        ({"n_layers": 0}, r"proxy\.cuts\.n_layers must be a whole number"),
        ({"n_layers": 1}, r"must exceed the 1 dense layers"),
        ({"n_routed_experts": 1}, r"experts within reach"),
    ],
)
def test_impossible_cuts_are_refused(cuts: dict[str, int], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        shrink(make_model(), cuts=cuts)


def test_a_dense_target_has_no_experts_to_cut() -> None:
    with pytest.raises(SpecError, match="the target has no experts"):
        shrink(make_model(moe=None), cuts={"n_routed_experts": 2})


# --- what fits -----------------------------------------------------------------------------


def test_alternatives_fit_and_are_ordered_by_added_axes() -> None:
    room = 139 * GIB

    found = nearest_fitting(preset("deepseek-v3"), memory_bytes=room)

    assert len(found) >= 3
    assert all(option.state_bytes <= room for option in found)
    num_axes = [len(option.added_axes) for option in found]
    assert num_axes == sorted(num_axes)
    assert {axis for option in found for axis in option.added_axes} >= {"depth", "expert sparsity"}


def test_an_alternative_is_what_shrink_makes_of_it() -> None:
    target = preset("deepseek-v3")

    for option in nearest_fitting(target, memory_bytes=40 * GIB):
        plan = shrink(target, width_factor=option.width_factor, cuts=option.cuts)
        assert option.params_total == count_params(plan.model).trained
        assert option.state_bytes == state_bytes(plan.model)
        assert plan.transfer_axes == ("width", *option.added_axes)


def test_the_depth_cut_is_the_deepest_that_fits() -> None:
    target, room = preset("deepseek-v3"), 100 * GIB

    found = nearest_fitting(target, memory_bytes=room)

    cuts = next(option.cuts for option in found if set(option.cuts) == {"n_layers"})
    deeper = shrink(target, cuts={"n_layers": cuts["n_layers"] + 1})
    assert state_bytes(deeper.model) > room


def test_what_fits_as_it_is_needs_no_alternative() -> None:
    found = nearest_fitting(preset("deepseek-v2"), memory_bytes=139 * GIB)

    assert [(option.width_factor, option.cuts) for option in found] == [(8, {})]


def test_layers_and_experts_are_cut_together_when_neither_is_enough() -> None:
    target = replace(make_model(vocab_size=2), n_layers=8, moe=make_moe(n_routed_experts=64))
    smallest = shrink(target, cuts={"n_layers": 2, "n_routed_experts": 2, "n_mtp_modules": 0})
    shallow = shrink(target, cuts={"n_layers": 2})
    few = shrink(target, cuts={"n_routed_experts": 2})
    room = min(state_bytes(shallow.model), state_bytes(few.model)) - 1
    assert state_bytes(smallest.model) < room

    found = nearest_fitting(target, memory_bytes=room)

    assert any({"n_layers", "n_routed_experts"} <= set(option.cuts) for option in found)


def test_nothing_fits_into_nothing() -> None:
    assert nearest_fitting(make_model(), memory_bytes=0) == ()
