"""Muon does what torch's own does, matrix by matrix, and no row or matrix sees another."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from simulator.parametrisation import TensorRule, rule_table
from simulator.specs.errors import SpecError
from simulator.specs.run import AdamWSpec, MuonScale, MuonSpec
from simulator.training.optim import FlatAdamW
from simulator.training.optim.muon import orthogonalise
from tests.builders import make_model, make_parametrisation

MODEL = make_model()
SPEC = MuonSpec(peak_lr=1e-2, weight_decay=0.3, clip_norm=0.0)


def rules(scale: MuonScale | None = "rms_matched") -> tuple[TensorRule, ...]:
    return rule_table(MODEL, make_parametrisation(MODEL), scale)


RULES = rules()


def make_parameters(seed: int = 0) -> nn.ParameterDict:
    generator = torch.Generator().manual_seed(seed)
    return nn.ParameterDict(
        {
            rule.name.replace(".", "/"): nn.Parameter(torch.randn(rule.shape, generator=generator))
            for rule in RULES
        }
    )


def make_flat(
    specs: list[MuonSpec], *, dtype: torch.dtype = torch.float32, scale: MuonScale = "rms_matched"
) -> FlatAdamW:
    """Return the optimiser of several runs that start from values of their own."""
    parameters = {name.replace("/", "."): value for name, value in make_parameters().items()}
    flat = FlatAdamW(parameters.items(), rules(scale), specs, muon_dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    for row in range(1, len(specs)):
        flat.values[row] += torch.randn(flat.values.shape[1:], generator=generator)
    return flat


def set_gradients(flat: FlatAdamW, step: int, rows: list[int]) -> None:
    """Give each run gradients of its own: those of a number that goes with it."""
    flat.grads.zero_()
    for row, number in enumerate(rows):
        generator = torch.Generator().manual_seed(100 * step + number)
        for slot in flat.slots:
            size = slot.stop - slot.start
            flat.grads[row, slot.start : slot.stop] = torch.randn(size, generator=generator)


def take_step(flat: FlatAdamW, lr: list[float], active: list[bool]) -> None:
    flat.step(np.array(lr), flat.grad_norm().double().numpy(), np.array(active))


def matrices(flat: FlatAdamW, buffer: Tensor, row: int = 0) -> Iterator[tuple[Tensor, float]]:
    """Yield a copy of every matrix that Muon trains, and its scale, one at a time."""
    muon = {rule.name: rule.muon for rule in RULES}
    for slot in flat.slots:
        rule = muon[slot.name]
        if rule is not None:
            tensor = buffer[row, slot.start : slot.stop].view(-1, *slot.shape[-2:])
            for one in tensor:
                blocks = one.unflatten(0, (rule.num_blocks, -1))
                start = 0
                for matrix in rule.matrices:
                    part = blocks[:, start : start + matrix.rows].flatten(0, 1)
                    start += matrix.rows
                    yield part.clone(), matrix.scale


def relative_error(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-3), (torch.float32, 2e-2)], ids=["bf16", "fp32"]
)
def test_updates_equal_torch_muon_s_up_to_the_rounding_of_its_bfloat16(
    dtype: torch.dtype, tolerance: float
) -> None:
    flat = make_flat([SPEC], dtype=dtype)
    theirs = [nn.Parameter(value) for value, _ in matrices(flat, flat.values)]
    before = [parameter.detach().clone() for parameter in theirs]
    reference = torch.optim.Muon(
        theirs,
        lr=1.0,
        weight_decay=SPEC.weight_decay,
        momentum=SPEC.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
    for step in range(4):
        lr = 1e-2 * (4 - step) / 4
        reference.param_groups[0]["lr"] = lr
        set_gradients(flat, step, [0])
        for parameter, (gradient, _) in zip(theirs, matrices(flat, flat.grads), strict=True):
            parameter.grad = gradient
        take_step(flat, [lr], [True])
        reference.step()
    for (found, _), wanted, start in zip(matrices(flat, flat.values), theirs, before, strict=True):
        assert relative_error(found - start, wanted.detach() - start) < tolerance


def test_orthogonalisation_is_the_published_iteration() -> None:
    stack = torch.randn(3, 6, 10, generator=torch.Generator().manual_seed(0))
    for found, matrix in zip(orthogonalise(stack), stack, strict=True):
        u, s, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
        s = s / matrix.double().norm()
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        torch.testing.assert_close(found.double(), u @ torch.diag(s) @ vh, rtol=1e-4, atol=1e-5)


def test_matrix_without_gradient_is_not_blown_up() -> None:
    assert not orthogonalise(torch.zeros(1, 4, 4)).any()


@pytest.mark.parametrize("scale", ["rms_matched", "spectral", "original"])
def test_update_has_the_size_that_its_rule_says(scale: MuonScale) -> None:
    flat = make_flat([replace(SPEC, weight_decay=0.0)], scale=scale)
    before = flat.values.clone()
    set_gradients(flat, 0, [0])
    take_step(flat, [1e-2], [True])
    scales = {
        rule.name: [matrix.scale for matrix in rule.muon.matrices]
        for rule in rules(scale)
        if rule.muon is not None
    }
    wanted = iter(
        [s for slot in flat.slots for s in scales.get(slot.name, []) * copies(slot.shape)]
    )
    for update, _ in matrices(flat, flat.values - before):
        spectral_norm = float(torch.linalg.matrix_norm(update, ord=2))
        assert 0.65 < spectral_norm / (1e-2 * next(wanted)) < 1.25


def copies(shape: tuple[int, ...]) -> int:
    return shape[0] if len(shape) == 3 else 1


def test_matched_update_moves_every_element_as_adamw_does() -> None:
    flat = make_flat([replace(SPEC, weight_decay=0.0)])
    before = flat.values.clone()
    set_gradients(flat, 0, [0])
    take_step(flat, [1e-2], [True])
    for update, _ in matrices(flat, flat.values - before):
        assert 0.1 < float(update.norm()) / sqrt(update.numel()) / 1e-2 < 0.25


def test_other_tensors_are_trained_by_adamw_to_the_bit() -> None:
    flat = make_flat([SPEC])
    others = [rule for rule in RULES if rule.muon is None]
    parameters = {rule.name: nn.Parameter(torch.zeros(rule.shape)) for rule in others}
    adamw = FlatAdamW(parameters.items(), others, [AdamWSpec(peak_lr=1e-2, weight_decay=0.3)])
    adamw.values.copy_(flat.values[:, : adamw.values.shape[1]])
    for step in range(3):
        set_gradients(flat, step, [0])
        adamw.grads.copy_(flat.grads[:, : adamw.values.shape[1]])
        take_step(flat, [1e-2], [True])
        adamw.step(np.array([1e-2]), np.array([0.0]), np.array([True]))
    assert torch.equal(flat.values[:, : adamw.values.shape[1]], adamw.values)


def test_zero_gradient_leaves_the_decay_alone() -> None:
    flat = make_flat([SPEC])
    before = flat.values.clone()
    take_step(flat, [0.5], [True])
    for (found, _), (start, _) in zip(
        matrices(flat, flat.values), matrices(flat, before), strict=True
    ):
        torch.testing.assert_close(found, start * (1 - 0.5 * 0.3), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_row_is_updated_as_if_alone_to_the_bit(dtype: torch.dtype) -> None:
    specs = [SPEC, replace(SPEC, momentum=0.9, clip_norm=1.0), replace(SPEC, weight_decay=0.0)]
    together = make_flat(specs, dtype=dtype)
    alone = make_flat(specs[1:2], dtype=dtype)
    alone.values[0] = together.values[1]
    for step in range(3):
        set_gradients(together, step, [0, 1, 2])
        set_gradients(alone, step, [1])
        take_step(together, [1e-2, 3e-3, 1e-3], [True, True, step != 1])
        take_step(alone, [3e-3], [True])
    for name, kept in alone.state(0).items():
        assert torch.equal(together.state(1)[name], kept), name


def test_inactive_row_keeps_all_of_its_state() -> None:
    flat = make_flat([SPEC, SPEC])
    set_gradients(flat, 0, [0, 1])
    take_step(flat, [1e-2, 1e-2], [True, True])
    before = {name: kept.clone() for name, kept in flat.state(1).items()}
    set_gradients(flat, 1, [0, 1])
    take_step(flat, [1e-2, 1e-2], [True, False])
    assert all(torch.equal(flat.state(1)[name], kept) for name, kept in before.items())
    assert flat.num_updates.tolist() == [2.0, 1.0]


def test_state_is_all_that_a_run_needs_to_go_on() -> None:
    flat = make_flat([SPEC, SPEC])
    for step in range(2):
        set_gradients(flat, step, [0, 1])
        take_step(flat, [1e-2, 1e-2], [True, True])
    for name, kept in flat.state(0).items():
        kept.copy_(flat.state(1)[name])
    set_gradients(flat, 2, [1, 1])
    take_step(flat, [1e-2, 1e-2], [True, True])
    assert torch.equal(flat.values[0], flat.values[1])


def test_assigned_row_forgets_its_average() -> None:
    flat = make_flat([SPEC, SPEC])
    set_gradients(flat, 0, [0, 1])
    take_step(flat, [1e-2, 1e-2], [True, True])
    flat.assign(0, SPEC)
    assert not flat.exp_avg[0].any()
    assert flat.exp_avg[1].any()


def test_hidden_matrices_have_no_second_moment() -> None:
    flat = make_flat([SPEC])
    hidden = sum(
        slot.stop - slot.start
        for slot in flat.slots
        for r in RULES
        if r.muon and r.name == slot.name
    )
    assert flat.exp_avg_sq.shape[1] <= flat.values.shape[1] - hidden


def test_padding_between_tensors_stays_zero() -> None:
    flat = make_flat([SPEC])
    for step in range(2):
        set_gradients(flat, step, [0])
        take_step(flat, [1e-2], [True])
    for slot in flat.slots:
        flat.values[:, slot.start : slot.stop] = 0
    assert not flat.values.any()


@pytest.mark.parametrize("scale", [None, "spectral"])
def test_optimiser_must_be_the_one_of_the_rules(scale: MuonScale | None) -> None:
    spec = SPEC if scale is None else AdamWSpec(peak_lr=1e-2, weight_decay=0.1)
    parameters = {name.replace("/", "."): value for name, value in make_parameters().items()}
    with pytest.raises(SpecError, match=r"optimizer\.kind"):
        FlatAdamW(parameters.items(), rules(scale), [spec])
