"""Twenty steps of TINY, step by step, against losses stored as text.

A change of the stored losses is a change of numerics and says why in a commit of its own. To write
them anew: ``python -m tests.simulator.training.test_golden``.
"""

import sys
import tempfile
from pathlib import Path

import pytest

from simulator.records.reader import RunReader
from tests.simulator.training.runs import Runs

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "tiny_loss.txt"

TOLERANCE = 1e-4
"""Relative. One machine repeats the losses bit for bit. With other instruction sets of the same
CPU (SSE4.2 to AVX-512, MKL's compatible kernels) they moved by 2e-6 at most; the rest is room for
one token that another rounding sends to another expert."""


def table(reader: RunReader) -> str:
    rows = (f"{p.step} {p.loss:.6f} {p.mtp_loss:.6f} {p.grad_norm:.6f}" for p in reader.steps())
    return "\n".join(["step loss mtp_loss grad_norm", *rows]) + "\n"


def numbers(text: str) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in text.splitlines()[1:]]


def test_losses_of_tiny_are_the_stored_ones(finished: Runs) -> None:
    expected = numbers(GOLDEN.read_text())
    found = numbers(table(finished()[1]))
    assert len(found) == len(expected) == 20
    for row, stored in zip(found, expected, strict=True):
        assert row[:3] == pytest.approx(stored[:3], rel=TOLERANCE)


def test_first_step_is_the_stored_one_to_rounding(finished: Runs) -> None:
    stored, found = numbers(GOLDEN.read_text())[0], numbers(table(finished()[1]))[0]
    assert found == pytest.approx(stored, rel=1e-5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        GOLDEN.write_text(table(Runs(root, root / "cache")()[1]))
    sys.stdout.write(GOLDEN.read_text())
