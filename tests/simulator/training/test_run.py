"""A run from its task to its record: what is learnt, what is left on the disk, how it fails."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simulator.counting.flops import flops_per_token
from simulator.data import resolve_data
from simulator.records.layout import RunLayout
from simulator.records.reader import RunReader
from simulator.records.types import RunRecord
from simulator.specs.codec import decode_json, fingerprint
from simulator.specs.data import SourceSpec, TokenizerChoice, TokenizerSpec, ValidationSpec
from simulator.specs.run import AdamWSpec, RunSpec
from simulator.training import execute_run
from simulator.training.corpora import OpenCorpora
from tests.builders import make_model, make_run, resolved
from tests.simulator.training.runs import AfterSteps, Runs, ignore, never, series


def test_complete_run_learns_and_says_everything_about_itself(run: Runs) -> None:
    record, reader = run(num_steps=60)
    spec = reader.spec
    assert spec is not None
    assert record == reader.record
    assert (record.status, record.reason) == ("complete", "")
    assert record.fingerprint == fingerprint(spec)
    assert record.loss == record.losses["heldout"]
    assert record.unigram_entropy is not None
    assert record.exact_entropy is not None
    assert record.exact_entropy < record.losses["heldout"] < 0.85 * record.unigram_entropy
    assert (record.num_steps_done, record.num_tokens) == (60, 60 * 256)
    flops = flops_per_token(spec.model, 32).training_with_mtp
    assert record.train_flops == pytest.approx(flops * 60 * 256)
    assert record.execution.device == "cpu"
    assert record.wall_seconds > 0


def test_loss_of_a_run_is_the_mean_of_its_final_evaluations(finished: Runs) -> None:
    record, reader = finished()
    final = [point.loss["heldout"] for point in reader.evals() if point.step in (16, 18, 20)]
    assert len(final) == 3
    assert record.loss == pytest.approx(sum(final) / 3)


def test_folder_holds_the_specification_and_three_series(finished: Runs) -> None:
    _, reader = finished()
    assert reader.spec is not None
    assert [point.step for point in reader.steps()] == list(range(1, 21))
    assert [point.step for point in reader.evals()] == [5, 10, 15, 16, 18, 20]
    assert [point.step for point in reader.health()] == [5, 10, 15, 16, 18, 20]
    assert not reader.layout.checkpoint.exists()


def test_health_series_shows_every_layer_and_head(finished: Runs) -> None:
    point = finished()[1].health()[-1]
    assert [len(layer) for layer in point.max_attention_logit] == [4, 4, 4]
    assert len(point.max_violation) == 3
    assert point.min_grad_rms_over_eps > 1e3


def test_same_run_twice_is_bitwise_equal(run: Runs, finished: Runs) -> None:
    assert series(run()[1]) == series(finished()[1])


def test_micro_batch_changes_rounding_only(run: Runs) -> None:
    whole = run(folder="a", num_steps=5)[1].steps()
    parts = run(folder="b", num_steps=5, execution={"micro_batch_sequences": 3})[1].steps()
    assert whole[0].loss == pytest.approx(parts[0].loss, rel=1e-5)
    assert whole[-1].loss == pytest.approx(parts[-1].loss, rel=1e-3)


def test_settled_folder_is_returned_as_it_is(finished: Runs) -> None:
    record, reader = finished()
    before = reader.layout.steps.stat().st_mtime_ns

    def complain(step: int, loss: float) -> None:
        raise AssertionError("trained again")

    again, _ = finished(report=complain)
    assert again == record
    assert reader.layout.steps.stat().st_mtime_ns == before


def test_exploding_run_is_diverged_with_a_reason(run: Runs) -> None:
    optimizer = AdamWSpec(peak_lr=1e30, weight_decay=0.0, clip_norm=0.0)
    record, reader = run(optimizer=optimizer)
    assert record.status == "diverged"
    assert record.reason.startswith("diverged: loss ")
    assert (record.loss, record.losses) == (None, {})
    assert len(reader.steps()) == record.num_steps_done < 20
    assert not reader.layout.checkpoint.exists()


def test_diverged_record_is_plain_json(run: Runs) -> None:
    optimizer = AdamWSpec(peak_lr=1e30, weight_decay=0.0, clip_norm=0.0)
    record, reader = run(optimizer=optimizer)
    assert decode_json(RunRecord, reader.layout.record.read_text()) == record


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 10 bytes"),
    ],
    ids=["cuda", "python", "cpu"],
)
def test_lack_of_memory_names_the_micro_batch(run: Runs, error: Exception) -> None:
    record, _ = run(should_stop=AfterSteps(7, error))
    assert record.status == "oom"
    assert "execution.micro_batch_sequences = 8" in record.reason
    assert record.num_steps_done == 5  # what is on the disk


def test_run_out_of_memory_goes_on_with_a_smaller_micro_batch(run: Runs) -> None:
    run(should_stop=AfterSteps(7, MemoryError()))
    told: list[int] = []
    record, _ = run(
        report=lambda step, loss: told.append(step), execution={"micro_batch_sequences": 4}
    )
    assert record.status == "complete"
    assert told[0] == 6


def test_defect_of_ours_raises(run: Runs) -> None:
    with pytest.raises(RuntimeError, match="shapes differ"):
        run(should_stop=AfterSteps(3, RuntimeError("shapes differ")))


def test_full_disk_raises_and_leaves_no_record(run: Runs, tmp_path: Path) -> None:
    def fill(step: int, loss: float) -> None:
        target = tmp_path / "run" / "evals.jsonl"
        if not target.is_symlink():
            target.symlink_to("/dev/full")

    with pytest.raises(OSError, match="No space left on device") as caught:
        run(report=fill)
    assert caught.value.errno == errno.ENOSPC
    assert not (tmp_path / "run" / "record.json").exists()
    (tmp_path / "run" / "evals.jsonl").unlink()
    record, reader = run()
    assert record.status == "complete"
    assert [point.step for point in reader.evals()] == [5, 10, 15, 16, 18, 20]


def test_file_that_cannot_be_written_is_a_failed_run(run: Runs, tmp_path: Path) -> None:
    (tmp_path / "run" / "evals.jsonl").mkdir(parents=True)
    record, _ = run()
    assert record.status == "failed"
    assert "evals.jsonl" in record.reason


def execute(runs: Runs, spec: RunSpec) -> RunRecord:
    """Execute a specification as it is, data unresolved."""
    return execute_run(runs.task(spec), ignore, never)


def test_changed_data_are_a_failed_run(run: Runs) -> None:
    spec = resolved(make_run(), run.cache)
    record = execute(run, replace(spec, data=replace(spec.data, content_sha256="0" * 64)))
    assert record.status == "failed"
    assert "must be the data that were resolved" in record.reason
    assert record.unigram_entropy is None


def test_model_with_too_few_ids_is_a_failed_run(run: Runs) -> None:
    spec = resolved(make_run(), run.cache)
    data = replace(spec.data, tokenizer=TokenizerSpec(kind="none", vocab_size=300))
    record = execute(run, replace(spec, data=data))
    assert record.status == "failed"
    assert "run.model.vocab_size must be at least data.tokenizer.vocab_size (300)" in record.reason


def test_corpus_is_opened_once_for_all_runs_of_a_worker(cache: Path) -> None:
    corpora = OpenCorpora()
    spec = resolved(make_run(), cache)
    other = replace(spec, init_seed=3, num_steps=7)
    assert corpora.corpus(spec, cache=cache) is corpora.corpus(other, cache=cache)
    longer = resolved(replace(make_run(), batch=replace(spec.batch, seq_len=64)), cache)
    assert corpora.corpus(longer, cache=cache) is not corpora.corpus(spec, cache=cache)


def test_threads_are_set_for_the_run_and_put_back(run: Runs) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def note(step: int, loss: float) -> None:
        seen.append(torch.get_num_threads())

    run(num_steps=2, report=note, execution={"num_threads": before + 1})
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before


def test_text_gives_bits_per_byte(run: Runs, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 400)
    data = resolve_data(
        (SourceSpec(kind="text", path=str(text)),),
        TokenizerChoice(kind="bytes"),
        (ValidationSpec(name="tail", num_sequences=4),),
        0.1,
        root=tmp_path,
        cache=run.cache,
        seq_len=32,
        num_extra_tokens=2,
    )
    model = make_model(vocab_size=data.tokenizer.vocab_size)
    spec = make_run(model=model, data=data, num_steps=6)
    assert execute(run, spec).status == "complete"
    last = RunReader(RunLayout(tmp_path / "run"), has_driver=False).evals()[-1]
    bits = last.bits_per_byte["tail"]
    assert bits is not None
    assert bits == pytest.approx(last.loss["tail"] / 0.6931471805599453)
