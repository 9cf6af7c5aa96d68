from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaling.transfer import map_to_target
from simulator.specs.codec import decode, encode
from simulator.specs.data import DataSpec, SourceSpec, TokenizerChoice, TokenizerSpec
from simulator.specs.errors import DataError, SpecError
from simulator.specs.model import MLASpec
from simulator.specs.run import AdamWSpec, MuonScale, MuonSpec
from sweeps.draft import Draft
from sweeps.file import SweepFile, load_sweep
from sweeps.machine import UNKNOWN_MACHINE
from sweeps.resolve import draft_sweep, resolve, tokenizer_choice
from sweeps.scales import transfer_of
from sweeps.space import apply
from sweeps.spec import SweepSpec
from sweeps.tables.search import IncumbentTable, RunTable
from sweeps.tables.target import (
    CutsTable,
    DataTable,
    EvaluationTable,
    HorizonTable,
    ParametrisationTable,
    ProxyTable,
)
from tests.builders import make_data, make_model
from tests.sweeps.files import PRESETS, QUICKSTART, SYNTHETIC, own_file, preset_file, write_own


def preset(config: str = "deepseek-v2-lite", **tables: Any) -> Draft:
    return draft_sweep(preset_file(config, **tables), root=Path())


def own(**tables: Any) -> Draft:
    return draft_sweep(own_file(**tables), root=QUICKSTART)


def data_of(vocab_size: int) -> DataSpec:
    return make_data(tokenizer=TokenizerSpec(kind="none", vocab_size=vocab_size))


@pytest.mark.parametrize("config", PRESETS)
def test_the_proxy_is_an_eighth_as_wide_and_as_long_trained_per_parameter(config: str) -> None:
    draft = preset(config)
    assert draft.proxy.width_factor == 8
    assert draft.transfer.width_ratio == 8.0
    assert draft.transfer.tokens_per_param_ratio == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("config", PRESETS)
def test_the_incumbent_is_the_published_recipe_on_the_proxy(config: str) -> None:
    draft = preset(config)
    assert draft.incumbent.source.startswith(draft.target.recipe_source)
    back = map_to_target(draft.incumbent.params, draft.transfer)
    assert back.weight_decay == pytest.approx(0.1, rel=0.1)
    assert back.warmup_steps == pytest.approx(draft.target.warmup_steps, abs=1)


def test_a_complete_sweep_is_read_back_as_it_was() -> None:
    sweep = own().with_data(data_of(256))
    assert decode(SweepSpec, encode(sweep)) == sweep


def test_the_transfer_planned_is_the_one_the_study_uses() -> None:
    draft = own()
    assert transfer_of(draft.with_data(data_of(256))) == draft.transfer


def test_the_base_run_is_the_incumbents() -> None:
    sweep = own().with_data(data_of(256))
    assert apply(sweep, sweep.incumbent.params, 0) == sweep.base


@pytest.mark.parametrize("scale", ["rms_matched", "spectral"])
def test_muon_trains_proxy_and_target_with_one_scale(scale: MuonScale) -> None:
    draft = own(
        target={"optimizer": "muon"}, parametrisation=ParametrisationTable(muon_scale=scale)
    )
    assert isinstance(draft.optimizer, MuonSpec)
    assert draft.optimizer.muon_scale == draft.transfer.muon_scale == scale
    sweep = draft.with_data(data_of(256))
    assert decode(SweepSpec, encode(sweep)) == sweep
    assert apply(sweep, sweep.incumbent.params, 0) == sweep.base
    assert transfer_of(sweep) == draft.transfer


def test_adamw_has_no_muon_scale() -> None:
    draft = own(parametrisation=ParametrisationTable(muon_scale="spectral"))
    assert isinstance(draft.optimizer, AdamWSpec)
    assert draft.transfer.muon_scale is None


def test_a_target_without_a_known_rate_still_has_an_incumbent() -> None:
    draft = own()
    assert draft.incumbent.source.startswith("rules for models without a published recipe")


def test_a_given_incumbent_is_taken() -> None:
    table = IncumbentTable(peak_lr=1e-3, tau=0.3, warmup_ratio=0.06, schedule="constant")
    draft = own(incumbent=table)
    assert draft.incumbent.params["peak_lr"] == 1e-3
    assert "constant" in {named.name for named in draft.space.schedules}


def test_data_with_more_ids_than_the_proxy_knows_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        own().with_data(data_of(257))
    assert caught.value.path == "data.tokenizer.vocab_size"


def test_the_names_come_from_the_target_unless_given() -> None:
    assert (own().name, own().target.name) == ("quickstart", "quickstart")
    assert own(name="mine").name == "mine"
    assert own(target={"name": "big"}).target.name == "big"


def test_cuts_reach_the_proxy() -> None:
    draft = preset("deepseek-v3", proxy=ProxyTable(cuts=CutsTable(n_layers=7, n_mtp_modules=0)))
    assert draft.proxy.model.n_layers == 7
    assert draft.mtp_weight == ()
    assert "depth" in draft.proxy.transfer_axes


def test_ranks_can_be_held() -> None:
    draft = preset("deepseek-v3", proxy=ProxyTable(ranks="hold"))
    attention = draft.proxy.model.attention
    assert isinstance(attention, MLASpec)
    assert attention.kv_lora_rank == 512


def test_the_parametrisation_is_passed_on() -> None:
    table = ParametrisationTable(kind="mup", anchor="target")
    found = own(parametrisation=table).parametrisation
    assert (found.kind, found.anchor) == ("mup", "target")


def test_phases_follow_target_and_run_length() -> None:
    draft = own(horizon=HorizonTable(num_steps=500))
    assert [phase.value for phase in draft.mtp_weight] == [0.3, 0.1]
    assert [phase.value for phase in draft.bias_rate] == pytest.approx([6e-3, 0.0])


def test_sequences_longer_than_the_context_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        own(horizon=HorizonTable(seq_len=513))
    assert caught.value.path == "horizon.seq_len"


def horizon_of_batch(sequences: int) -> HorizonTable:
    return HorizonTable(num_steps=100, global_batch_sequences=sequences, seq_len=512)


@pytest.mark.parametrize(
    ("sequences", "beta2"),
    [(4, 0.95), (2, 0.95**0.5), (8, 0.95**2), (16, 0.9), (1, 0.95**0.25), (17, 0.95)],
)
def test_beta2_of_the_proxy_keeps_its_half_life_in_tokens(sequences: int, beta2: float) -> None:
    draft = own(target={"global_batch_sequences": 4}, horizon=horizon_of_batch(sequences))
    assert draft.optimizer.beta2 == pytest.approx(beta2)


@pytest.mark.parametrize("sequences", [1, 2, 4, 16, 17, 64])
def test_beta2_of_the_target_is_never_changed(sequences: int) -> None:
    draft = own(target={"beta2": 0.97}, horizon=horizon_of_batch(sequences))
    assert draft.target.beta2 == 0.97
    assert draft.transfer.beta2 == 0.97


def test_a_changed_or_kept_beta2_is_named() -> None:
    target = {"global_batch_sequences": 4}
    far = own(target=target, horizon=horizon_of_batch(17)).notes
    near = own(target=target, horizon=horizon_of_batch(2)).notes
    same = own(target=target, horizon=horizon_of_batch(4)).notes
    assert any(note.startswith("beta2 0.95 as on the target") for note in far)
    assert any(note.startswith("beta2 0.9747 on the proxy") for note in near)
    assert not any(note.startswith("beta2") for note in same)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 10, 500, 12345])
def test_closing_evaluations_fit_into_the_run(num_steps: int) -> None:
    found = own(horizon=HorizonTable(num_steps=num_steps)).eval
    assert 1 <= found.interval_steps <= num_steps
    assert (found.final_points - 1) * found.final_spacing_steps < num_steps


def test_evaluations_are_as_asked() -> None:
    table = EvaluationTable(num_points=5, final_points=4, final_spacing_fraction=0.02)
    found = own(horizon=HorizonTable(num_steps=500), evaluation=table).eval
    assert (found.interval_steps, found.final_points, found.final_spacing_steps) == (100, 4, 10)


def test_execution_defaults_by_device() -> None:
    cpu = preset().execution
    assert (cpu.device, cpu.precision, cpu.num_threads) == ("cpu", "fp32", 1)
    assert preset(run=RunTable(device="cuda:1")).execution.precision == "bf16"
    assert preset(run=RunTable(device="cuda", precision="fp32")).execution.precision == "fp32"


def test_a_micro_batch_is_at_most_the_batch() -> None:
    own_batch = own(horizon=horizon_of_batch(2))
    assert own_batch.execution.micro_batch_sequences == 2


def test_a_checkpoint_is_made_ten_times_a_run_unless_said() -> None:
    horizon = HorizonTable(num_steps=500)
    assert own(horizon=horizon).execution.checkpoint_interval_steps == 50
    never = own(horizon=horizon, run=RunTable(checkpoint_interval_steps=0))
    assert never.execution.checkpoint_interval_steps == 0


def test_workers_come_from_the_file_or_the_machine() -> None:
    assert own(run=RunTable(workers=3)).num_workers == 3
    machine = replace(UNKNOWN_MACHINE, num_cores=2)
    assert draft_sweep(own_file(), root=QUICKSTART, machine=machine).num_workers == 2


TEXT = SourceSpec(kind="text", path="x")
IDS = SourceSpec(kind="npy", path="x.npy")


@pytest.mark.parametrize(
    ("source", "kind", "vocab_size"),
    [(TEXT, "bytes", None), (IDS, "none", 256), (SYNTHETIC, "none", None)],
)
def test_the_tokenizer_follows_the_sources(
    source: SourceSpec, kind: str, vocab_size: int | None
) -> None:
    choice = tokenizer_choice(DataTable(sources=(source,)), make_model())
    assert (choice.kind, choice.vocab_size) == (kind, vocab_size)


def test_a_given_tokenizer_is_kept() -> None:
    given = TokenizerChoice(kind="bpe", vocab_size=512)
    assert tokenizer_choice(DataTable(sources=(TEXT,), tokenizer=given), make_model()) == given


def test_a_file_is_resolved_to_the_end(tmp_path: Path) -> None:
    path = write_own(tmp_path, "[horizon]\nnum_steps = 20\nglobal_batch_sequences = 2")
    sweep = resolve(load_sweep(path), root=tmp_path, cache=tmp_path / "cache")
    assert sweep.base.data.content_sha256
    assert sweep.base.data.tokenizer.vocab_size == 256
    assert decode(SweepSpec, encode(sweep)) == sweep


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("hello world, and so on. " * 2000)
    file = load_sweep(write_own(tmp_path, "[horizon]\nnum_steps = 20\nseq_len = 32"))
    file = replace(file, data=DataTable(sources=(SourceSpec(kind="text", path="text.txt"),)))
    sweep = resolve(file, root=tmp_path, cache=tmp_path / "cache")
    assert sweep.base.data.sources[0].path == str(tmp_path / "text.txt")
    assert sweep.base.data.tokenizer.kind == "bytes"


def test_missing_data_are_refused(tmp_path: Path) -> None:
    file = load_sweep(write_own(tmp_path, "[horizon]\nnum_steps = 20"))
    file = replace(file, data=DataTable(sources=(TEXT,)))
    with pytest.raises(DataError):
        resolve(file, root=tmp_path, cache=tmp_path / "cache")


def test_the_quickstart_is_what_it_promises() -> None:
    file: SweepFile = load_sweep(QUICKSTART / "SWEEP.toml")
    draft = draft_sweep(file, root=QUICKSTART)
    target, proxy = draft.target.model, draft.proxy.model
    assert target.dim >= 1024
    assert target.n_layers >= 3
    assert (proxy.dim, proxy.attention.n_heads) == (128, 4)
    assert isinstance(target.attention, MLASpec)
    assert target.moe is not None
    assert target.n_mtp_modules == 1
    assert (draft.num_steps, draft.batch.global_batch_tokens) == (500, 256)
    assert draft.search.num_trials >= 13
    assert draft.finalists.num_seeds == 3
