"""The list of tensors: names, order, fan-in and size."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from simulator.counting.tensors import TensorInfo, list_tensors
from simulator.specs.model import IndexerSpec, ModelSpec
from tests.simulator.model_specs import make_gqa, make_mla, make_model, make_moe, model_specs


def named(model: ModelSpec) -> dict[str, TensorInfo]:
    return {tensor.name: tensor for tensor in list_tensors(model)}


def test_names_and_order_of_a_v3_shaped_model() -> None:
    names = [tensor.name for tensor in list_tensors(make_model(n_layers=2))]

    attention = ["wq_a.weight", "q_norm.weight", "wq_b.weight", "wkv_a.weight"]
    attention += ["kv_norm.weight", "wkv_b.weight", "wo.weight"]
    experts = ["gate.weight", "experts.w13", "experts.w2"]
    experts += ["shared_experts.w13.weight", "shared_experts.w2.weight"]

    def block(prefix: str, ffn: list[str]) -> list[str]:
        inside = [f"attn.{name}" for name in attention]
        around = ["attn_norm.weight", *inside, "ffn_norm.weight", *(f"ffn.{n}" for n in ffn)]
        return [f"{prefix}.{name}" for name in around]

    assert names == [
        "embed.weight",
        *block("layers.0", ["w13.weight", "w2.weight"]),
        *block("layers.1", experts),
        "norm.weight",
        "head.weight",
        *(f"mtp.0.{name}.weight" for name in ("embed_norm", "hidden_norm", "proj")),
        *block("mtp.0.block", experts),
        "mtp.0.norm.weight",
    ]


def test_shapes_follow_the_published_layout() -> None:
    tensors = named(make_model(attention=make_mla(n_heads=32)))

    assert tensors["layers.0.attn.wq_b.weight"].shape == (32 * 24, 256)
    assert tensors["layers.0.attn.wkv_a.weight"].shape == (128 + 8, 1024)
    assert tensors["layers.0.attn.wkv_b.weight"].shape == (32 * 32, 128)
    assert tensors["layers.0.attn.wo.weight"].shape == (1024, 32 * 16)
    assert tensors["layers.0.ffn.w13.weight"].shape == (2 * 2048, 1024)
    assert tensors["layers.1.ffn.experts.w13"].shape == (8, 2 * 256, 1024)
    assert tensors["layers.1.ffn.experts.w2"].shape == (8, 1024, 256)
    assert tensors["mtp.0.proj.weight"].shape == (1024, 2 * 1024)


def test_a_full_rank_query_is_one_matrix() -> None:
    tensors = named(make_model(attention=make_mla(q_lora_rank=0)))

    assert tensors["layers.0.attn.wq.weight"].shape == (16 * 24, 1024)
    assert not any("wq_a" in name or ".q_norm" in name for name in tensors)


def test_grouped_queries_have_biases_and_norms_only_where_asked() -> None:
    plain = named(make_model(attention=make_gqa(), moe=None))
    full = named(make_model(attention=make_gqa(qkv_bias=True, qk_norm=True), moe=None))

    assert {name.removeprefix("layers.0.attn.") for name in set(full) - set(plain)} >= {
        "wq.bias",
        "wk.bias",
        "wv.bias",
        "q_norm.weight",
        "k_norm.weight",
    }
    assert plain["layers.0.attn.wk.weight"].shape == (8 * 16, 1024)


def test_a_tied_head_is_listed_once() -> None:
    assert "head.weight" not in named(make_model(tie_embeddings=True))


def test_an_indexer_is_listed() -> None:
    indexer = IndexerSpec(n_heads=2, head_dim=8, top_k=4)
    tensors = named(make_model(attention=make_mla(indexer=indexer)))

    listed = [t for t in tensors.values() if t.part == "indexer" and t.layer == 0 and not t.is_mtp]
    assert [(t.name.removeprefix("layers.0.attn.indexer."), t.shape) for t in listed] == [
        ("wq_b.weight", (16, 256)),
        ("wk.weight", (8, 1024)),
        ("k_norm.weight", (8,)),
        ("k_norm.bias", (8,)),
        ("weights_proj.weight", (2, 1024)),
    ]


def test_experts_are_marked_by_how_many_a_token_uses() -> None:
    tensor = named(make_model())["layers.1.ffn.experts.w13"]

    assert (tensor.num_stacked, tensor.num_active, tensor.fan_in) == (8, 2, 1024)
    assert tensor.active_size == tensor.size // 4


def test_roles_are_equal_over_layers_and_tell_dense_from_moe() -> None:
    tensors = named(make_model(moe=make_moe(n_dense_layers=1)))

    assert tensors["layers.1.ffn.experts.w2"].role == tensors["layers.2.ffn.experts.w2"].role
    assert tensors["layers.0.ffn.w2.weight"].role != tensors["layers.1.ffn.experts.w2"].role


def test_moe_layer_frequency_is_respected() -> None:
    model = make_model(n_layers=6, moe=make_moe(n_dense_layers=1, moe_layer_freq=2))

    routed = {t.layer for t in list_tensors(model) if t.part == "router" and not t.is_mtp}

    assert routed == {2, 4}


@settings(max_examples=50, deadline=None)
@given(model_specs())
def test_names_are_unique_and_fan_in_is_the_last_dimension(model: ModelSpec) -> None:
    tensors = list_tensors(model)

    assert len({tensor.name for tensor in tensors}) == len(tensors)
    for tensor in tensors:
        is_matrix = tensor.kind in ("matrix", "router", "head")
        assert tensor.fan_in == (tensor.shape[-1] if is_matrix else 1)


@pytest.mark.parametrize("n_mtp_modules", [0, 2])
def test_prediction_modules_do_not_change_the_main_model(n_mtp_modules: int) -> None:
    base = make_model(n_mtp_modules=1)
    other = replace(base, n_mtp_modules=n_mtp_modules)

    assert [t for t in list_tensors(base) if not t.is_mtp] == [
        t for t in list_tensors(other) if not t.is_mtp
    ]


def test_matrices_of_a_tensor_hold_all_of_its_elements() -> None:
    for tensor in list_tensors(make_model()):
        if tensor.kind == "matrix":
            held = sum(out * fan_in for out, fan_in in tensor.matrices)
            assert tensor.num_stacked * held == tensor.size
