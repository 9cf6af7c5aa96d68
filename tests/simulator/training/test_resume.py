"""An interrupted run goes on as if nothing had happened: bitwise, on the CPU."""

import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from simulator.specs.codec import fingerprint
from simulator.training.checkpoint import CheckpointFolder
from tests.builders import make_run, resolved
from tests.simulator.training.runs import AfterSteps, Runs, series

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def expected(finished: Runs) -> list[dict[str, Any]]:
    """Series of the run that nobody interrupted."""
    return series(finished()[1])


@pytest.mark.parametrize("stop_after", [3, 10, 17])
def test_preempted_and_resumed_run_is_bitwise_equal(
    run: Runs, expected: list[dict[str, Any]], stop_after: int
) -> None:
    first, reader = run(should_stop=AfterSteps(stop_after))
    assert (first.status, first.num_steps_done, first.loss) == ("preempted", stop_after, None)
    assert reader.layout.checkpoint.exists()
    second, reader = run()
    assert second.status == "complete"
    assert series(reader) == expected


def test_run_preempted_twice_is_bitwise_equal(run: Runs, expected: list[dict[str, Any]]) -> None:
    run(should_stop=AfterSteps(7))
    run(should_stop=AfterSteps(6))
    assert series(run()[1]) == expected


def test_crashed_and_resumed_run_is_bitwise_equal(
    run: Runs, expected: list[dict[str, Any]]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(should_stop=AfterSteps(13, KeyboardInterrupt()))
    assert series(run()[1]) == expected


KILLED_RUN = """
    import os, pickle, signal, sys
    from simulator.training import execute_run

    with open(sys.argv[1], "rb") as file:
        task = pickle.load(file)
    steps = []

    def should_stop():
        steps.append(0)
        if len(steps) == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    execute_run(task, lambda step, loss: None, should_stop)
"""


def test_killed_process_loses_only_what_came_after_its_checkpoint(
    run: Runs, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    task = run.task(resolved(make_run(), run.cache))
    pickled = tmp_path / "task.pickle"
    pickled.write_bytes(pickle.dumps(task))
    command = [sys.executable, "-c", textwrap.dedent(KILLED_RUN), str(pickled)]
    killed = subprocess.run(command, cwd=ROOT, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    checkpoints = list((task.directory / "checkpoint").iterdir())
    assert [path.name for path in checkpoints] == ["step-00000010"]
    told: list[int] = []
    record, reader = run(report=lambda step, loss: told.append(step))
    assert record.status == "complete"
    assert told[0] == 11
    assert series(reader) == expected


def test_damaged_checkpoint_makes_the_run_start_over_and_say_so(
    run: Runs, expected: list[dict[str, Any]]
) -> None:
    _, reader = run(should_stop=AfterSteps(12))
    (saved,) = reader.layout.checkpoint.iterdir()
    content = bytearray((saved / "tensors.safetensors").read_bytes())
    content[-100] ^= 1
    (saved / "tensors.safetensors").write_bytes(bytes(content))
    record, reader = run()
    assert record.status == "complete"
    assert "step-00000012 cannot be used: tensors.safetensors" in record.reason
    assert series(reader) == expected


def test_checkpoint_of_another_specification_is_not_taken_up(
    run: Runs, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    _, other = run(folder="other", init_seed=7, should_stop=AfterSteps(12))
    shutil.copytree(other.layout.checkpoint, tmp_path / "run" / "checkpoint")
    record, reader = run()
    assert "cannot be used" in record.reason
    assert series(reader) == expected


def test_checkpoint_lies_where_the_layout_says(run: Runs) -> None:
    _, reader = run(should_stop=AfterSteps(4))
    spec = reader.spec
    assert spec is not None
    folder = CheckpointFolder(reader.layout.checkpoint, identity=fingerprint(spec))
    assert folder.restore({}) is None  # found, and refused for its tensors
    assert "other tensors" in folder.faults[0]
