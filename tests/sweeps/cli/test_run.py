"""``sweep run`` and ``sweep resume`` as a user calls them, on runs of a few steps."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.records.layout import StudyLayout
from simulator.specs.errors import GateError, SpecError
from sweeps.cli import run_command
from sweeps.cli.opening import refuse_impossible, study_directory, sweep_path
from sweeps.cli.prepare import plan_file
from sweeps.device_memory import DeviceMemory
from sweeps.file import load_sweep
from sweeps.machine import look_at_machine
from tests.sweeps.studies import statuses

ROOT = Path(__file__).resolve().parents[3]

SWEEP = """
name = "brief"
[target]
config = "config.json"
tokens = 20_000
global_batch_sequences = 4
seq_len = 32
peak_lr = 6e-4
weight_decay = 0.1
warmup_steps = 20
schedule = "cosine_to_10pct"
[data]
sources = [{ kind = "synthetic", synthetic = { num_cues = 32, num_answers = 9, num_phrases = 99 } }]
validation = [{ name = "heldout", num_sequences = 4 }]
[horizon]
num_steps = 6
global_batch_sequences = 2
seq_len = 32
[search]
sampler = "random"
num_trials = 3
batch_size = 2
seed = 0
[finalists]
max_configs = 3
num_seeds = 2
noise_replicates = 2
delta_fraction = 0.003
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "quickstart" / "config.json", tmp_path)
    (tmp_path / "SWEEP.toml").write_text(SWEEP)
    return tmp_path


def test_study_from_file_to_outcome_and_again(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run_command(["run", "SWEEP.toml", "--workers", "2", "--json"])
    captured = capfd.readouterr()
    root = folder / "runs" / "brief"
    layout = StudyLayout(root)
    outcome = json.loads(captured.out)
    assert outcome == json.loads(layout.summary.read_text())
    assert code == (3 if outcome["verdict"] in ("vacuous", "incomplete") else 0)
    assert "brief" in captured.err
    assert layout.report.read_text().startswith("<!doctype html>")
    assert layout.sweep.read_text() == SWEEP
    assert not layout.owner.exists()
    assert set(statuses(root).values()) <= {"complete", "diverged"}
    assert run_command(["resume", "runs/brief"]) == code
    captured = capfd.readouterr()
    assert all(len(line) <= 100 for line in captured.out.splitlines())
    assert str(layout.report.relative_to(folder)) in captured.out
    (folder / "SWEEP.toml").write_text(SWEEP.replace("seed = 0", "seed = 1"))
    assert run_command(["run", "."]) == 2
    assert "its search.seed is 0; got 1" in capfd.readouterr().err


def test_folder_without_a_study_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["resume", "."]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "must be a study directory" in captured.err


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_impossible_number_of_workers_is_refused(
    folder: Path, workers: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["run", "SWEEP.toml", "--workers", workers]) == 2
    assert "workers" in capfd.readouterr().err
    assert not (folder / "runs").exists()


def test_sweep_file_is_found_in_its_folder(folder: Path) -> None:
    assert sweep_path(folder) == sweep_path(folder / "SWEEP.toml") == folder / "SWEEP.toml"


def test_study_is_named_after_its_sweep() -> None:
    assert study_directory(None, "a") == Path("runs/a")
    assert study_directory(Path("b"), "a") == Path("b")
    with pytest.raises(SpecError, match="name must be the name of a folder"):
        study_directory(None, "../a")


def test_proxy_larger_than_the_machine_is_refused(folder: Path) -> None:
    file = load_sweep(folder / "SWEEP.toml")
    here = look_at_machine("cpu", {})
    tiny = DeviceMemory(name="tiny", total_bytes=2**20)
    _, small = plan_file(file, root=folder, machine=replace(here, memory=tiny))
    _, large = plan_file(file, root=folder, machine=here)
    with pytest.raises(GateError, match="nearest proxies that fit"):
        refuse_impossible(small)
    refuse_impossible(large)
