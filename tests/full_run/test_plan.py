from dataclasses import replace
from math import isclose
from typing import Literal

import pytest

from full_run.plan import TargetFacts, target_run_spec
from scaling.scale import RunScale, Transfer
from scaling.transfer import map_to_target
from simulator.counting.params import count_params
from simulator.parametrisation import TensorRule, rule_table
from simulator.records.summary import TargetRecipe
from simulator.specs.codec import decode, encode
from simulator.specs.model import ModelSpec
from simulator.specs.run import BatchSpec, MuonSpec, ParametrisationSpec, PhaseSpec, RunSpec
from simulator.specs.schedule import CosineShape, LinearShape
from tests.builders import make_model, make_run, widen

Kind = Literal["sp_fullalign", "mup", "uniform_lr_sp"]
Anchor = Literal["proxy", "target"]


def make_base(
    kind: Kind = "sp_fullalign", anchor: Anchor = "proxy", proxy: ModelSpec | None = None
) -> RunSpec:
    model = proxy or make_model()
    parametrisation = ParametrisationSpec(
        kind=kind, anchor=anchor, proxy=model, target=widen(make_model())
    )
    return make_run(model=model, parametrisation=parametrisation, num_steps=400)


def make_facts(base: RunSpec, **changes: object) -> TargetFacts:
    facts = TargetFacts(
        model=base.parametrisation.target, global_batch_sequences=32, seq_len=64, beta2=0.98
    )
    return replace(facts, **changes)  # type: ignore[arg-type]


def make_transfer(base: RunSpec, facts: TargetFacts) -> Transfer:
    batch = facts.global_batch_sequences * facts.seq_len
    return Transfer(
        proxy=RunScale(
            active_params=count_params(base.model).active_non_embedding,
            num_tokens=base.num_tokens,
            batch_tokens=base.batch.global_batch_tokens,
        ),
        target=RunScale(
            active_params=count_params(facts.model).active_non_embedding,
            num_tokens=3000 * batch,
            batch_tokens=batch,
        ),
        parametrisation=base.parametrisation,
        beta2=facts.beta2,
        muon_scale=base.optimizer.muon_scale,
    )


def mapped(base: RunSpec, facts: TargetFacts) -> TargetRecipe:
    params: dict[str, float | str] = {
        "peak_lr": base.optimizer.peak_lr,
        "weight_decay": base.optimizer.weight_decay,
        "warmup_ratio": 0.1,
        "schedule": "linear_to_zero",
    }
    return map_to_target(params, make_transfer(base, facts))


def target_of(base: RunSpec, facts: TargetFacts) -> RunSpec:
    return target_run_spec(base, facts, mapped(base, facts), LinearShape())


def lr_of(run: RunSpec, rule: TensorRule) -> float:
    return run.optimizer.peak_lr * rule.lr_multiplier


def decay_of(run: RunSpec, rule: TensorRule) -> float:
    return run.optimizer.weight_decay * rule.decay_multiplier


@pytest.mark.parametrize("anchor", ["proxy", "target"])
@pytest.mark.parametrize("kind", ["sp_fullalign", "mup", "uniform_lr_sp"])
def test_matrices_get_the_recipes_rate_and_decay(kind: Kind, anchor: Anchor) -> None:
    base = make_base(kind, anchor)
    facts = make_facts(base)
    recipe, run = mapped(base, facts), target_of(base, facts)
    matrix = next(
        rule for rule in rule_table(run.model, run.parametrisation) if ".w13" in rule.name
    )
    assert isclose(lr_of(run, matrix), recipe.matrix_lr)
    assert isclose(decay_of(run, matrix), recipe.weight_decay)
    embedding = next(
        rule for rule in rule_table(run.model, run.parametrisation) if rule.kind == "embedding"
    )
    assert isclose(lr_of(run, embedding), recipe.embedding_lr)


@pytest.mark.parametrize("anchor", ["proxy", "target"])
def test_target_of_muon_gets_the_recipes_rate_and_decay(anchor: Anchor) -> None:
    muon = MuonSpec(peak_lr=1e-2, weight_decay=0.1)
    base = replace(make_base(anchor=anchor), optimizer=muon)
    facts = make_facts(base)
    recipe, run = mapped(base, facts), target_of(base, facts)
    assert run.optimizer.kind == "muon"
    table = rule_table(run.model, run.parametrisation, muon.muon_scale)
    matrix = next(rule for rule in table if ".w13" in rule.name)
    assert isclose(lr_of(run, matrix), recipe.matrix_lr)
    assert isclose(decay_of(run, matrix), recipe.weight_decay)


@pytest.mark.parametrize("anchor", ["proxy", "target"])
def test_every_tensor_follows_the_transfer_rule_by_itself(anchor: Anchor) -> None:
    """Tensor by tensor, from its own fan-ins and the rates it had on the proxy.

    lr_t = lr_p * kD^-beta * kB^gamma / s;  lr_t * wd_t = lr_p * wd_p * r^0.53 / kS.
    """
    base = make_base("sp_fullalign", anchor)
    facts = make_facts(base)
    transfer, run = make_transfer(base, facts), target_of(base, facts)
    common = transfer.tokens_ratio**-0.32 * transfer.batch_ratio**0.5
    stretch = transfer.tokens_per_param_ratio**0.53 / transfer.steps_ratio
    proxy_rules = rule_table(base.model, base.parametrisation)
    for before, after in zip(proxy_rules, rule_table(run.model, run.parametrisation), strict=True):
        is_matrix = after.kind in ("matrix", "router", "head")
        s = after.fan_in / before.fan_in if is_matrix else 1.0
        assert isclose(lr_of(run, after), lr_of(base, before) * common / s), after.name
        product = lr_of(base, before) * decay_of(base, before) * stretch
        assert isclose(lr_of(run, after) * decay_of(run, after), product), after.name
        if is_matrix:
            assert isclose(after.init_std, before.init_std * s**-0.5), after.name


def test_target_keeps_its_own_batch_betas_and_clipping() -> None:
    base = make_base()
    run = target_of(base, make_facts(base, beta1=0.8, clip_norm=2.0))
    assert run.batch == BatchSpec(global_batch_sequences=32, seq_len=64)
    optimizer = run.optimizer
    assert (optimizer.beta1, optimizer.beta2, optimizer.clip_norm) == (0.8, 0.98, 2.0)
    assert run.num_steps == 3000
    assert run.num_tokens == 3000 * 32 * 64


def test_schedule_and_warmup_are_the_recipes() -> None:
    base = make_base()
    facts = make_facts(base)
    run = target_run_spec(base, facts, mapped(base, facts), CosineShape())
    assert run.schedule.shape == CosineShape()
    assert run.schedule.warmup_steps == 300


def test_data_evaluation_and_seeds_are_the_proxys() -> None:
    base = make_base()
    run = target_of(base, make_facts(base))
    assert (run.data, run.eval, run.init_seed, run.data_seed) == (
        base.data,
        base.eval,
        base.init_seed,
        base.data_seed,
    )


def test_balance_rate_follows_the_number_of_steps() -> None:
    """3 / 400 steps on the proxy, 3 / 3000 on the target."""
    base = replace(
        make_base(),
        bias_rate=(
            PhaseSpec(until_fraction=0.9, value=7.5e-3),
            PhaseSpec(until_fraction=1.0, value=0.0),
        ),
    )
    run = target_of(base, make_facts(base))
    assert [phase.value for phase in run.bias_rate] == pytest.approx([1e-3, 0.0])


def test_published_phases_win() -> None:
    phases = (PhaseSpec(until_fraction=1.0, value=0.123),)
    base = make_base()
    run = target_of(base, make_facts(base, mtp_weight=phases, bias_rate=phases))
    assert run.mtp_weight == run.bias_rate == phases


def test_prediction_module_cut_from_the_proxy_returns_with_the_published_weight() -> None:
    base = replace(make_base(proxy=make_model(n_mtp_modules=0)), mtp_weight=())
    run = target_of(base, make_facts(base))
    assert run.model.n_mtp_modules == 1
    assert [phase.value for phase in run.mtp_weight] == [0.3, 0.1]


def test_target_without_prediction_module_has_no_weight() -> None:
    base = make_base()
    plain = replace(base.parametrisation.target, n_mtp_modules=0)
    assert target_of(base, make_facts(base, model=plain)).mtp_weight == ()


def test_run_survives_being_stored() -> None:
    base = make_base()
    run = target_of(base, make_facts(base))
    assert decode(RunSpec, encode(run)) == run
