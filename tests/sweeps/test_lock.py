"""One driver a study, and what a dead one leaves."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.records.layout import StudyLayout
from simulator.records.owner import Owner, is_owner_alive
from simulator.specs.errors import StudyError
from sweeps.clock import SimulatedClock
from sweeps.lock import hold

CLOCK = SimulatedClock(1_000_000_000.0)


def leave_owner(layout: StudyLayout, **changes: object) -> None:
    fields = {"pid": os.getpid(), "host": socket.gethostname(), "since": "", "process_start": ""}
    layout.owner.write_text(json.dumps(fields | changes))


def dead_pid() -> int:
    program = subprocess.Popen([sys.executable, "-c", ""])
    program.wait()
    return program.pid


def test_owner_is_named_while_the_lock_is_held(tmp_path: Path) -> None:
    layout = StudyLayout(tmp_path)
    with hold(layout, CLOCK) as before:
        assert before is None
        owner = json.loads(layout.owner.read_text())
        assert owner["pid"] == os.getpid()
        assert owner["host"] == socket.gethostname()
        assert owner["since"] == "2001-09-09T01:46:40+00:00"
        assert is_owner_alive(Owner(**owner))
    assert not layout.owner.exists()


def test_second_holder_is_refused_with_the_first_ones_name(tmp_path: Path) -> None:
    layout = StudyLayout(tmp_path)
    message = f"process {os.getpid()} on {socket.gethostname()}, driving it since 2001-09-09"
    with (
        hold(layout, CLOCK),
        pytest.raises(StudyError, match=message),
        hold(layout, CLOCK),
    ):
        pytest.fail("two drivers")
    assert not layout.owner.exists()
    with hold(layout, CLOCK) as before:
        assert before is None


def test_holder_that_has_not_written_its_name_is_refused_too(tmp_path: Path) -> None:
    layout = StudyLayout(tmp_path)
    with hold(layout, CLOCK):
        layout.owner.unlink()
        with pytest.raises(StudyError, match="just started"), hold(layout, CLOCK):
            pytest.fail("two drivers")


def test_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    layout = StudyLayout(tmp_path)
    pid = dead_pid()
    leave_owner(layout, pid=pid)
    with hold(layout, CLOCK) as before:
        assert before is not None
        assert before.pid == pid
        assert json.loads(layout.owner.read_text())["pid"] == os.getpid()


def test_recycled_process_number_is_recognised(tmp_path: Path) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs program: a Linux /proc")
    layout = StudyLayout(tmp_path)
    leave_owner(layout, pid=os.getppid(), process_start="1")
    with hold(layout, CLOCK) as before:
        assert before is not None


@pytest.mark.parametrize("other", [{"pid": os.getppid()}, {"host": "elsewhere", "pid": 1}])
def test_owner_that_may_live_is_refused_without_its_lock(
    tmp_path: Path, other: dict[str, object]
) -> None:
    layout = StudyLayout(tmp_path)
    leave_owner(layout, **other)
    with pytest.raises(StudyError, match=r"delete owner\.json"), hold(layout, CLOCK):
        pytest.fail("two drivers")
    layout.owner.unlink()
    with hold(layout, CLOCK):
        pass


def test_torn_owner_file_is_no_obstacle(tmp_path: Path) -> None:
    layout = StudyLayout(tmp_path)
    layout.owner.write_text('{"pid": 1')
    with hold(layout, CLOCK) as before:
        assert before is None
