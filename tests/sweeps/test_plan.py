import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.specs.codec import decode_json, encode
from simulator.specs.data import TokenizerSpec
from sweeps.data_outlook import DataOutlook
from sweeps.device_memory import DeviceMemory
from sweeps.draft import Draft
from sweeps.machine import UNKNOWN_MACHINE
from sweeps.plan import make_plan, plan_stages
from sweeps.plan_types import SweepPlan
from sweeps.resolve import draft_sweep
from sweeps.spec import FinalistSpec, SearchSpec
from sweeps.stages import num_planned
from sweeps.tables.search import RunTable
from sweeps.tables.target import CutsTable, HorizonTable, ProxyTable
from tests.builders import make_data
from tests.sweeps.files import PRESETS, QUICKSTART, own_file, preset_file
from tests.sweeps.sweep_specs import make_sweep

GIB = 2**30
H200 = DeviceMemory(name="H200", total_bytes=139 * GIB)

PUBLISHED_TOTALS = {
    "deepseek-v3": 671_026_404_352,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    "kimi-k2": 1_026_408_209_408,
    "llama-3.1-8b": 8_030_261_248,
}


def draft(config: str, **tables: Any) -> Draft:
    machine = replace(UNKNOWN_MACHINE, memory=H200)
    return draft_sweep(preset_file(config, **tables), root=Path(), machine=machine)


def own(**tables: Any) -> Draft:
    return draft_sweep(own_file(**tables), root=QUICKSTART)


def outlook(**changes: Any) -> DataOutlook:
    fields: dict[str, Any] = {
        "sources": ("text",),
        "tokenizer": "bytes",
        "vocab_size": 256,
        "unique_tokens": 10**9,
        "is_estimate": False,
        "is_synthetic": False,
    }
    return DataOutlook(**(fields | changes))


def codes(plan: SweepPlan) -> list[str]:
    return [flag.code for flag in plan.flags]


@pytest.mark.parametrize("config", PRESETS)
def test_the_published_models_are_planned_sanely(config: str) -> None:
    plan = make_plan(draft(config))
    target, proxy = plan.target, plan.proxy
    assert target.model.params_total == PUBLISHED_TOTALS[config]
    assert target.model.params_active_non_embedding > 10 * proxy.model.params_active_non_embedding
    assert proxy.run.tokens_per_param == pytest.approx(target.run.tokens_per_param, rel=1e-3)
    assert proxy.run.batch_over_optimal == pytest.approx(target.run.batch_over_optimal, rel=0.02)
    # 6 N D is a lower bound of the operations, attention and head come on top
    minimum = 6 * target.model.params_active_non_embedding * target.run.num_tokens
    assert 1.0 < target.run.train_flops / minimum < 2.0
    assert 0.001 < plan.cost.share_of_target < 0.1
    assert plan.transfer_axes == ("width",)
    assert not any(flag.code.endswith("over_critical") for flag in plan.flags)


def test_an_eighth_of_deepseek_v3_is_honestly_large() -> None:
    plan = make_plan(draft("deepseek-v3"), memory=H200)
    assert plan.proxy.model.params_total == pytest.approx(10.7e9, rel=0.01)
    assert "large_proxy" in codes(plan)
    assert codes(plan)[0] == "does_not_fit"
    assert plan.memory.fits is False
    assert plan.memory.alternatives


def test_every_alternative_fits_and_names_what_it_adds() -> None:
    plan = make_plan(draft("deepseek-v3"), memory=H200)
    assert plan.memory.room_bytes is not None
    for one in plan.memory.alternatives:
        assert one.state_bytes <= plan.memory.room_bytes
        assert one.added_axes or one.width_factor > 8


def test_an_alternative_can_be_written_into_the_file() -> None:
    for one in make_plan(draft("deepseek-v3"), memory=H200).memory.alternatives:
        table = ProxyTable(width_factor=one.width_factor, cuts=CutsTable(**one.cuts))
        again = make_plan(draft("deepseek-v3", proxy=table), memory=H200)
        assert again.memory.fits
        assert again.memory.state_bytes == again.memory.num_models * one.state_bytes


def test_workers_share_a_cpus_memory_but_not_a_gpus() -> None:
    lanes: dict[str, Any] = {"workers": 3, "cohort_rows": 2}
    on_cpu = make_plan(draft("deepseek-v2-lite", run=RunTable(**lanes)), memory=H200)
    on_gpu = make_plan(draft("deepseek-v2-lite", run=RunTable(device="cuda", **lanes)), memory=H200)
    assert on_cpu.memory.state_bytes == 3 * on_gpu.memory.state_bytes
    assert (on_cpu.memory.num_models, on_gpu.memory.num_models) == (6, 2)


def test_no_more_models_are_held_than_a_round_has_runs() -> None:
    plan = make_plan(draft("deepseek-v2-lite", run=RunTable(cohort_rows=1000)), memory=H200)
    assert plan.memory.num_models == max(
        plan.search.batch_size, *(stage.num_runs for stage in plan.stages[1:])
    )


def test_rows_that_were_left_out_fit_the_memory() -> None:
    plan = make_plan(draft("deepseek-v2", run=RunTable(device="cuda")), memory=H200)
    assert plan.memory.fits
    assert 1 <= plan.execution.num_rows < 16


def test_execution_is_shown_with_its_reasons() -> None:
    plan = make_plan(draft("deepseek-v2-lite", run=RunTable(compile=True, share_prefixes=False)))
    assert plan.execution.is_compiled
    assert plan.execution.compile_reason
    assert not plan.execution.shares_prefixes


def test_an_unknown_memory_is_no_verdict() -> None:
    plan = make_plan(draft("deepseek-v3"))
    assert plan.memory.fits is None
    assert "does_not_fit" not in codes(plan)


@pytest.mark.parametrize("config", PRESETS)
def test_every_dimension_has_its_treatment_and_reason(config: str) -> None:
    plan = make_plan(draft(config))
    assert {change.treatment for change in plan.dimensions} == {"scaled", "kept"}
    assert all(change.reason for change in plan.dimensions)


@pytest.mark.needs_shared
def test_a_sparse_target_is_planned_with_dense_attention(shared_data: Path) -> None:
    config = str(shared_data / "configs" / "deepseek-ai__DeepSeek-V3.2.json")
    plan = make_plan(draft(config))
    assert plan.target.model.params_total == 671_877_929_216
    assert "dense_attention" in codes(plan)


def test_a_cut_is_called_exploratory() -> None:
    plan = make_plan(draft("deepseek-v3", proxy=ProxyTable(cuts=CutsTable(n_layers=7))))
    assert "cut" in {change.treatment for change in plan.dimensions}
    assert "exploratory" in codes(plan)


def test_unequal_tokens_per_parameter_are_flagged() -> None:
    plan = make_plan(own(horizon=HorizonTable(tokens_per_param=20.0)))
    assert "tokens_per_param_mismatch" in codes(plan)
    assert "tokens_per_param_mismatch" not in codes(make_plan(own()))


def test_few_tokens_for_an_expert_are_flagged() -> None:
    few = HorizonTable(num_steps=500, global_batch_sequences=1, seq_len=128)
    many = HorizonTable(num_steps=500, global_batch_sequences=2, seq_len=128)
    assert "tokens_per_expert" in codes(make_plan(own(horizon=few)))
    assert "tokens_per_expert" not in codes(make_plan(own(horizon=many)))


def test_data_read_more_than_four_times_are_flagged() -> None:
    planned = own(horizon=HorizonTable(num_steps=500, global_batch_sequences=2, seq_len=128))
    assert "repeated_data" in codes(make_plan(planned, data=outlook(unique_tokens=31_000)))
    assert "repeated_data" not in codes(make_plan(planned, data=outlook(unique_tokens=33_000)))


def test_generated_text_is_flagged() -> None:
    plan = make_plan(own(), data=outlook(is_synthetic=True, unique_tokens=None))
    assert "synthetic_data" in codes(plan)


def test_data_of_another_vocabulary_are_flagged() -> None:
    assert "vocabulary_unused" in codes(make_plan(draft("deepseek-v3"), data=outlook()))
    assert "vocabulary_unused" not in codes(make_plan(own(), data=outlook()))


def test_a_sweep_dearer_than_a_tenth_of_the_target_is_flagged() -> None:
    long = HorizonTable(tokens_per_param=20.0)
    assert "sweep_cost" in codes(make_plan(own(horizon=long)))
    assert "sweep_cost" not in codes(make_plan(draft("deepseek-v3")))


def test_every_flag_stands_once_and_the_gravest_first() -> None:
    plan = make_plan(draft("deepseek-v3"), data=outlook(), memory=H200)
    assert len(set(codes(plan))) == len(codes(plan))
    ranks = [("red", "amber", "info").index(flag.severity) for flag in plan.flags]
    assert ranks == sorted(ranks)


def test_costs_add_up() -> None:
    plan = make_plan(own())
    runs = sum(stage.num_runs for stage in plan.stages)
    assert plan.cost.num_runs == runs
    assert plan.cost.sweep_flops == pytest.approx(runs * plan.proxy.run.train_flops)
    assert plan.cost.share_of_target == pytest.approx(
        plan.cost.sweep_flops / plan.target.run.train_flops
    )


@given(
    num_trials=st.integers(2, 40),
    max_configs=st.integers(3, 8),
    num_seeds=st.integers(1, 6),
    replicates=st.integers(2, 8),
)
def test_stages_are_those_of_the_study(
    num_trials: int, max_configs: int, num_seeds: int, replicates: int
) -> None:
    search = SearchSpec(sampler="random", num_trials=num_trials, batch_size=2, seed=0)
    finalists = FinalistSpec(
        max_configs=max_configs,
        num_seeds=num_seeds,
        noise_replicates=replicates,
        delta_fraction=0.001,
    )
    stages = plan_stages(search, finalists)
    assert all(stage.num_runs >= 0 for stage in stages)
    sweep = make_sweep(search=search, finalists=finalists)
    assert sum(stage.num_runs for stage in stages) == num_planned(sweep)


def test_warmup_levels_are_shown_in_steps() -> None:
    plan = make_plan(own(horizon=HorizonTable(num_steps=500)))
    assert [level.num_steps for level in plan.warmup_levels] == [10, 30, 100]


def test_matrices_follow_the_width_and_the_embedding_does_not() -> None:
    plan = make_plan(draft("deepseek-v3"))
    proxy, target = plan.multipliers["proxy"], plan.multipliers["target"]
    assert (proxy.matrix_lr, proxy.matrix_decay, proxy.embedding_lr) == (1.0, 1.0, 1.0)
    assert (target.matrix_lr, target.matrix_decay, target.embedding_lr) == (0.125, 8.0, 1.0)


def test_a_plan_is_the_same_for_the_same_sweep() -> None:
    assert make_plan(own(), data=outlook()) == make_plan(own(), data=outlook())


@pytest.mark.parametrize("config", PRESETS)
def test_a_plan_is_read_back_from_json_as_it_was(config: str) -> None:
    plan = make_plan(draft(config), data=outlook(), memory=H200)
    assert decode_json(SweepPlan, json.dumps(encode(plan), allow_nan=False)) == plan


def test_the_planned_space_is_the_sweeps() -> None:
    planned = own()
    data = replace(make_data(), tokenizer=TokenizerSpec(kind="none", vocab_size=256))
    assert make_plan(planned).space == planned.with_data(data).space
