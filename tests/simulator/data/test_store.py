"""Encoded ids on disk: written once, checked on opening, made again when damaged."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest

from simulator.data.store import Encoded, load_or_write, smallest_dtype

DTYPE = smallest_dtype(1000)


class Maker:
    """Gives the same ids each time and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Iterator[Encoded]:
        self.calls += 1
        for begin in range(0, 1000, 100):
            yield Encoded(np.arange(begin, begin + 100), 300)


def _flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[501] ^= 0xFF
    path.write_bytes(bytes(data))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def _remove(path: Path) -> None:
    path.unlink()


def _garble(path: Path) -> None:
    path.write_bytes(b"\xff{]")


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(256, "u1"), (257, "<u2"), (65_536, "<u2"), (65_537, "<u4")]
)
def test_type_holds_every_id(vocab_size: int, dtype: str) -> None:
    """huggingface/transformers#2825: ids of a 119,547 vocabulary wrapped around in uint16."""
    assert smallest_dtype(vocab_size) == np.dtype(dtype)


def test_ids_come_back_and_are_made_once(tmp_path: Path) -> None:
    make = Maker()
    for _ in range(3):
        stored = load_or_write(tmp_path / "x", DTYPE, 600, make)
        assert np.array_equal(stored.ids, np.arange(1000))
        assert not stored.ids.flags.writeable
    assert make.calls == 1


def test_marks_hold_tokens_and_bytes(tmp_path: Path) -> None:
    meta = load_or_write(tmp_path / "x", DTYPE, 900, Maker()).meta
    assert meta.marks == ((0, 0), (300, 900), (600, 1800), (900, 2700), (1000, 3000))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("ids.bin", _flip_a_byte),
        ("ids.bin", _cut),
        ("ids.bin", _remove),
        ("meta.json", _garble),
        ("meta.json", _remove),
    ],
)
def test_damage_is_found_and_repaired(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    make = Maker()
    load_or_write(tmp_path / "x", DTYPE, 600, make)
    damage(tmp_path / "x" / name)
    stored = load_or_write(tmp_path / "x", DTYPE, 600, make)
    assert np.array_equal(stored.ids, np.arange(1000))
    assert make.calls == 2


def test_copied_cache_is_hashed_and_kept(tmp_path: Path) -> None:
    make = Maker()
    load_or_write(tmp_path / "x", DTYPE, 600, make)
    os.utime(tmp_path / "x" / "ids.bin", ns=(1, 1))
    load_or_write(tmp_path / "x", DTYPE, 600, make)
    assert make.calls == 1


def test_half_written_ids_are_not_taken_for_whole(tmp_path: Path) -> None:
    def break_off() -> Iterator[Encoded]:
        yield Encoded(np.arange(100), 300)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_or_write(tmp_path / "x", DTYPE, 600, break_off)
    stored = load_or_write(tmp_path / "x", DTYPE, 600, Maker())
    assert np.array_equal(stored.ids, np.arange(1000))


def _race(folder: Path, traces: Path, barrier: Barrier) -> None:
    def make() -> Iterator[Encoded]:
        (traces / str(os.getpid())).touch()
        yield from Maker()()

    barrier.wait(timeout=30)
    stored = load_or_write(folder, DTYPE, 600, make)
    assert np.array_equal(stored.ids, np.arange(1000))


def test_two_processes_make_it_once_and_both_read_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    traces = tmp_path / "traces"
    traces.mkdir()
    barrier = context.Barrier(2)
    processes = [
        context.Process(target=_race, args=(tmp_path / "x", traces, barrier)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(list(traces.iterdir())) == 1
