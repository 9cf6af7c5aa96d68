"""Muon's rule: which tensors, divided how, and an update that the width does not change."""

from math import isclose, sqrt
from typing import Literal, get_args

import pytest
from hypothesis import given, settings

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.parametrisation import TensorRule, rule_table
from simulator.specs.model import ModelSpec
from simulator.specs.run import MuonScale, ParametrisationSpec
from tests.simulator.model_specs import make_model, model_specs, narrow

TARGET = make_model()
PROXY = narrow(TARGET, 8)
CONVENTIONS: tuple[MuonScale, ...] = get_args(MuonScale)
HIDDEN = [tensor for tensor in list_tensors(TARGET) if tensor.kind == "matrix"]


def rules(
    model: ModelSpec,
    convention: MuonScale | None,
    *,
    kind: Literal["sp_fullalign", "uniform_lr_sp"] = "sp_fullalign",
    anchor: Literal["proxy", "target"] = "proxy",
) -> dict[str, TensorRule]:
    param = ParametrisationSpec(kind=kind, anchor=anchor, proxy=PROXY, target=TARGET)
    return {rule.name: rule for rule in rule_table(model, param, convention)}


def scales(rule: TensorRule) -> list[float]:
    assert rule.muon is not None
    return [matrix.scale for matrix in rule.muon.matrices]


@settings(max_examples=30, deadline=None)
@given(model_specs())
def test_hidden_matrices_alone_are_muon_s_and_cover_their_rows(model: ModelSpec) -> None:
    param = ParametrisationSpec(proxy=model, target=model)
    for rule in rule_table(model, param, "rms_matched"):
        assert (rule.muon is not None) == (rule.kind == "matrix")
        if rule.muon is not None:
            rows = rule.muon.num_blocks * sum(matrix.rows for matrix in rule.muon.matrices)
            assert rows == rule.shape[-2]


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_other_tensor_keeps_adamw_s_rule(convention: MuonScale) -> None:
    adamw, muon = rules(TARGET, None), rules(TARGET, convention)
    others = [name for name, rule in muon.items() if rule.muon is None]
    assert others
    assert all(muon[name] == adamw[name] for name in others)


def test_initial_values_do_not_depend_on_the_optimiser() -> None:
    adamw, muon = rules(TARGET, None), rules(TARGET, "rms_matched")
    assert [rule.init_std for rule in muon.values()] == [rule.init_std for rule in adamw.values()]


@pytest.mark.parametrize(
    ("name", "num_blocks", "rows"),
    [
        ("attn.wq_b.weight", TARGET.attention.n_heads, [16, 8]),
        ("attn.wkv_a.weight", 1, [128, 8]),
        ("attn.wkv_b.weight", TARGET.attention.n_heads, [16, 16]),
        ("attn.wo.weight", 1, [1024]),
        ("ffn.experts.w13", 1, [256, 256]),
        ("ffn.experts.w2", 1, [1024]),
    ],
)
def test_rows_of_one_purpose_are_one_matrix(name: str, num_blocks: int, rows: list[int]) -> None:
    rule = rules(TARGET, "rms_matched")[f"mtp.0.block.{name}"]
    assert rule.muon is not None
    assert rule.muon.num_blocks == num_blocks
    assert [matrix.rows for matrix in rule.muon.matrices] == rows


@pytest.mark.parametrize(("anchor", "model"), [("proxy", PROXY), ("target", TARGET)])
def test_matched_updates_have_adamw_s_size_on_the_anchor(
    anchor: Literal["proxy", "target"], model: ModelSpec
) -> None:
    shapes = {tensor.name: tensor.matrices for tensor in list_tensors(model)}
    for rule in rules(model, "rms_matched", anchor=anchor).values():
        assert rule.lr_multiplier == 1
        if rule.muon is not None:
            matched = [0.2 * sqrt(max(shape)) for shape in shapes[rule.name]]
            assert scales(rule) == pytest.approx(matched)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("tensor", HIDDEN, ids=[tensor.name for tensor in HIDDEN])
def test_spectral_norm_of_the_update_goes_as_the_root_of_out_over_in(
    convention: MuonScale, tensor: TensorInfo
) -> None:
    narrow_shapes = {t.name: t.matrices for t in list_tensors(PROXY)}[tensor.name]
    wide, small = rules(TARGET, convention)[tensor.name], rules(PROXY, convention)[tensor.name]
    for large, little, shape, narrow_shape in zip(
        scales(wide), scales(small), tensor.matrices, narrow_shapes, strict=True
    ):
        wanted = sqrt(shape[0] / shape[1]) / sqrt(narrow_shape[0] / narrow_shape[1])
        assert isclose(large / little, wanted)


def test_spectral_scale_is_the_same_formula_at_every_width() -> None:
    for model in (PROXY, narrow(TARGET, 2), TARGET):
        for tensor in list_tensors(model):
            if tensor.kind == "matrix":
                rule = rules(model, "spectral")[tensor.name]
                for scale, (out, fan_in) in zip(scales(rule), tensor.matrices, strict=True):
                    assert isclose(scale, 0.2 * sqrt(PROXY.dim) * sqrt(out / fan_in))


def test_conventions_agree_on_a_square_matrix_as_wide_as_the_anchor() -> None:
    model = make_model(dim=64, inter_dim=64)
    param = ParametrisationSpec(proxy=model, target=model)
    found = set()
    for convention in CONVENTIONS:
        table = {rule.name: rule for rule in rule_table(model, param, convention)}
        found.add(scales(table["layers.0.ffn.w2.weight"])[0])
    assert found == {0.2 * 8}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_rate_times_decay_is_the_same_for_every_matrix(convention: MuonScale) -> None:
    for rule in rules(TARGET, convention).values():
        if rule.is_decayed:
            assert isclose(rule.lr_multiplier * rule.decay_multiplier, 1.0)


def test_rate_of_matrices_falls_as_the_root_of_the_width() -> None:
    found = {
        rule.lr_multiplier
        for rule in rules(TARGET, "rms_matched").values()
        if rule.muon is not None
    }
    assert found == {sqrt(1 / 8)}


def test_control_keeps_the_convention_s_own_scale_at_every_width() -> None:
    for name, rule in rules(TARGET, "rms_matched", kind="uniform_lr_sp").items():
        if rule.muon is not None:
            shapes = {tensor.name: tensor.matrices for tensor in HIDDEN}[name]
            assert scales(rule) == pytest.approx([0.2 * sqrt(max(shape)) for shape in shapes])
            assert rule.source.startswith("control")


def test_rule_says_that_it_is_less_certain() -> None:
    found = rules(TARGET, "rms_matched")
    marked = {name for name, rule in found.items() if rule.source.startswith("less certain")}
    assert marked == {name for name, rule in found.items() if rule.muon is not None}
