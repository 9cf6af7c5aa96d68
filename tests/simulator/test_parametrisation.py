"""Every tensor scales by its own fan-in, from either anchor, at any width and depth."""

from dataclasses import replace
from math import isclose, sqrt
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.parametrisation import FanIns, TensorRule, logit_factor, rule_table, tensor_rule
from simulator.specs.errors import SpecError
from simulator.specs.model import GQASpec, ModelSpec
from simulator.specs.run import ParametrisationSpec
from tests.simulator.model_specs import make_gqa, make_model, model_specs, narrow

Kind = Literal["sp_fullalign", "mup", "uniform_lr_sp"]
TARGET = make_model()
PROXY = narrow(TARGET, 8)
MATRIX_LIKE = ("matrix", "router", "head")


def rules(
    model: ModelSpec,
    *,
    kind: Kind = "sp_fullalign",
    anchor: Literal["proxy", "target"] = "proxy",
    proxy: ModelSpec = PROXY,
    target: ModelSpec = TARGET,
) -> dict[str, TensorRule]:
    param = ParametrisationSpec(kind=kind, anchor=anchor, proxy=proxy, target=target)
    return {rule.name: rule for rule in rule_table(model, param)}


@settings(max_examples=40, deadline=None)
@given(model_specs())
def test_rules_are_those_of_the_listed_tensors_in_order(model: ModelSpec) -> None:
    param = ParametrisationSpec(proxy=narrow(model, 8), target=model)

    table = rule_table(model, param)

    listed = [(t.name, t.shape, t.kind, t.part, t.fan_in) for t in list_tensors(model)]
    assert [(r.name, r.shape, r.kind, r.part, r.fan_in) for r in table] == listed


@pytest.mark.parametrize("kind", ["sp_fullalign", "mup", "uniform_lr_sp"])
@pytest.mark.parametrize(("anchor", "model"), [("proxy", PROXY), ("target", TARGET)])
def test_multipliers_are_one_on_the_anchor(
    kind: Kind, anchor: Literal["proxy", "target"], model: ModelSpec
) -> None:
    for rule in rules(model, kind=kind, anchor=anchor).values():
        assert rule.lr_multiplier == 1
        assert rule.decay_multiplier == (1 if rule.is_decayed else 0)


def test_the_target_starts_as_published_with_every_full_alignment_rule() -> None:
    for rule in rules(TARGET).values():
        drawn = rule.kind in (*MATRIX_LIKE, "embedding")
        assert rule.init_std == (TARGET.init_std if drawn else 0)


@settings(max_examples=40, deadline=None)
@given(model_specs(), st.sampled_from(["proxy", "target"]), st.sampled_from([1, 2, 4, 8]))
def test_lr_times_decay_and_the_forward_variance_do_not_depend_on_width(
    target: ModelSpec, anchor: Literal["proxy", "target"], factor: int
) -> None:
    param = ParametrisationSpec(anchor=anchor, proxy=narrow(target, 8), target=target)

    wide = {rule.name: rule for rule in rule_table(target, param)}

    for rule in rule_table(narrow(target, factor), param):
        other = wide[rule.name]
        product = rule.lr_multiplier * rule.decay_multiplier
        assert isclose(product, 1.0 if rule.is_decayed else 0.0)
        if rule.kind in MATRIX_LIKE:
            variance, expected = rule.init_std**2 * rule.fan_in, other.init_std**2 * other.fan_in
            assert isclose(variance, expected)
            assert isclose(rule.lr_multiplier * rule.fan_in, other.lr_multiplier * other.fan_in)
        else:
            assert (rule.init_std, rule.lr_multiplier) == (other.init_std, other.lr_multiplier)


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("layers.1.attn.wq_a.weight", 8),
        ("layers.1.attn.wq_b.weight", 8),
        ("layers.1.attn.wkv_b.weight", 8),
        ("layers.1.attn.wo.weight", 8),
        ("layers.0.ffn.w2.weight", 8),
        ("layers.1.ffn.experts.w2", 8),
        ("layers.1.ffn.gate.weight", 8),
        ("mtp.0.proj.weight", 8),
        ("head.weight", 8),
        ("embed.weight", 1),
        ("layers.1.attn.q_norm.weight", 1),
    ],
)
def test_target_learning_rate_is_divided_by_the_tensor_s_own_ratio(name: str, ratio: int) -> None:
    assert rules(TARGET)[name].lr_multiplier == 1 / ratio


def test_held_ranks_leave_the_up_projections_alone() -> None:
    held = replace(PROXY, attention=replace(TARGET.attention, n_heads=4))

    table = rules(TARGET, proxy=held)

    assert table["layers.1.attn.wq_b.weight"].lr_multiplier == 1
    assert table["layers.1.attn.wkv_b.weight"].lr_multiplier == 1
    assert table["layers.1.attn.wq_a.weight"].lr_multiplier == 1 / 8


def test_proxy_matrices_start_wider_and_its_embedding_as_the_target_s() -> None:
    table = rules(PROXY)

    assert table["layers.1.attn.wo.weight"].init_std == pytest.approx(0.006 * sqrt(8))
    assert table["head.weight"].init_std == pytest.approx(0.006 * sqrt(8))
    assert table["embed.weight"].init_std == 0.006


def test_mup_differs_from_full_alignment_in_the_head_s_initial_scale_only() -> None:
    default, mup = rules(PROXY), rules(PROXY, kind="mup")

    differing = {
        name
        for name, rule in mup.items()
        if replace(rule, source="") != replace(default[name], source="")
    }

    assert differing == {"head.weight"}
    assert mup["head.weight"].init_std == pytest.approx(0.006 * 8)


def test_control_has_one_learning_rate_and_decay_at_every_width() -> None:
    for model in (PROXY, narrow(TARGET, 2), TARGET):
        for rule in rules(model, kind="uniform_lr_sp").values():
            assert rule.lr_multiplier == 1
            assert rule.decay_multiplier == (1 if rule.is_decayed else 0)


def test_gains_and_biases_are_never_decayed() -> None:
    target = make_model(attention=make_gqa(n_heads=32, qkv_bias=True, qk_norm=True))

    table = rules(target, proxy=narrow(target, 8), target=target)

    kept = {rule.kind for rule in table.values() if not rule.is_decayed}
    assert kept == {"gain", "bias"}
    assert table["layers.0.attn.wq.bias"].lr_multiplier == 1


def test_a_depth_cut_takes_the_rule_of_its_class() -> None:
    shallow = replace(PROXY, n_layers=2, n_mtp_modules=0)

    table = rules(TARGET, proxy=shallow)

    assert table["layers.2.ffn.experts.w13"].lr_multiplier == 1 / 8
    assert table["mtp.0.proj.weight"].lr_multiplier == 1 / 8


def test_a_tensor_without_counterpart_is_an_error() -> None:
    dense = replace(PROXY, moe=None)

    with pytest.raises(SpecError, match=r"parametrisation\.proxy .* layers\.1\.ffn\.gate\.weight"):
        rules(TARGET, proxy=dense)


def test_another_attention_has_no_counterpart() -> None:
    other = replace(TARGET, attention=GQASpec(n_heads=8, n_kv_heads=8, head_dim=128))

    with pytest.raises(SpecError, match=r"parametrisation\.target"):
        rules(PROXY, target=other)


def test_a_kind_no_rule_matches_is_an_error() -> None:
    tensor = TensorInfo(name="layers.0.conv", shape=(3,), kind="convolution", part="attention")  # type: ignore[arg-type]

    with pytest.raises(SpecError, match=r"layers\.0\.conv .*'convolution'"):
        tensor_rule(
            tensor,
            ParametrisationSpec(proxy=PROXY, target=TARGET),
            FanIns(proxy=1, target=1),
        )


@pytest.mark.parametrize(
    ("kind", "anchor", "on_proxy", "on_target"),
    [
        ("sp_fullalign", "proxy", 1, 1 / 8),
        ("sp_fullalign", "target", 8, 1),
        ("mup", "proxy", 1, 1 / 8),
        ("uniform_lr_sp", "proxy", 1, 1),
    ],
)
def test_a_tied_head_is_corrected_in_the_forward_pass(
    kind: Kind, anchor: Literal["proxy", "target"], on_proxy: float, on_target: float
) -> None:
    target = replace(TARGET, tie_embeddings=True)
    proxy = narrow(target, 8)
    param = ParametrisationSpec(kind=kind, anchor=anchor, proxy=proxy, target=target)

    assert logit_factor(proxy, param) == on_proxy
    assert logit_factor(target, param) == on_target


def test_an_untied_head_needs_no_logit_factor() -> None:
    assert logit_factor(TARGET, ParametrisationSpec(proxy=PROXY, target=TARGET)) == 1
