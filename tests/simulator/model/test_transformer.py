from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from simulator.counting.params import count_params
from simulator.counting.tensors import list_tensors
from simulator.model import Transformer, build_model
from simulator.specs.model import GQASpec, IndexerSpec, ModelSpec
from tests.builders import make_attention, make_model, make_moe
from tests.simulator.model.weights import randomise
from tests.simulator.model_specs import model_specs

SEQ_LEN = 12
GQA = GQASpec(n_heads=4, n_kv_heads=2, head_dim=16, qkv_bias=True, qk_norm=True)
MODELS = {
    "v3": make_model(moe=make_moe(aux_loss_alpha=1e-2)),
    "v2": make_model(
        moe=make_moe(score_func="softmax", balance="aux_loss", aux_loss_alpha=1e-2, seq_aux=False),
        attention=make_attention(q_lora_rank=0),
        n_mtp_modules=0,
    ),
    "dense": make_model(moe=None, attention=GQA, n_mtp_modules=2, tie_embeddings=True),
}


def _model(spec: ModelSpec, seed: int = 0, *, logit_factor: float = 1.0) -> Transformer:
    torch.set_num_threads(1)
    model = build_model(spec, logit_factor=logit_factor)
    randomise(model, seed)
    return model


def _windows(spec: ModelSpec, *batch: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (*(batch or (3,)), SEQ_LEN + 1 + spec.n_mtp_modules)
    return torch.randint(spec.vocab_size, shape, generator=generator)


@settings(max_examples=30, deadline=None)
@given(model_specs())
def test_parameters_are_those_that_counting_lists(spec: ModelSpec) -> None:
    listed = [(t.name, t.shape) for t in list_tensors(spec)]
    built = build_model(spec, device="meta")
    assert [(name, tuple(p.shape)) for name, p in built.named_parameters()] == listed
    counted = count_params(spec)
    assert sum(p.numel() for p in built.parameters()) == counted.total + counted.mtp


def test_an_indexer_is_counted_and_not_built() -> None:
    indexer = IndexerSpec(n_heads=2, head_dim=8, top_k=4)
    spec = make_model(attention=make_attention(indexer=indexer))
    trained = [t.name for t in list_tensors(spec) if t.part != "indexer"]
    assert [name for name, _ in build_model(spec).named_parameters()] == trained


def test_a_model_on_meta_takes_no_memory_and_can_be_filled() -> None:
    spec = MODELS["v3"]
    model = build_model(spec, device="meta", dtype=torch.bfloat16)
    assert all(p.is_meta and p.dtype == torch.bfloat16 for p in model.parameters())
    assert all(b.dtype == torch.float32 for b in model.buffers())
    model = build_model(spec, device="meta").to_empty(device="cpu")
    randomise(model, 0)
    assert torch.equal(model(_windows(spec)).main, _model(spec)(_windows(spec)).main)


@pytest.mark.parametrize("name", MODELS)
def test_a_later_token_changes_no_earlier_logit(name: str) -> None:
    spec = MODELS[name]
    model = _model(spec)
    tokens = _windows(spec)
    changed = tokens.clone()
    changed[:, 7] = (changed[:, 7] + 1) % spec.vocab_size
    before, after = model.logits(tokens), model.logits(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before[:, 7:], after[:, 7:], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_main_loss_is_the_mean_over_the_windows_predicted_tokens(name: str) -> None:
    spec = MODELS[name]
    model, tokens = _model(spec), _windows(spec)
    log_p = model.logits(tokens[:, :SEQ_LEN]).log_softmax(-1)
    nll = -log_p.gather(-1, tokens[:, 1 : SEQ_LEN + 1].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(model.token_nll(tokens), nll, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model(tokens).main, nll.mean())


def _slow_mtp_nll(model: Transformer, tokens: Tensor) -> list[Tensor]:
    """Return each module's losses, one position after the other, from sequences cut by hand."""
    hidden = _hidden(model, tokens[:, :SEQ_LEN])
    table = model.embed.weight
    head = table if model.head is None else model.head.weight
    losses = []
    for depth, module in enumerate(model.mtp):
        columns = []
        for i in range(SEQ_LEN):
            embedded = module.embed_norm(table[tokens[:, i + depth + 1]])
            columns.append(torch.cat([embedded, module.hidden_norm(hidden[:, i])], dim=-1))
        x = torch.stack(columns, dim=1) @ module.proj.weight.T
        y, _ = module.block(x.flatten(0, 1), model._rotary_tables(tokens[:, :SEQ_LEN]))
        hidden = module.norm(y).view_as(hidden)
        rows = []
        for i in range(SEQ_LEN):
            log_p = (hidden[:, i] @ head.T * model.logit_factor).log_softmax(-1)
            rows.append(-log_p[torch.arange(len(tokens)), tokens[:, i + depth + 2]])
        losses.append(torch.stack(rows, dim=1))
    return losses


def _hidden(model: Transformer, tokens: Tensor) -> Tensor:
    """Return the last hidden state after the final norm, ``[B, T, D]``."""
    seen: list[Tensor] = []
    handle = model.norm.register_forward_hook(lambda _module, _inputs, y: seen.append(y))
    model.logits(tokens)
    handle.remove()
    return seen[0].view(*tokens.shape, -1)


@pytest.mark.parametrize("name", ["v3", "dense"])
def test_further_prediction_equals_a_slow_reference(name: str) -> None:
    spec = MODELS[name]
    model, tokens = _model(spec, logit_factor=0.5), _windows(spec)
    expected = _slow_mtp_nll(model, tokens)
    got = model.all_token_nll(tokens)
    for ours, slow in zip(got.mtp, expected, strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-5, atol=1e-5)
    losses = model(tokens)
    torch.testing.assert_close(losses.mtp, torch.stack(expected).mean())
    torch.testing.assert_close(got.main, model.token_nll(tokens))


def test_training_may_follow_an_evaluation_in_inference_mode() -> None:
    spec = MODELS["dense"]
    model, tokens = _model(spec), _windows(spec)
    with torch.inference_mode():
        evaluated = model.token_nll(tokens).mean()
    loss = model(tokens).main
    loss.backward()
    torch.testing.assert_close(loss, evaluated)


def test_auxiliary_losses_can_be_left_out() -> None:
    spec = MODELS["v3"]
    model, tokens = _model(spec), _windows(spec)
    full, bare = model(tokens), model(tokens, aux=False)
    assert bare.mtp is None
    assert bare.balance is None
    assert full.balance is not None
    assert torch.equal(full.main, bare.main)
    assert (len(full.expert_load), len(bare.expert_load)) == (3, 2)


def test_the_logit_factor_multiplies_logits() -> None:
    spec = MODELS["dense"]
    tokens = _windows(spec)
    whole, half = (_model(spec, logit_factor=f).logits(tokens) for f in (1.0, 0.5))
    torch.testing.assert_close(half, whole / 2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("own_tokens", [False, True], ids=["shared_tokens", "own_tokens"])
def test_stacked_models_equal_solo_models_in_losses_and_gradients(
    name: str, *, own_tokens: bool
) -> None:
    spec, num_models = MODELS[name], 3
    solo = [_model(spec, seed) for seed in range(num_models)]
    tokens = _windows(spec, num_models, 4) if own_tokens else _windows(spec, 4)
    names = [name for name, _ in solo[0].named_parameters()]
    stacked = {n: torch.stack([m.state_dict()[n] for m in solo]) for n in solo[0].state_dict()}
    parameters = {n: stacked[n].requires_grad_() for n in names}

    losses = torch.func.functional_call(build_model(spec), stacked, (tokens,))

    parts = [losses.main, losses.mtp, losses.balance]
    torch.stack([part for part in parts if part is not None]).sum().backward()
    for k, model in enumerate(solo):
        expected = model(tokens[k] if own_tokens else tokens)
        wanted = [expected.main, expected.mtp, expected.balance]
        for part, want in zip(parts, wanted, strict=True):
            if want is not None and part is not None:
                torch.testing.assert_close(part[k], want, rtol=1e-6, atol=0)
        for load, want_load in zip(losses.expert_load, expected.expert_load, strict=True):
            assert torch.equal(load[k], want_load)
        torch.stack([want for want in wanted if want is not None]).sum().backward()
        solo_grads = {n: _gradient(p) for n, p in model.named_parameters()}
        for parameter_name, grad in solo_grads.items():
            error = (_gradient(parameters[parameter_name])[k] - grad).norm()
            # what reaches a key's bias cancels almost wholly, as softmax ignores common shifts
            scale = solo_grads[parameter_name.replace(".bias", ".weight")].norm()
            assert error < 1e-6 * scale, parameter_name


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_modules_may_hold_stacked_parameters() -> None:
    spec = MODELS["v3"]
    solo = [_model(spec, seed) for seed in range(2)]
    tokens = _windows(spec)
    holder = build_model(spec)
    for name, module in holder.named_modules():
        for key, parameter in list(module.named_parameters(recurse=False)):
            rows = [m.get_submodule(name).get_parameter(key) for m in solo]
            assert parameter.shape == rows[0].shape
            setattr(module, key, torch.nn.Parameter(torch.stack(rows).detach()))
        for key, _ in list(module.named_buffers(recurse=False)):
            rows = [m.get_submodule(name).get_buffer(key) for m in solo]
            setattr(module, key, torch.stack(rows))
    for k, model in enumerate(solo):
        torch.testing.assert_close(holder(tokens).main[k], model(tokens).main, rtol=1e-6, atol=0)
        torch.testing.assert_close(holder.logits(tokens)[k], model.logits(tokens))
        torch.testing.assert_close(holder.token_nll(tokens)[k], model.token_nll(tokens))
    maxima = holder.max_attention_logits(tokens)
    assert [tuple(m.shape) for m in maxima] == [(2, 4)] * 3


@pytest.mark.parametrize("name", MODELS)
def test_largest_attention_logits_are_those_of_the_forward_pass(name: str) -> None:
    spec = MODELS[name]
    model, tokens = _model(spec), _windows(spec)
    maxima = model.max_attention_logits(tokens)
    assert [m.shape for m in maxima] == [(spec.attention.n_heads,)] * spec.n_layers
    by_sequence = [model.max_attention_logits(row.unsqueeze(0)) for row in tokens]
    for layer, largest in enumerate(maxima):
        each = torch.stack([rows[layer] for rows in by_sequence])
        torch.testing.assert_close(largest, each.amax(0), rtol=1e-5, atol=1e-5)


def test_biases_move_towards_even_load() -> None:
    spec = MODELS["v3"]
    model, tokens = _model(spec), _windows(spec)
    biases = {n: b.clone() for n, b in model.named_buffers()}
    loads = model(tokens).expert_load
    model.update_balance_bias(loads, 0.25)
    moved = [b - biases[n] for n, b in model.named_buffers()]
    for move, load in zip(moved, loads, strict=True):
        torch.testing.assert_close(move, 0.25 * torch.sign(load.float().mean() - load))


def test_loads_of_another_number_of_layers_are_an_error() -> None:
    model = _model(MODELS["v3"])
    with pytest.raises(ValueError, match="shorter"):
        model.update_balance_bias([torch.ones(8)], 0.1)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_autocast_stays_near_float32(name: str) -> None:
    spec = MODELS[name]
    model, tokens = _model(spec), _windows(spec, 8)
    exact = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(tokens)
    rough.main.backward()
    assert rough.main.dtype == torch.float32
    torch.testing.assert_close(rough.main, exact.main, rtol=0, atol=2e-2)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_longer_batch_is_the_mean_of_its_parts() -> None:
    spec = replace(MODELS["v3"], n_mtp_modules=1)
    model, tokens = _model(spec), _windows(spec, 4)
    whole, first, second = model(tokens), model(tokens[:2]), model(tokens[2:])
    for part in ("main", "mtp", "balance"):
        mean = (getattr(first, part) + getattr(second, part)) / 2
        torch.testing.assert_close(getattr(whole, part), mean)
    for load, a, b in zip(whole.expert_load, first.expert_load, second.expert_load, strict=True):
        assert torch.equal(load, a + b)
