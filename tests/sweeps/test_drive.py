"""Real drivers with real workers: killed, interrupted, doubled, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.records.layout import StudyLayout
from simulator.specs.errors import SpecError, StudyError
from sweeps.clock import SimulatedClock
from sweeps.drive import Driver, Opening, resume, start
from sweeps.spec import BudgetSpec
from sweeps.testing import FakeTrainer
from tests.builders import make_execution
from tests.sweeps.pretended import pretended_sweep, with_defaults
from tests.sweeps.studies import Recorder, results, run_inline, statuses
from tests.sweeps.sweep_specs import make_sweep

ROOT = Path(__file__).resolve().parents[2]
SLOW = {"seconds_per_step": 0.01}


class Drivers:
    """Starts drivers as programs, and leaves none behind."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def begin(self, directory: Path, **options: Any) -> "subprocess.Popen[str]":
        program = subprocess.Popen(
            [sys.executable, "tests/sweeps/pretended.py", str(directory), json.dumps(options)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(program)
        return program

    def finish(self, directory: Path, **options: Any) -> tuple[int, str]:
        """Run a driver to its end; return its exit code and what it said."""
        program = self.begin(directory, **options)
        _, said = program.communicate(timeout=60)
        return program.returncode, said

    def close(self) -> None:
        for program in self._started:
            if program.poll() is None:
                program.kill()
            program.communicate()


@pytest.fixture
def drivers() -> Iterator[Drivers]:
    started = Drivers()
    yield started
    started.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Results of the same sweep, never interrupted, in one process."""
    root = tmp_path_factory.mktemp("whole")
    run_inline(root, pretended_sweep(with_defaults({})))
    return results(root)


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_until(program: "subprocess.Popen[str]", word: str) -> None:
    assert program.stderr is not None
    for line in program.stderr:
        if word in line:
            return
    pytest.fail(f"the driver ended without saying {word!r}")


def children_of(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {int(child) for child in found.split()}


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("num_workers", [1, 2])
def test_number_of_workers_changes_nothing(
    drivers: Drivers, whole: list[Any], tmp_path: Path, num_workers: int
) -> None:
    code, _ = drivers.finish(tmp_path / "study", num_workers=num_workers)
    assert code == 0
    assert results(tmp_path / "study") == whole


def test_killed_driver_takes_its_workers_along_and_is_resumed(
    drivers: Drivers, whole: list[Any], tmp_path: Path
) -> None:
    root = tmp_path / "study"
    program = drivers.begin(root, num_workers=2, trainer=SLOW)
    read_until(program, "RunStarted 4")
    workers = children_of(program.pid)
    assert len(workers) >= 2
    program.kill()
    program.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in workers), seconds=5.0)
    finished = {f for f, status in statuses(root).items() if status == "complete"}
    assert {0, 1, 2} <= finished
    code, said = drivers.finish(root, num_workers=2)
    assert code == 0
    assert f"taking over from process {program.pid}" in said
    assert "RunStarted 0" not in said
    assert results(root) == whole


def test_killed_worker_costs_only_its_cohort(
    drivers: Drivers, whole: list[Any], tmp_path: Path
) -> None:
    root = tmp_path / "study"
    program = drivers.begin(root, num_workers=2, trainer=SLOW)
    read_until(program, "RunStarted 4")
    victims = [pid for pid in children_of(program.pid) if b"spawn_main" in cmdline(pid)]
    os.kill(victims[0], signal.SIGKILL)
    _, said = program.communicate(timeout=60)
    assert program.returncode == 0
    assert said.count("begun again, as the worker was lost (killed by SIGKILL): trial ") == 1
    assert said.count("RunStarted") <= len({trial.fingerprint for trial, _, _ in whole}) + 2
    assert results(root) == whole


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_interrupt_stops_within_seconds_and_is_resumed(
    drivers: Drivers, whole: list[Any], tmp_path: Path
) -> None:
    root = tmp_path / "study"
    program = drivers.begin(root, num_workers=2, trainer=SLOW)
    read_until(program, "RunStarted 4")
    began = time.monotonic()
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, said = program.communicate(timeout=10)
    assert time.monotonic() - began < 3.0
    assert program.returncode == 4
    assert said.rstrip().endswith(f"Resume with: sweep resume {root}")
    assert "Traceback" not in said
    assert list(root.glob("runs/*/checkpoint/step.json"))
    assert not StudyLayout(root).owner.exists()
    code, said = drivers.finish(root, num_workers=2)
    assert code == 0
    assert "taking over" not in said
    assert results(root) == whole


def test_termination_is_an_interrupt(drivers: Drivers, tmp_path: Path) -> None:
    program = drivers.begin(tmp_path / "study", trainer=SLOW)
    read_until(program, "RunStarted 0")
    program.terminate()
    _, said = program.communicate(timeout=10)
    assert program.returncode == 4
    assert "Resume with: sweep resume" in said


def test_second_interrupt_does_not_wait(drivers: Drivers, tmp_path: Path) -> None:
    program = drivers.begin(tmp_path / "study", trainer={"seconds_per_step": 20.0})
    read_until(program, "RunStarted 0")
    os.killpg(program.pid, signal.SIGINT)
    read_until(program, "Notice")
    began = time.monotonic()
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=10)
    assert time.monotonic() - began < 3.0
    assert program.returncode == 4
    assert "Traceback" not in said


def test_second_driver_is_refused(drivers: Drivers, tmp_path: Path) -> None:
    root = tmp_path / "study"
    program = drivers.begin(root, trainer=SLOW)
    read_until(program, "RunStarted 0")
    code, said = drivers.finish(root, trainer=SLOW)
    assert code == 2
    assert "must have no other driver" in said
    assert f"process {program.pid} on " in said


def test_spent_budget_lets_runs_end_and_starts_none(drivers: Drivers, tmp_path: Path) -> None:
    root = tmp_path / "study"
    code, said = drivers.finish(root, trainer=SLOW, max_wall_hours=0.4 / 3600)
    assert code == 4
    assert "budget is spent" in said
    assert f"Resume with: sweep resume {root}" in said
    assert {"complete", "none"} == set(statuses(root).values())


def test_full_disk_in_a_worker_ends_resumable(
    drivers: Drivers, whole: list[Any], tmp_path: Path
) -> None:
    root = tmp_path / "study"
    code, said = drivers.finish(root, trainer={"fills_disk_above_lr": 3e-2})
    assert code == 4
    assert "No space left on device" in said
    code, _ = drivers.finish(root)
    assert code == 0
    assert results(root) == whole


def make_driver(root: Path, **changes: Any) -> Driver:
    fields: dict[str, Any] = {
        "train": FakeTrainer(),
        "cache": root / "cache",
        "observer": Recorder(),
        "clock": SimulatedClock(),
        "code_version": "test",
    }
    return Driver(**(fields | changes))


OPENING = Opening(source="# the user's file\n", plan={"trials": 6})


def test_directory_alone_is_enough_to_resume(tmp_path: Path) -> None:
    root = tmp_path / "study"
    first = start(root, make_sweep(), OPENING, make_driver(tmp_path))
    assert resume(root, make_driver(tmp_path, num_workers=2)) == first
    assert StudyLayout(root).sweep.read_text() == OPENING.source
    assert json.loads(StudyLayout(root).plan.read_text()) == OPENING.plan


def test_failed_runs_are_tried_again_on_request_only(tmp_path: Path) -> None:
    root = tmp_path / "study"
    failing = make_driver(tmp_path, train=FakeTrainer(fails_above_lr=1e-2))
    first = start(root, make_sweep(), OPENING, failing)
    assert first.trials["failed"] > 0
    assert resume(root, make_driver(tmp_path)) == first
    again = resume(root, make_driver(tmp_path), retry_failed=True)
    assert set(again.trials) == {"complete"}


def test_same_sweep_goes_on_whatever_its_workers_and_budget(tmp_path: Path) -> None:
    root = tmp_path / "study"
    sweep = make_sweep()
    first = start(root, sweep, OPENING, make_driver(tmp_path))
    other = replace(sweep, num_workers=2, budget=BudgetSpec(max_wall_hours=9.0))
    assert start(root, other, OPENING, make_driver(tmp_path)) == first


def test_more_workers_than_gpus_are_refused_on_resume(tmp_path: Path) -> None:
    root = tmp_path / "study"
    sweep = make_sweep(execution=make_execution(device="cuda"), num_workers=2)
    start(root, sweep, OPENING, make_driver(tmp_path, num_gpus=2))
    with pytest.raises(SpecError, match=r"--workers must not exceed the GPUs .*\(1\).*got 2"):
        resume(root, make_driver(tmp_path, num_gpus=1))
    resume(root, make_driver(tmp_path, num_gpus=1, num_workers=1))


def test_other_sweep_is_refused_with_what_differs(tmp_path: Path) -> None:
    root = tmp_path / "study"
    sweep = make_sweep()
    start(root, sweep, OPENING, make_driver(tmp_path))
    other = replace(sweep, search=replace(sweep.search, seed=5))
    with pytest.raises(StudyError, match=r"its search\.seed is 0; got 5"):
        start(root, other, OPENING, make_driver(tmp_path))


def test_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StudyError, match=r"thesis\.tex"):
        start(tmp_path, make_sweep(), OPENING, make_driver(tmp_path))
    with pytest.raises(StudyError, match="must be a study directory"):
        resume(tmp_path, make_driver(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study"
    path.write_text("not a folder")
    with pytest.raises(StudyError, match="must be a folder of yours"):
        start(path, make_sweep(), OPENING, make_driver(tmp_path))
    with pytest.raises(StudyError, match="must be a folder of yours"):
        start(path / "inside", make_sweep(), OPENING, make_driver(tmp_path))
    with pytest.raises(StudyError, match="must be a study directory"):
        resume(path, make_driver(tmp_path))


def test_opening_cut_short_is_opened_again(tmp_path: Path) -> None:
    root = tmp_path / "study"
    root.mkdir()
    for name in ("lock", "SWEEP.toml", "plan.json", ".study.json.77.draft"):
        (root / name).write_text("{}")
    start(root, make_sweep(), OPENING, make_driver(tmp_path))
    assert StudyLayout(root).sweep.read_text() == OPENING.source
