from dataclasses import replace

import pytest
import torch

from simulator.model import build_model, initial_values, initialise
from simulator.parametrisation import TensorRule, rule_table
from tests.builders import make_model, make_parametrisation

MODEL = make_model()
RULES = rule_table(MODEL, make_parametrisation(MODEL))


def _rule(name: str) -> TensorRule:
    return next(rule for rule in RULES if rule.name == name)


def test_every_tensor_starts_as_its_rule_says() -> None:
    model = build_model(MODEL)
    initialise(model, RULES, 7)
    for rule, (name, parameter) in zip(RULES, model.named_parameters(), strict=True):
        assert name == rule.name
        if rule.kind == "gain":
            assert (parameter == 1).all()
        else:
            assert parameter.std().item() == pytest.approx(rule.init_std, rel=0.1)
            assert abs(parameter.mean().item()) < rule.init_std * 0.1


def test_values_are_a_pure_function_of_seed_and_name() -> None:
    rule = _rule("layers.1.attn.wo.weight")
    values = initial_values(rule, 3)
    torch.manual_seed(99)
    assert torch.equal(values, initial_values(rule, 3))
    assert not torch.equal(values, initial_values(rule, 4))
    assert not torch.equal(values, initial_values(replace(rule, name="layers.2.attn.wo.weight"), 3))


def test_the_order_of_the_rules_changes_nothing() -> None:
    one, other = build_model(MODEL), build_model(MODEL)
    initialise(one, RULES, 0)
    initialise(other, RULES[::-1], 0)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_parameter_without_a_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"embed\.weight"):
        initialise(build_model(MODEL), RULES[1:], 0)


def test_a_rule_of_another_shape_is_an_error() -> None:
    wrong = (replace(RULES[0], shape=(2, 2)), *RULES[1:])
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        initialise(build_model(MODEL), wrong, 0)
