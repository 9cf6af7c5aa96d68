from pathlib import Path
from typing import Any

import pytest

from scaling.priors import optimal_batch_tokens, step_law_lr, tau_law
from simulator.counting.params import count_params
from simulator.specs.errors import SpecError
from simulator.specs.run import PhaseSpec
from simulator.specs.schedule import CosineShape, LinearShape
from simulator.targets.reader import read_target
from simulator.targets.recipes import find_recipe
from sweeps.recipe import ResolvedTarget, bias_phases, resolve_target
from sweeps.tables.target import TargetTable
from tests.builders import make_model, make_moe
from tests.sweeps.files import PRESETS, QUICKSTART, write_own


def preset(config: str, **changes: Any) -> ResolvedTarget:
    return resolve_target(TargetTable(config=config, **changes), root=Path())


def own(**changes: Any) -> ResolvedTarget:
    table = TargetTable(**({"config": "config.json", "tokens": 10_000_000} | changes))
    return resolve_target(table, root=QUICKSTART)


@pytest.mark.parametrize("config", PRESETS)
def test_a_published_recipe_is_taken_whole(config: str) -> None:
    target, recipe = preset(config), find_recipe(read_target(config))
    assert recipe is not None
    assert (target.peak_lr, target.weight_decay) == (recipe.peak_lr, recipe.weight_decay)
    assert target.spec.num_tokens == recipe.num_tokens
    assert target.spec.global_batch_sequences * target.spec.seq_len == recipe.global_batch_tokens
    assert target.spec.shape == recipe.shape
    assert target.spec.beta2 == recipe.beta2
    assert target.spec.recipe_source == recipe.source
    assert target.is_known


def test_the_published_source_is_named() -> None:
    assert any("2412.19437" in note for note in preset("deepseek-v3").notes)


def test_a_given_value_replaces_the_published_one_and_says_so() -> None:
    target = preset("deepseek-v3", peak_lr=3e-4, tokens=10**12)
    assert target.peak_lr == 3e-4
    assert target.spec.num_tokens == 10**12
    assert target.spec.warmup_steps == 2000
    changed = [note for note in target.notes if "in place of the published" in note]
    assert len(changed) == 2


def test_a_value_equal_to_the_published_one_is_no_change() -> None:
    notes = preset("deepseek-v3", peak_lr=2.2e-4).notes
    assert not any("in place of the published" in note for note in notes)


@pytest.mark.parametrize(
    ("config", "changes", "optimizer", "codes"),
    [
        ("deepseek-v3", {}, "adamw", []),
        ("kimi-k2", {}, "muon", ["muon_rule_less_certain"]),
        ("kimi-k2", {"optimizer": "adamw"}, "adamw", ["incumbent_other_optimizer"]),
        (
            "deepseek-v3",
            {"optimizer": "muon"},
            "muon",
            ["incumbent_other_optimizer", "muon_rule_less_certain"],
        ),
    ],
)
def test_optimizer_is_the_published_one_and_another_is_flagged(
    config: str, changes: dict[str, Any], optimizer: str, codes: list[str]
) -> None:
    target = preset(config, **changes)
    assert target.spec.optimizer == optimizer
    assert [flag.code for flag in target.flags] == codes


def test_an_own_target_is_trained_by_adamw_unless_it_says_muon() -> None:
    assert own().spec.optimizer == "adamw"
    assert own(optimizer="muon").spec.optimizer == "muon"


def test_an_own_target_must_say_its_tokens() -> None:
    with pytest.raises(SpecError) as caught:
        resolve_target(TargetTable(config="config.json"), root=QUICKSTART)
    assert caught.value.path == "target.tokens"


def test_an_own_target_follows_the_laws_and_says_which() -> None:
    target = own()
    params = count_params(target.spec.model).active_non_embedding
    assert target.spec.seq_len == 512
    assert target.spec.global_batch_sequences == round(optimal_batch_tokens(10**7) / 512)
    assert target.peak_lr == step_law_lr(params, 10**7)
    tau = 1.0 / (target.peak_lr * target.weight_decay * target.spec.num_steps)
    assert tau == pytest.approx(tau_law(10**7 / params))
    assert target.spec.shape == CosineShape(final_factor=0.1)
    assert not target.is_known
    ruled = [note.split()[0] for note in target.notes if "by rule" in note]
    assert ruled == [
        f"target.{name}"
        for name in (
            "seq_len",
            "global_batch_sequences",
            "peak_lr",
            "weight_decay",
            "warmup_steps",
            "schedule",
            "beta1",
            "beta2",
            "clip_norm",
            "optimizer",
        )
    ]


def test_what_an_own_target_gives_needs_no_rule() -> None:
    given = {
        "seq_len": 128,
        "global_batch_sequences": 4,
        "peak_lr": 6e-4,
        "weight_decay": 0.1,
        "warmup_steps": 20,
        "schedule": "linear_to_zero",
        "beta1": 0.8,
        "beta2": 0.99,
        "clip_norm": 0.5,
        "optimizer": "muon",
    }
    target = own(**given)
    assert not any("by rule" in note for note in target.notes)
    spec = target.spec
    assert (target.peak_lr, target.weight_decay) == (6e-4, 0.1)
    assert (spec.seq_len, spec.global_batch_sequences, spec.warmup_steps) == (128, 4, 20)
    assert (spec.beta1, spec.beta2, spec.clip_norm) == (0.8, 0.99, 0.5)
    assert spec.shape == LinearShape(final_factor=0.0)
    assert spec.recipe_source == "given in [target]"
    assert target.is_known


@pytest.mark.parametrize(
    ("context", "scaling", "length"),
    [
        (512, None, 512),
        (40_960, None, 4096),
        (163_840, {"type": "yarn", "factor": 40, "original_max_position_embeddings": 2048}, 2048),
    ],
)
def test_the_context_before_its_extension_is_the_length(
    tmp_path: Path, context: int, scaling: dict[str, Any] | None, length: int
) -> None:
    write_own(tmp_path, max_position_embeddings=context, rope_scaling=scaling)
    table = TargetTable(config="config.json", tokens=10**7)
    assert resolve_target(table, root=tmp_path).spec.seq_len == length


def test_warmup_by_rule_holds_the_floor_of_adam() -> None:
    target = own(tokens=512 * 100, global_batch_sequences=1, beta2=0.95)
    assert target.spec.num_steps == 100
    assert target.spec.warmup_steps == 40


def test_a_warmup_longer_than_the_target_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        own(warmup_steps=10**6)
    assert caught.value.path == "target.warmup_steps"


def test_a_schedule_without_such_a_name_is_refused() -> None:
    with pytest.raises(SpecError, match="linear_to_zero"):
        own(schedule="linear_to_zer")


def test_initial_scale_can_be_given() -> None:
    assert own(init_std=0.01).spec.model.init_std == 0.01
    assert own().spec.model.init_std == 0.02


def test_phases_can_be_given() -> None:
    phases = (PhaseSpec(until_fraction=1.0, value=0.5),)
    assert own(mtp_weight=phases).spec.mtp_weight == phases
    assert own(bias_rate=phases).spec.bias_rate == phases


def test_phases_are_empty_for_a_model_without_use_for_them() -> None:
    spec = preset("llama-3.1-8b").spec
    assert spec.mtp_weight == ()
    assert spec.bias_rate == ()


@pytest.mark.parametrize(("num_steps", "rate"), [(100, 1e-2), (500, 6e-3), (10**6, 1e-3)])
def test_the_balance_bias_moves_faster_in_short_runs(num_steps: int, rate: float) -> None:
    first, last = bias_phases(make_model(), num_steps)
    assert first == PhaseSpec(until_fraction=0.9, value=pytest.approx(rate))
    assert last == PhaseSpec(until_fraction=1.0, value=0.0)


def test_without_a_bias_nothing_moves() -> None:
    assert bias_phases(make_model(moe=make_moe(balance="aux_loss")), 100) == ()
    assert bias_phases(make_model(moe=None), 100) == ()


def test_a_family_that_is_only_counted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(SpecError):
        resolve_target(TargetTable(config=".", tokens=1), root=tmp_path)


def test_a_misspelt_built_in_name_is_told_the_nearest() -> None:
    with pytest.raises(SpecError, match="deepseek-v3"):
        preset("deepseek-v33")
