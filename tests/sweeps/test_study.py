"""The loop: its stages, and that no interruption shows in what it finds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.records.events import (
    Notice,
    RunFinished,
    RunProgress,
    RunStarted,
    StageStarted,
    StudyEvent,
    StudyFinished,
    StudyStarted,
)
from simulator.records.layout import StudyLayout
from simulator.records.summary import StudySummary
from simulator.records.task import RunListener, TrainTask
from simulator.specs.codec import decode_json, fingerprint
from simulator.specs.errors import EighthscaleError, StoppedError
from sweeps.clock import SimulatedClock
from sweeps.executors import (
    Dropped,
    Ended,
    ExecutorEvent,
    Halted,
    Lost,
    StopUrgency,
)
from sweeps.executors.inline import InlineExecutor
from sweeps.spec import BudgetSpec, SweepSpec
from sweeps.testing import FakeTrainer
from tests.sweeps.studies import (
    Recorder,
    ledger,
    results,
    run_inline,
    small_sweep,
    statuses,
)


class CrashError(BaseException):
    """The driver dies here."""


class Crashing:
    """An observer under which the driver dies at its ``n``-th event, progress not counted."""

    def __init__(self, num_events: int) -> None:
        self._left = num_events

    def __call__(self, event: StudyEvent) -> None:
        if isinstance(event, RunProgress):
            return
        if self._left == 0:
            raise CrashError
        self._left -= 1


class Scripted:
    """An executor whose workers die at the end of cohorts with some tasks, as the script says."""

    def __init__(self, deaths: Callable[[TrainTask, int], bool], train: FakeTrainer) -> None:
        self._inner = InlineExecutor(train)
        self._deaths = deaths
        self._attempts: dict[Path, int] = {}
        self.submitted: list[list[str]] = []

    def submit(self, cohort: Sequence[TrainTask]) -> None:
        self.submitted.append([task.directory.name for task in cohort])
        self._inner.submit(cohort)

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:
        happened = self._inner.events(timeout_seconds)
        tasks = [event.task for event in happened if isinstance(event, Ended)]
        for task in tasks:
            self._attempts[task.directory] = self._attempts.get(task.directory, 0) + 1
        if not any(self._deaths(task, self._attempts[task.directory]) for task in tasks):
            return happened
        for task in tasks:
            (task.directory / "record.json").unlink()
        return tuple(Lost(task, "killed by SIGKILL") for task in tasks)

    def stop(self, urgency: StopUrgency) -> None:
        self._inner.stop(urgency)


def test_stages_follow_each_other(tmp_path: Path) -> None:
    summary = run_inline(tmp_path, small_sweep())
    trials = ledger(tmp_path)
    purposes = [trial.purpose for trial in trials]
    assert purposes[:9] == ["search"] * 7 + ["noise"] * 2
    assert set(purposes[9:]) == {"finalist"}
    assert [trial.number for trial in trials] == [*range(len(trials))]
    assert trials[0].label == "incumbent"
    assert summary.trials == {"complete": len({trial.fingerprint for trial in trials})}
    stored = decode_json(StudySummary, StudyLayout(tmp_path).summary.read_bytes())
    assert stored == summary


def test_batches_have_the_fixed_size(tmp_path: Path) -> None:
    run_inline(tmp_path, small_sweep())
    batches = [trial.batch for trial in ledger(tmp_path) if trial.purpose == "search"]
    assert batches == [-1, 0, 0, 1, 1, 1, 2]


def test_noise_is_measured_on_the_best_and_reused_by_the_finalist(tmp_path: Path) -> None:
    recorder = Recorder()
    run_inline(tmp_path, small_sweep(), observer=recorder)
    rows = results(tmp_path)
    searched = [(loss, trial.number) for trial, _, loss in rows if trial.purpose == "search"]
    noise = [trial for trial, _, _ in rows if trial.purpose == "noise"]
    assert {trial.config for trial in noise} == {min(searched)[1]}
    again = [trial for trial, _, _ in rows if trial.purpose == "finalist"]
    assert {trial.fingerprint for trial in noise} <= {trial.fingerprint for trial in again}
    trained = [event.trial.fingerprint for event in recorder.of(RunStarted)]
    assert len(trained) == len(set(trained))
    finished = [event.trial.fingerprint for event in recorder.of(RunFinished)]
    assert sorted(finished) == sorted(trained)


def test_incumbent_is_a_finalist_however_bad(tmp_path: Path) -> None:
    sweep = small_sweep()
    bad = replace(sweep.incumbent, params=dict(sweep.incumbent.params) | {"peak_lr": 6e-2})
    run_inline(tmp_path, replace(sweep, incumbent=bad))
    finalists = {trial.config for trial in ledger(tmp_path) if trial.purpose == "finalist"}
    assert 0 in finalists
    assert len(finalists) > 1


def test_replicates_share_seeds_across_configurations(tmp_path: Path) -> None:
    tasks: list[TrainTask] = []
    train = FakeTrainer()

    def remember(cohort: Sequence[TrainTask], listener: RunListener) -> None:
        tasks.extend(cohort)
        train(cohort, listener)

    run_inline(tmp_path, small_sweep(), remember)
    seed_of = {trial.fingerprint: trial.seed for trial in ledger(tmp_path)}
    for task in tasks:
        seed = seed_of[fingerprint(task.spec)]
        assert (task.spec.init_seed, task.spec.data_seed) == (seed, seed)


def test_events_tell_the_story(tmp_path: Path) -> None:
    recorder = Recorder()
    run_inline(tmp_path, small_sweep(), observer=recorder)
    assert isinstance(recorder.events[0], StudyStarted)
    assert isinstance(recorder.events[-1], StudyFinished)
    assert [event.name for event in recorder.of(StageStarted)] == ["search", "noise", "finalists"]
    num_runs = sum(event.num_runs for event in recorder.of(StageStarted))
    assert num_runs == len(recorder.of(RunFinished)) == len(recorder.of(RunStarted))


def test_events_of_a_resumed_study_tell_what_was_there(tmp_path: Path) -> None:
    before, after = Recorder(), Recorder()
    run_inline(tmp_path, small_sweep(), observer=before)
    run_inline(tmp_path, small_sweep(), observer=after)
    assert after.of(StageStarted) == before.of(StageStarted)
    assert all(event.is_reused for event in after.of(RunFinished))
    assert [event.trial for event in after.of(RunFinished)] == [
        event.trial for event in before.of(RunFinished)
    ]


def test_diverged_and_failed_runs_do_not_end_the_study(tmp_path: Path) -> None:
    train = FakeTrainer(diverges_above_lr=1e-2, fails_above_lr=3e-2)
    summary = run_inline(tmp_path, small_sweep(num_trials=12), train)
    assert summary.trials["diverged"] > 0
    assert summary.trials["failed"] > 0
    assert summary.verdict in ("resolved", "not_resolved")
    assert "runs_lost" in {flag.code for flag in summary.flags}


def test_study_without_a_single_success_says_so(tmp_path: Path) -> None:
    summary = run_inline(tmp_path, small_sweep(), FakeTrainer(diverges_above_lr=0.0))
    assert summary.verdict == "incomplete"
    assert {trial.purpose for trial in ledger(tmp_path)} == {"search"}


def test_finished_study_trains_nothing_again(tmp_path: Path) -> None:
    first = run_inline(tmp_path, small_sweep())
    recorder = Recorder()
    assert run_inline(tmp_path, small_sweep(), observer=recorder) == first
    assert not recorder.of(RunStarted)
    assert recorder.of(StudyStarted)[0].num_runs_done == first.trials["complete"]


def test_crash_at_any_event_changes_nothing(tmp_path: Path) -> None:
    sweep = small_sweep()
    recorder = Recorder()
    expected_summary = run_inline(tmp_path / "whole", sweep, observer=recorder)
    expected = results(tmp_path / "whole")
    num_events = sum(not isinstance(event, RunProgress) for event in recorder.events)
    for crash in range(num_events):
        root = tmp_path / f"crash{crash}"
        with pytest.raises(CrashError):
            run_inline(root, sweep, observer=Crashing(crash))
        assert run_inline(root, sweep) == expected_summary
        assert results(root) == expected


@pytest.fixture(scope="module")
def whole_studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    roots = {}
    for sampler in ("tpe", "cmaes"):
        roots[sampler] = tmp_path_factory.mktemp(sampler)
        run_inline(roots[sampler], small_sweep(sampler=sampler, num_trials=9), TROUBLED)
    return roots


TROUBLED = FakeTrainer(diverges_above_lr=3e-2)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    sampler=st.sampled_from(["tpe", "cmaes"]),
    crashes=st.lists(st.integers(0, 40), max_size=3),
)
def test_repeated_crashes_change_nothing(
    whole_studies: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
    sampler: str,
    crashes: list[int],
) -> None:
    root = tmp_path_factory.mktemp("crashed")
    sweep = small_sweep(sampler=sampler, num_trials=9)
    for crash in crashes:
        try:
            run_inline(root, sweep, TROUBLED, observer=Crashing(crash))
        except CrashError:
            continue
    run_inline(root, sweep, TROUBLED)
    assert results(root) == results(whole_studies[sampler])


def test_interrupt_saves_the_run_and_names_the_command(tmp_path: Path) -> None:
    sweep = small_sweep()
    run_inline(tmp_path / "whole", sweep)
    started: list[StudyEvent] = []

    def urgency() -> StopUrgency:
        return "preempt" if (root / "runs").exists() else "none"

    root = tmp_path / "stopped"
    with pytest.raises(StoppedError, match=f"sweep resume {root}") as caught:
        run_inline(root, sweep, urgency=urgency, observer=started.append)
    assert caught.value.exit_code == 4
    assert set(statuses(root).values()) == {"none"}
    assert any(isinstance(event, Notice) for event in started)
    run_inline(root, sweep)
    assert results(root) == results(tmp_path / "whole")


def test_spent_budget_starts_nothing_new(tmp_path: Path) -> None:
    sweep = replace(small_sweep(), budget=BudgetSpec(max_wall_hours=1.0))
    clock = SimulatedClock(tick_seconds=1000.0)
    with pytest.raises(StoppedError, match="Resume with"):
        run_inline(tmp_path, sweep, clock=clock)
    done = [status for status in statuses(tmp_path).values() if status == "complete"]
    assert len(done) == 3  # readings at 0 (start), 1000, 2000 and 3000 s; at 4000 s it is over


def test_lost_run_is_begun_again(tmp_path: Path) -> None:
    executor = Scripted(lambda task, attempt: attempt < 3, FakeTrainer())
    recorder = Recorder()
    summary = run_inline(tmp_path / "a", small_sweep(), executor=executor, observer=recorder)
    assert summary == run_inline(tmp_path / "b", small_sweep())
    assert "killed by SIGKILL" in recorder.of(Notice)[0].message


def test_run_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    def dies(task: TrainTask, attempt: int) -> bool:
        return task.spec.optimizer.peak_lr > 2e-2

    executor = Scripted(dies, FakeTrainer())
    summary = run_inline(tmp_path, small_sweep(), executor=executor)
    num_failed = summary.trials["failed"]
    assert num_failed > 0
    assert summary.verdict != "incomplete"
    assert len(executor.submitted) == summary.trials["complete"] + 3 * num_failed


def in_rows(num_rows: int) -> SweepSpec:
    sweep = small_sweep()
    return replace(sweep, execution=replace(sweep.execution, num_rows=num_rows))


def test_round_is_divided_into_cohorts(tmp_path: Path) -> None:
    executor = Scripted(lambda task, attempt: False, FakeTrainer())
    run_inline(tmp_path, in_rows(2), executor=executor)
    number_of = {trial.fingerprint: trial.number for trial in reversed(ledger(tmp_path))}
    numbers = [[number_of[name] for name in cohort] for cohort in executor.submitted]
    assert numbers[:4] == [[0, 2], [1], [3, 5], [4]]
    assert max(len(cohort) for cohort in numbers) == 2
    submitted = [number for cohort in numbers for number in cohort]
    assert len(submitted) == len(set(submitted)) == len(number_of)


def test_cohorts_stay_as_they_were_when_runs_are_finished(tmp_path: Path) -> None:
    """The first driver dies when some runs of a round are finished and others are not."""
    sweep = in_rows(2)
    whole = Scripted(lambda task, attempt: False, FakeTrainer())
    run_inline(tmp_path / "whole", sweep, executor=whole)
    with pytest.raises(CrashError):
        run_inline(tmp_path / "cut", sweep, observer=Crashing(9))
    done = {
        trial.fingerprint
        for trial in ledger(tmp_path / "cut")
        if statuses(tmp_path / "cut")[trial.number] == "complete"
    }
    rest = Scripted(lambda task, attempt: False, FakeTrainer())
    run_inline(tmp_path / "cut", sweep, executor=rest)
    assert done
    expected = [[name for name in cohort if name not in done] for cohort in whole.submitted]
    assert rest.submitted == [cohort for cohort in expected if cohort]


def test_lost_cohort_is_begun_again_together_and_at_last_alone(tmp_path: Path) -> None:
    def dies(task: TrainTask, attempt: int) -> bool:
        return task.directory.name == guilty

    sweep = in_rows(2)
    run_inline(tmp_path / "whole", sweep)
    guilty = ledger(tmp_path / "whole")[2].fingerprint
    executor = Scripted(dies, FakeTrainer())
    summary = run_inline(tmp_path / "study", sweep, executor=executor)
    innocent = ledger(tmp_path / "study")[0].fingerprint
    about = [cohort for cohort in executor.submitted if {guilty, innocent} & set(cohort)]
    assert about[:4] == [[innocent, guilty], [innocent, guilty], [innocent], [guilty]]
    assert summary.trials["failed"] == 1


class Halting:
    """An executor on a machine that cannot go on."""

    def __init__(self, *, is_resumable: bool) -> None:
        self._halted = Halted("no space left on device", is_resumable=is_resumable)

    def submit(self, cohort: Sequence[TrainTask]) -> None:
        self._cohort = cohort

    def events(self, timeout_seconds: float) -> tuple[ExecutorEvent, ...]:
        return (self._halted, *(Dropped(task) for task in self._cohort))

    def stop(self, urgency: StopUrgency) -> None:
        pass


@pytest.mark.parametrize(("is_resumable", "exit_code"), [(True, 4), (False, 1)])
def test_halted_machine_stops_the_study(tmp_path: Path, is_resumable: bool, exit_code: int) -> None:
    with pytest.raises(EighthscaleError, match="no space left") as caught:
        run_inline(tmp_path, small_sweep(), executor=Halting(is_resumable=is_resumable))
    assert caught.value.exit_code == exit_code
    assert len(ledger(tmp_path)) == 3


class FillingDisk:
    """An observer that puts a full disk under the ledger while the second batch runs."""

    def __init__(self, ledger_path: Path) -> None:
        self._path = ledger_path

    def __call__(self, event: StudyEvent) -> None:
        if isinstance(event, RunStarted) and event.trial.number == 3:
            self._path.rename(self._path.with_name("kept"))
            self._path.symlink_to("/dev/full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs program: a Linux /dev/full")
def test_full_disk_under_the_ledger_stops_in_order(tmp_path: Path) -> None:
    sweep = small_sweep()
    run_inline(tmp_path / "whole", sweep)
    root = tmp_path / "full"
    path = StudyLayout(root).ledger
    with pytest.raises(StoppedError, match="takes no more: No space left on device"):
        run_inline(root, sweep, observer=FillingDisk(path))
    path.unlink()
    path.with_name("kept").rename(path)
    assert list(statuses(root).values()) == ["complete"] * 6
    run_inline(root, sweep)
    assert results(root) == results(tmp_path / "whole")
