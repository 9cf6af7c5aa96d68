import os
import stat
from pathlib import Path

import pytest

from sweeps.device_memory import count_gpus, detect_memory


def with_program(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """Put a driver program on the path that answers as NVIDIA's does."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin")


def test_main_memory_is_that_of_a_computer() -> None:
    found = detect_memory("cpu")
    assert found is not None
    assert 2**27 < found.total_bytes < 2**50


def test_a_gpu_is_found_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "printf 'NVIDIA H200, 143771\\nNVIDIA L4, 23034\\n'"
    with_program(tmp_path, monkeypatch, answer)
    first, second = detect_memory("cuda"), detect_memory("cuda:1")
    assert first is not None
    assert second is not None
    assert (first.name, first.total_bytes) == ("NVIDIA H200", 143771 * 2**20)
    assert (second.name, second.total_bytes) == ("NVIDIA L4", 23034 * 2**20)
    assert detect_memory("cuda:2") is None
    assert count_gpus() == 2


@pytest.mark.parametrize("answer", ["exit 9", "echo nothing found", "echo 'NVIDIA X, [N/A]'"])
def test_a_driver_that_does_not_know_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    with_program(tmp_path, monkeypatch, answer)
    assert detect_memory("cuda") is None


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert detect_memory("cuda") is None
    assert count_gpus() is None
