"""AdamW on flat buffers does what torch's own does, tensor by tensor."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from simulator.model import build_model, initialise
from simulator.parametrisation import TensorRule, rule_table
from simulator.specs.errors import SpecError
from simulator.specs.run import AdamWSpec, OptimizerSpec
from simulator.training.optim import FlatAdamW
from tests.builders import make_model, make_parametrisation, widen

SPEC = AdamWSpec(peak_lr=1e-2, weight_decay=0.3, beta1=0.9, beta2=0.95, clip_norm=0.0)
ON = np.array([True])


def make_rule(name: str, shape: tuple[int, ...], lr: float = 1.0, decay: float = 1.0) -> TensorRule:
    return TensorRule(
        name=name,
        shape=shape,
        kind="matrix",
        part="attention",
        fan_in=shape[-1],
        init_std=1.0,
        lr_multiplier=lr,
        decay_multiplier=decay,
        is_decayed=decay > 0,
        source="test",
    )


RULES = (
    make_rule("a", (5, 7), lr=0.125, decay=8.0),
    make_rule("b", (3,), decay=0.0),
    make_rule("c", (2, 3, 4), lr=0.125, decay=8.0),
    make_rule("d", (64, 2)),
)


def make_parameters(rules: tuple[TensorRule, ...] = RULES, seed: int = 0) -> nn.ParameterDict:
    generator = torch.Generator().manual_seed(seed)
    return nn.ParameterDict(
        {rule.name: nn.Parameter(torch.randn(rule.shape, generator=generator)) for rule in rules}
    )


def set_gradients(parameters: nn.ParameterDict, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _, parameter in sorted(parameters.items()):
        gradient = torch.randn(parameter.shape, generator=generator)
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad.copy_(gradient)


def take_step(optimizer: FlatAdamW, lr: float) -> None:
    norm = optimizer.grad_norm().double().numpy()
    optimizer.step(np.full(len(norm), lr), norm, np.ones(len(norm), dtype=bool))


def test_updates_equal_torch_adamw_with_parameter_groups() -> None:
    ours, theirs = make_parameters(), make_parameters()
    flat = FlatAdamW(ours.items(), RULES, [SPEC])
    groups = [
        {
            "params": [theirs[rule.name]],
            "lr": rule.lr_multiplier,
            "weight_decay": SPEC.weight_decay * rule.decay_multiplier,
        }
        for rule in RULES
    ]
    reference = torch.optim.AdamW(groups, betas=(SPEC.beta1, SPEC.beta2), eps=SPEC.eps)
    for step in range(10):
        lr = 1e-2 * (10 - step) / 10
        set_gradients(ours, step)
        set_gradients(theirs, step)
        for group, rule in zip(reference.param_groups, RULES, strict=True):
            group["lr"] = lr * rule.lr_multiplier
        take_step(flat, lr)
        reference.step()
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter.data, theirs[name].data, rtol=1e-7, atol=1e-7)


def test_zero_gradient_leaves_the_decay_alone_for_every_tensor_of_a_model() -> None:
    narrow = make_model()
    model = replace(narrow, dim=128, inter_dim=256)
    param = replace(make_parametrisation(narrow), target=widen(narrow))
    rules = rule_table(model, param)
    built = build_model(model)
    initialise(built, rules, seed=0)
    before = {name: parameter.detach().clone() for name, parameter in built.named_parameters()}
    optimizer = FlatAdamW(built.named_parameters(), rules, [SPEC])
    take_step(optimizer, 0.5)
    for rule in rules:
        parameter = built.get_parameter(rule.name)
        kept = 1.0 - 0.5 * rule.lr_multiplier * SPEC.weight_decay * rule.decay_multiplier
        torch.testing.assert_close(parameter.data, before[rule.name] * kept, rtol=1e-6, atol=0)
    assert {rule.lr_multiplier for rule in rules} == {1.0, 0.5}


def test_gains_are_never_decayed() -> None:
    model = make_model()
    rules = rule_table(model, make_parametrisation(model))
    built = build_model(model)
    initialise(built, rules, seed=0)
    take_step(FlatAdamW(built.named_parameters(), rules, [SPEC]), 0.5)
    gains = [built.get_parameter(rule.name) for rule in rules if rule.kind == "gain"]
    assert all(bool((gain == 1).all()) for gain in gains)


def test_parameters_keep_their_values_and_look_into_the_buffers() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [SPEC])
    torch.testing.assert_close(parameters["a"].data, make_parameters()["a"].data, rtol=0, atol=0)
    optimizer.values.zero_()
    assert all(not parameter.any() for parameter in parameters.values())


def test_gradients_of_a_backward_pass_land_in_the_buffer() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [SPEC])
    total = torch.stack([(2 * parameter).sum() for parameter in parameters.values()]).sum()
    torch.autograd.backward(total)
    num_elements = sum(parameter.numel() for parameter in parameters.values())
    assert float(optimizer.grads.sum()) == 2 * num_elements
    assert float(optimizer.grad_norm()) == pytest.approx(2 * num_elements**0.5)


def test_tensors_of_equal_multipliers_share_a_segment_and_begin_aligned() -> None:
    optimizer = FlatAdamW(make_parameters().items(), RULES, [SPEC])
    assert len(optimizer.segments) == 3
    assert all(slot.start % 64 == 0 for slot in optimizer.slots)


def test_padding_between_tensors_stays_zero() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [SPEC])
    for step in range(3):
        set_gradients(parameters, step)
        take_step(optimizer, 0.1)
    for slot in optimizer.slots:
        optimizer.values[:, slot.start : slot.stop] = 0
    assert not optimizer.values.any()


def test_clipping_scales_the_gradient_to_the_threshold() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [replace(SPEC, clip_norm=0.5)])
    set_gradients(parameters, 0)
    take_step(optimizer, 0.1)
    assert float(optimizer.grad_norm()) == pytest.approx(0.5, rel=1e-6)


def test_gradient_below_the_threshold_is_left_alone() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [replace(SPEC, clip_norm=1e3)])
    set_gradients(parameters, 0)
    before = optimizer.grads.clone()
    take_step(optimizer, 0.1)
    assert torch.equal(optimizer.grads, before)


def test_clip_norm_of_zero_switches_clipping_off() -> None:
    optimizer = FlatAdamW(make_parameters().items(), RULES, [SPEC])
    assert not optimizer.is_clipped(np.array([1e9])).any()


def test_smallest_gradient_rms_is_that_of_the_quietest_tensor() -> None:
    parameters = make_parameters()
    optimizer = FlatAdamW(parameters.items(), RULES, [SPEC])
    for scale, name in zip((4.0, 3.0, 2.0, 5.0), "abcd", strict=True):
        gradient = parameters[name].grad
        assert gradient is not None
        gradient.fill_(scale)
    assert float(optimizer.min_grad_rms(0)) == pytest.approx(2.0)


def make_rows(specs: list[OptimizerSpec]) -> tuple[nn.ParameterDict, FlatAdamW]:
    """Return the parameters of several runs, each with values of its own, and their optimiser."""
    parameters = make_parameters(RULES, 0)
    flat = FlatAdamW(parameters.items(), RULES, specs)
    for row in range(1, len(specs)):
        for name, value in make_parameters(RULES, row).items():
            parameters[name].data[row] = value.data
    return parameters, flat


def test_rows_are_updated_as_if_alone() -> None:
    specs = [SPEC, replace(SPEC, weight_decay=0.0, clip_norm=1.0)]
    together, flat = make_rows(specs)
    alone = [make_parameters(RULES, seed) for seed in range(2)]
    solos = [
        FlatAdamW(parameters.items(), RULES, [spec])
        for parameters, spec in zip(alone, specs, strict=True)
    ]
    lr = np.array([0.1, 0.02])
    for step in range(3):
        set_gradients(together, step)
        for row, (parameters, solo) in enumerate(zip(alone, solos, strict=True)):
            for name, parameter in parameters.items():
                gradient = together[name].grad
                assert gradient is not None
                assert parameter.grad is not None
                parameter.grad.copy_(gradient[row])
            take_step(solo, float(lr[row]))
        flat.step(lr, flat.grad_norm().double().numpy(), np.array([True, True]))
    for row, parameters in enumerate(alone):
        for name, parameter in parameters.items():
            torch.testing.assert_close(together[name].data[row], parameter.data, rtol=0, atol=0)


def test_inactive_row_keeps_parameters_moments_and_count() -> None:
    together, flat = make_rows([SPEC, SPEC])
    set_gradients(together, 0)
    before = flat.values[1].clone()
    flat.step(np.full(2, 0.1), flat.grad_norm().double().numpy(), np.array([True, False]))
    assert torch.equal(flat.values[1], before)
    assert not flat.exp_avg[1].any()
    assert flat.num_updates.tolist() == [1.0, 0.0]


def test_fewer_rows_are_held_than_there_are() -> None:
    together, flat = make_rows([SPEC, SPEC, SPEC])
    flat.hold(2)
    set_gradients(together, 0)
    assert together["a"].shape[0] == len(flat.grad_norm()) == 2
    before = flat.values.clone()
    flat.step(np.full(2, 0.1), flat.grad_norm().double().numpy(), np.array([True, True]))
    is_changed = (flat.values != before).any(dim=-1)
    assert is_changed.tolist() == [True, True, False]


def test_another_model_shows_one_row() -> None:
    together, flat = make_rows([SPEC, SPEC])
    shown = make_parameters(RULES, 5)
    flat.show(shown, 1)
    assert all(torch.equal(shown[name], together[name][1]) for name in shown)
    flat.values[1] += 1.0
    assert all(torch.equal(shown[name], together[name][1]) for name in shown)


def test_assigned_row_has_made_no_update() -> None:
    together, flat = make_rows([SPEC, SPEC])
    set_gradients(together, 0)
    flat.step(np.full(2, 0.1), flat.grad_norm().double().numpy(), np.array([True, True]))
    flat.assign(0, replace(SPEC, clip_norm=1e-3))
    assert flat.num_updates.tolist() == [0.0, 1.0]
    assert not flat.exp_avg[0].any()
    assert flat.exp_avg[1].any()
    assert flat.is_clipped(np.array([1.0, 1.0])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (RULES[:-1], "no rule"),
        ((*RULES, make_rule("e", (2,))), "no parameter"),
        ((make_rule("a", (7, 5)), *RULES[1:]), r"\(5, 7\)"),
    ],
    ids=["no rule", "no parameter", "other shape"],
)
def test_parameter_and_rule_must_match(rules: tuple[TensorRule, ...], found: str) -> None:
    with pytest.raises(SpecError, match=found):
        FlatAdamW(make_parameters().items(), rules, [SPEC])
