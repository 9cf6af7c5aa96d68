"""Rows, workers and compilation: what the file leaves out is decided by the machine."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.counting.memory import state_bytes
from simulator.specs.errors import SpecError
from simulator.specs.run import BatchSpec
from sweeps.device_memory import DeviceMemory
from sweeps.execution import ResolvedExecution, resolve_compile, resolve_execution
from sweeps.horizon import Horizon
from sweeps.machine import Machine
from sweeps.tables.search import RunTable
from tests.builders import make_model

MODEL = make_model()
STATE = state_bytes(MODEL)
BATCH = BatchSpec(global_batch_sequences=64, seq_len=512)
HORIZON = Horizon(num_steps=100, batch=BATCH, notes=())


def machine(num_cores: int = 2, num_gpus: int | None = None, models: int = 1000) -> Machine:
    memory = DeviceMemory(name="it", total_bytes=int((models + 0.5) * STATE / 0.8))
    return Machine(num_cores=num_cores, num_gpus=num_gpus, memory=memory)


def resolved(found: Machine, batch_size: int = 4, **run: Any) -> ResolvedExecution:
    table = RunTable(**run)
    return resolve_execution(table, HORIZON, MODEL, batch_size=batch_size, machine=found)


def rows_and_workers(found: Machine, batch_size: int = 4, **run: Any) -> tuple[int, int]:
    execution = resolved(found, batch_size, **run)
    return execution.spec.num_rows, execution.num_workers


@pytest.mark.parametrize(
    ("num_cores", "batch_size", "expected"),
    [
        (1, 4, (4, 1)),
        (2, 4, (2, 2)),
        (2, 24, (4, 2)),
        (16, 4, (1, 4)),
        (3, 8, (3, 3)),
        (16, 1, (1, 1)),
    ],
)
def test_cpu_has_a_worker_a_core_and_rows_for_its_share(
    num_cores: int, batch_size: int, expected: tuple[int, int]
) -> None:
    assert rows_and_workers(machine(num_cores), batch_size) == expected


def test_rows_follow_from_the_workers_of_the_file() -> None:
    assert rows_and_workers(machine(16), 8, workers=4) == (2, 4)


def test_workers_with_several_threads_take_several_cores() -> None:
    assert rows_and_workers(machine(8), 8, threads=4) == (4, 2)


def test_what_the_file_says_stays() -> None:
    assert rows_and_workers(machine(2, models=1), workers=3, cohort_rows=5) == (5, 3)


def test_memory_bounds_what_was_left_out() -> None:
    assert rows_and_workers(machine(8, models=3), 16) == (1, 3)
    assert rows_and_workers(machine(2, models=6), 16) == (3, 2)
    assert rows_and_workers(machine(8, models=0), 16) == (1, 1)
    assert rows_and_workers(machine(1, 1, models=5), device="cuda") == (5, 1)
    assert rows_and_workers(machine(1, 1, models=0), device="cuda") == (1, 1)


def test_gpu_has_a_worker_each_and_many_rows() -> None:
    assert rows_and_workers(machine(64, 4), device="cuda") == (16, 4)
    assert rows_and_workers(machine(64, 4), device="cuda:1") == (16, 1)
    assert rows_and_workers(machine(64, None), device="cuda") == (16, 1)


def test_unknown_memory_bounds_nothing() -> None:
    unknown = replace(machine(2), memory=None)
    assert rows_and_workers(unknown, 24) == (4, 2)


def test_more_workers_than_gpus_are_refused() -> None:
    with pytest.raises(SpecError, match=r"run\.workers must not exceed the GPUs .*\(2\).*got 3"):
        resolved(machine(64, 2), device="cuda", workers=3)


def test_a_pass_holds_a_fixed_number_of_tokens_in_all_rows() -> None:
    assert resolved(machine(), cohort_rows=1).spec.micro_batch_sequences * 512 == 16_384
    assert resolved(machine(), cohort_rows=4).spec.micro_batch_sequences * 512 * 4 == 16_384
    assert resolved(machine(), cohort_rows=100).spec.micro_batch_sequences == 1
    given = resolved(machine(), cohort_rows=4, micro_batch_sequences=3)
    assert given.spec.micro_batch_sequences == 3


def test_sharing_and_compilation_are_as_the_file_says() -> None:
    spec = resolved(machine(), share_prefixes=False, compile=True).spec
    assert (spec.shares_prefixes, spec.is_compiled) == (False, True)
    assert resolved(machine()).spec.shares_prefixes


def test_every_answer_to_compile_has_its_reason() -> None:
    assert resolve_compile(RunTable(compile="auto"))[0] is False
    assert resolve_compile(RunTable(compile=True)) == (True, "as run.compile says")
    assert resolve_compile(RunTable(compile=False)) == (False, "as run.compile says")
    assert "auto" in resolve_compile(RunTable())[1]
