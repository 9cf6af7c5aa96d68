"""A run with Muon from its task to its record: it learns, and goes on to the bit."""

import pytest

from simulator.specs.run import MuonSpec
from tests.simulator.training.runs import AfterSteps, Runs, series

MUON = MuonSpec(peak_lr=1e-2, weight_decay=0.1)


def test_run_with_muon_learns(run: Runs) -> None:
    record, _ = run(optimizer=MUON, num_steps=60)
    assert record.status == "complete"
    assert record.exact_entropy is not None
    assert record.unigram_entropy is not None
    assert record.exact_entropy < record.losses["heldout"] < 0.85 * record.unigram_entropy


def test_crashed_run_with_muon_goes_on_from_its_checkpoint_to_the_bit(run: Runs) -> None:
    whole, expected = run(folder="whole", optimizer=MUON)
    with pytest.raises(KeyboardInterrupt):
        run(folder="parts", optimizer=MUON, should_stop=AfterSteps(8, KeyboardInterrupt()))
    record, reader = run(folder="parts", optimizer=MUON)
    assert record.losses == whole.losses
    assert series(reader) == series(expected)
