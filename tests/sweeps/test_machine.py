import os
from pathlib import Path

import pytest

from simulator.specs.errors import SpecError
from sweeps.machine import look_at_machine, refuse_more_than_gpus, usable_gpus
from tests.sweeps.test_device_memory import with_program

TWO_GPUS = "printf 'NVIDIA H200, 143771\\nNVIDIA L4, 23034\\n'"


def test_cores_are_those_this_process_may_use() -> None:
    found = look_at_machine("cpu", {})
    assert 1 <= found.num_cores <= (os.cpu_count() or 1)
    assert found.num_gpus is None
    assert found.memory is not None


def test_gpus_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_program(tmp_path, monkeypatch, TWO_GPUS)
    found = look_at_machine("cuda", {})
    assert found.num_gpus == 2
    assert found.memory is not None
    assert found.memory.name == "NVIDIA H200"


@pytest.mark.parametrize(
    ("visible", "expected"), [("0", 1), ("0,1", 2), ("0,1,2", 2), ("", 0), ("GPU-a, GPU-b", 2)]
)
def test_hidden_gpus_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, expected: int
) -> None:
    with_program(tmp_path, monkeypatch, TWO_GPUS)
    assert usable_gpus({"CUDA_VISIBLE_DEVICES": visible}) == expected


def test_without_a_driver_nobody_can_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usable_gpus({}) is None
    assert usable_gpus({"CUDA_VISIBLE_DEVICES": "0"}) is None


def test_one_worker_a_gpu_is_the_most() -> None:
    refuse_more_than_gpus("--workers", 2, "cuda", 2)
    refuse_more_than_gpus("--workers", 9, "cpu", 0)
    refuse_more_than_gpus("--workers", 9, "cuda", None)
    with pytest.raises(SpecError, match=r"--workers must not exceed .*got 3.*Give 2"):
        refuse_more_than_gpus("--workers", 3, "cuda", 2)
    with pytest.raises(SpecError, match="got 2"):
        refuse_more_than_gpus("--workers", 2, "cuda:1", 8)
