"""Published recipes are found by shape and hold together."""

from dataclasses import replace

import pytest

from simulator.specs.schedule import MultiStepShape, PiecewiseShape
from simulator.targets.reader import read_target
from simulator.targets.recipes import PublishedRecipe, find_recipe, recipe_of_model

PRESETS = {
    "deepseek-v3": "DeepSeek-V3",
    "deepseek-v2": "DeepSeek-V2",
    "deepseek-v2-lite": "DeepSeek-V2-Lite",
    "kimi-k2": "Kimi-K2",
    "llama-3.1-8b": "Llama-3.1-8B",
}


def recipe(preset: str) -> PublishedRecipe:
    found = find_recipe(read_target(preset))
    assert found is not None
    return found


@pytest.mark.parametrize(("preset", "name"), PRESETS.items())
def test_presets_have_their_recipe(preset: str, name: str) -> None:
    assert recipe(preset).name == name


@pytest.mark.parametrize("preset", PRESETS)
def test_a_changed_model_has_none(preset: str) -> None:
    model = read_target(preset).trainable_model()

    assert recipe_of_model(replace(model, n_layers=model.n_layers - 1)) is None


@pytest.mark.parametrize("preset", PRESETS)
def test_schedules_and_phases_fit_together(preset: str) -> None:
    found = recipe(preset)

    assert found.warmup_steps < 0.1 * found.num_tokens / found.global_batch_tokens
    assert found.global_batch_tokens % found.seq_len == 0
    for phases in (found.mtp_weight, found.bias_rate):
        ends = [phase.until_fraction for phase in phases]
        assert ends == sorted(ends)
        assert not ends or ends[-1] == 1.0
    match found.shape:
        case PiecewiseShape(segments=segments):
            starts = [segment.start_factor for segment in segments]
            ends = [segment.end_factor for segment in segments]
            assert starts[0] == 1.0
            assert all(end >= start for end, start in zip(ends, starts[1:], strict=False))
        case MultiStepShape(factors=factors):
            assert list(factors) == sorted(factors, reverse=True)
        case _:
            pass


def test_v3_ends_at_its_published_rates() -> None:
    shape = recipe("deepseek-v3").shape
    assert isinstance(shape, PiecewiseShape)

    peak = recipe("deepseek-v3").peak_lr

    assert [segment.end_factor * peak for segment in shape.segments] == pytest.approx(
        [2.2e-4, 2.2e-5, 2.2e-5, 7.3e-6]
    )
    assert [segment.until_fraction * 14.8 for segment in shape.segments] == pytest.approx(
        [10.0, 14.3, 14.633, 14.8]
    )


def test_a_recipe_with_prediction_modules_weighs_their_loss() -> None:
    for preset in PRESETS:
        has_modules = read_target(preset).trainable_model().n_mtp_modules > 0
        assert bool(recipe(preset).mtp_weight) == has_modules


def test_bias_balanced_models_have_a_bias_rate() -> None:
    for preset in PRESETS:
        moe = read_target(preset).trainable_model().moe
        is_biased = moe is not None and moe.balance == "bias"
        assert bool(recipe(preset).bias_rate) == is_biased


def test_kimi_is_trained_by_muon_but_for_its_clipping_of_logits() -> None:
    assert {name for name in PRESETS if recipe(name).optimizer == "muon"} == {"kimi-k2"}
    assert "QK-clip" in recipe("kimi-k2").caveat
