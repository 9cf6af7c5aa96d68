"""Checkpoints are whole or absent, checked when read, and never unpickled."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from simulator.training.checkpoint import CheckpointFolder, NoCheckpoints

STATE = {"position": {"step": 3, "loss": 0.1 + 0.2}}


def make_tensors(value: float = 1.5) -> dict[str, Tensor]:
    return {"values": torch.full((1, 8), value), "num_updates": torch.full((1,), value)}


def make_folder(tmp_path: Path, identity: str = "abc") -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoint", identity=identity)


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "checkpoint").iterdir())


def test_saved_tensors_and_state_come_back(tmp_path: Path) -> None:
    make_folder(tmp_path).save(3, make_tensors(), STATE)
    live = make_tensors(0.0)
    assert make_folder(tmp_path).restore(live) == STATE
    assert all(torch.equal(live[name], tensor) for name, tensor in make_tensors().items())


def test_later_checkpoint_replaces_the_one_before(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    folder.save(6, make_tensors(2.0), STATE)
    assert names(tmp_path) == ["step-00000006"]


def test_nothing_saved_restores_nothing(tmp_path: Path) -> None:
    live = make_tensors(0.0)
    assert make_folder(tmp_path).restore(live) is None
    assert not any(tensor.any() for tensor in live.values())


def test_draft_left_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    (tmp_path / "checkpoint" / "draft-00000006").mkdir()
    assert folder.restore(make_tensors(0.0)) == STATE
    folder.save(6, make_tensors(), STATE)
    assert names(tmp_path) == ["step-00000006"]


def test_crash_between_rename_and_removal_leaves_the_newer_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    older = tmp_path / "checkpoint" / "step-00000003"
    kept = tmp_path / "kept"
    older.rename(kept)
    folder.save(6, make_tensors(2.0), {"position": 6})
    kept.rename(older)
    live = make_tensors(0.0)
    assert folder.restore(live) == {"position": 6}
    assert float(live["num_updates"]) == 2.0


def test_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    (tmp_path / "checkpoint" / "draft-00000006").write_text("in the way")
    with pytest.raises(OSError, match="draft-00000006"):
        folder.save(6, make_tensors(2.0), STATE)
    assert folder.restore(make_tensors(0.0)) == STATE


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:10])


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", [flip_byte, cut_short, remove])
def test_damaged_checkpoint_is_not_taken_up_and_said_why(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    damage(tmp_path / "checkpoint" / "step-00000003" / name)
    live = make_tensors(0.0)
    assert folder.restore(live) is None
    assert not any(tensor.any() for tensor in live.values())
    assert folder.faults[0].startswith("step-00000003 cannot be used: ")


def test_damaged_checkpoint_falls_back_to_an_older_whole_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(6, make_tensors(2.0), STATE)
    flip_byte(tmp_path / "checkpoint" / "step-00000006" / "tensors.safetensors")
    newer = tmp_path / "kept"
    (tmp_path / "checkpoint" / "step-00000006").rename(newer)
    folder.save(3, make_tensors(), {"position": 3})
    newer.rename(tmp_path / "checkpoint" / "step-00000006")
    assert folder.restore(make_tensors(0.0)) == {"position": 3}


def test_checkpoint_of_another_run_is_not_taken_up(tmp_path: Path) -> None:
    make_folder(tmp_path, "abc").save(3, make_tensors(), STATE)
    other = make_folder(tmp_path, "xyz")
    assert other.restore(make_tensors(0.0)) is None
    assert "xyz" in other.faults[0]


def test_checkpoint_of_other_tensors_is_not_taken_up(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    live = {"values": torch.zeros(1, 9), "num_updates": torch.zeros(1)}
    assert folder.restore(live) is None
    assert "values" in folder.faults[0]
    assert not any(tensor.any() for tensor in live.values())


def test_discarded_folder_is_gone(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.save(3, make_tensors(), STATE)
    folder.discard()
    folder.discard()
    assert not (tmp_path / "checkpoint").exists()


def test_nothing_kept_restores_nothing() -> None:
    nothing = NoCheckpoints()
    nothing.save(3, make_tensors(), STATE)
    assert nothing.restore(make_tensors()) is None
