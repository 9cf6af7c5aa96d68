"""Sweep files for tests: a small own target on generated text, and built-in targets alone."""

import json
from pathlib import Path
from typing import Any

from simulator.specs.data import SourceSpec, SyntheticSpec
from sweeps.file import SweepFile
from sweeps.tables.target import DataTable, TargetTable

ROOT = Path(__file__).resolve().parent.parent.parent
QUICKSTART = ROOT / "examples" / "quickstart"
PRESETS = ("deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "kimi-k2", "llama-3.1-8b")

SYNTHETIC = SourceSpec(
    kind="synthetic", synthetic=SyntheticSpec(num_phrases=512, num_cues=128, num_answers=128)
)


def preset_file(config: str, **tables: Any) -> SweepFile:
    """Return a built-in target with every default and no data."""
    target = tables.pop("target", {})
    fields: dict[str, Any] = {
        "target": TargetTable(config=config, **target),
        "data": DataTable(sources=()),
    }
    return SweepFile(**(fields | tables))


def own_file(**tables: Any) -> SweepFile:
    """Return the quickstart's target, of which only the tokens are given, on generated text."""
    target = {"config": "config.json", "tokens": 10_000_000} | tables.pop("target", {})
    fields: dict[str, Any] = {
        "target": TargetTable(**target),
        "data": DataTable(sources=(SYNTHETIC,)),
    }
    return SweepFile(**(fields | tables))


def write_own(folder: Path, extra: str = "", *, tokens: int = 10_000_000, **changes: Any) -> Path:
    """Write a small target and a minimal sweep file; return the file's path."""
    config = json.loads((QUICKSTART / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "SWEEP.toml"
    path.write_text(
        f'[target]\nconfig = "config.json"\ntokens = {tokens}\n'
        '[data]\nsources = [{ kind = "synthetic", synthetic = '
        "{ num_phrases = 512, num_cues = 128, num_answers = 128 } }]\n"
        f"{extra}\n"
    )
    return path
