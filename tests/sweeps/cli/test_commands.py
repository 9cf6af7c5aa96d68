"""The front door as a user meets it: real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.cli import COMMANDS, run_command
from tests.sweeps.files import QUICKSTART, ROOT, write_own

SWEEP_FILE = str(QUICKSTART / "SWEEP.toml")


def sweep(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(*words: str, folder: Path = ROOT) -> str:
    """Return the one line of an error of the user's; nothing else may be printed."""
    done = sweep(*words, folder=folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def test_help_answers_without_what_trains() -> None:
    code = (
        "import sys\n"
        "from sweeps.cli import run_command\n"
        "code = run_command(['--help'])\n"
        "heavy = [name for name in ('torch', 'optuna', 'scipy', 'numpy') if name in sys.modules]\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, _, summary in COMMANDS:
        assert name in done.stdout
        assert summary.split(",")[0][:40] in " ".join(done.stdout.split())


def test_a_plan_is_made_without_torch() -> None:
    code = (
        "import sys\n"
        "from sweeps.cli import run_command\n"
        f"code = run_command(['plan', {SWEEP_FILE!r}])\n"
        "sys.exit(code or 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_without_a_command_help_is_shown() -> None:
    done = sweep()
    assert done.returncode == 0
    assert "plan" in done.stdout


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_every_command_explains_itself(name: str) -> None:
    done = sweep(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("plan", SWEEP_FILE, "--json"),
        ("plan", "deepseek-v2-lite", "--json", "--memory-gib", "80"),
        ("count", "deepseek-v3", "--json"),
    ],
)
def test_json_is_one_document_and_nothing_else(words: tuple[str, ...]) -> None:
    done = sweep(*words)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == ""


def test_count_has_the_keys_it_promises() -> None:
    found = json.loads(sweep("count", "deepseek-v3", "--json").stdout)
    assert found["params_total"] == 671_026_404_352
    assert found["params_active"] == 37_552_282_624
    for key in ("params_embedding", "params_mtp", "parts", "conventions"):
        assert key in found


def test_a_folder_with_a_sweep_file_is_planned(tmp_path: Path) -> None:
    write_own(tmp_path, "[horizon]\nnum_steps = 20")
    found = json.loads(sweep("plan", ".", "--json", folder=tmp_path).stdout)
    assert found["data"]["is_synthetic"]


def test_a_folder_with_a_configuration_is_a_target(tmp_path: Path) -> None:
    write_own(tmp_path).unlink()
    assert "target.tokens" in refused("plan", ".", folder=tmp_path)


def test_an_own_target_alone_is_planned_for_its_tokens(tmp_path: Path) -> None:
    write_own(tmp_path).unlink()
    words = ("plan", "config.json", "--tokens", "20000000", "--json")
    found = json.loads(sweep(*words, folder=tmp_path).stdout)
    assert found["target"]["run"]["num_tokens"] == 20_000_000
    assert found["data"] is None


def test_text_tells_what_to_do_next() -> None:
    assert f"Next: sweep run {SWEEP_FILE}" in " ".join(sweep("plan", SWEEP_FILE).stdout.split())
    assert "Next: write a SWEEP.toml" in sweep("plan", "deepseek-v2-lite").stdout


def test_piped_text_keeps_to_100_columns_without_colour() -> None:
    done = sweep("plan", SWEEP_FILE)
    assert max(len(line.rstrip()) for line in done.stdout.splitlines()) <= 100
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("plann", SWEEP_FILE), "plan"),
        (("plan",), "SOURCE"),
        (("plan", SWEEP_FILE, "--jsn"), "--json"),
        (("plan", SWEEP_FILE, "more"), "more"),
        (("plan", SWEEP_FILE, "--memory-gib", "much"), "much"),
        (("plan", SWEEP_FILE, "--memory-gib", "0"), "--memory-gib"),
        (("plan", SWEEP_FILE, "--tokens", "9"), "target.tokens"),
        (("plan", "nowhere.toml"), "no such file"),
        (("plan", "deepseek-v33"), "deepseek-v3"),
        (("count", "nowhere.json"), "nowhere.json"),
    ],
)
def test_a_mistake_is_one_line_that_helps(words: tuple[str, ...], hint: str) -> None:
    assert hint.lower() in refused(*words).lower()


def test_a_misspelt_key_is_one_line_with_the_nearest(tmp_path: Path) -> None:
    write_own(tmp_path, "[horizon]\nnum_step = 20")
    line = refused("plan", "SWEEP.toml", "--json", folder=tmp_path)
    assert "horizon.num_step" in line
    assert "num_steps" in line


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m sweeps plan {SWEEP_FILE} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "0"
    assert done.stderr == ""


def test_an_interrupt_is_resumable_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sweeps.cli.prepare.plan_source", interrupted)
    assert run_command(["plan", "deepseek-v3"]) == 4
