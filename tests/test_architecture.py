"""The house's own rules, held by measurement."""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("simulator", "scaling", "full_run", "reports", "sweeps")
TORCH_FREE = (
    "simulator.specs.run",
    "simulator.specs.codec",
    "simulator.counting",
    "simulator.targets",
    "simulator.parametrisation",
    "simulator.proxy",
    "simulator.schedules",
    "simulator.records.reader",
    "simulator.data",
    "scaling",
    "scaling.selection",
    "scaling.transfer",
    "full_run.plan",
    "reports.render",
    "sweeps.plan",
    "sweeps.cli",
)


def _files() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.name}", node


def _body_lines(node: ast.FunctionDef) -> int:
    """Lines from ``def`` to the end without the docstring."""
    docstring = ast.get_docstring(node, clean=False)
    own = node.body[0].end_lineno - node.body[0].lineno + 1 if docstring else 0
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1 - own


def test_no_file_is_longer_than_500_lines() -> None:
    long = {str(path): n for path in _files() if (n := len(path.read_text().splitlines())) > 500}
    assert not long


def test_files_are_short_as_a_whole() -> None:
    lines = sorted(len(path.read_text().splitlines()) for path in _files())
    assert statistics.median(lines) <= 150
    assert lines[int(0.9 * len(lines))] <= 350


def test_functions_are_short() -> None:
    lengths = {name: _body_lines(node) for name, node in _functions()}
    long = {name: n for name, n in lengths.items() if n > 40}
    assert len(long) <= 0.02 * len(lengths), long
    assert sorted(lengths.values())[int(0.9 * len(lengths))] <= 25


def test_nothing_is_declared_global() -> None:
    found = [
        str(path)
        for path in _files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Global)
    ]
    assert not found


def test_raises_show_the_value() -> None:
    """At least 95 % of our raises carry a value, an f-string or another error's parts."""
    shown, bare = 0, []
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            arguments = [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]
            if all(isinstance(argument, ast.Constant) for argument in arguments):
                bare.append(f"{path.relative_to(ROOT)}:{node.lineno}")
            else:
                shown += 1
    assert len(bare) <= 0.05 * (shown + len(bare)), bare


@pytest.mark.parametrize("module", TORCH_FREE)
def test_module_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
