"""Every public module says what it offers: ``__all__`` is sorted, complete and documented."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("simulator", "scaling", "full_run", "reports", "sweeps")
MODULES = [
    path
    for name in PACKAGES
    for path in sorted((ROOT / name).rglob("*.py"))
    if not path.name.startswith("__")
]


def _public_definitions(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    }


def _declared(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_is_complete(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert _public_definitions(tree) <= set(_declared(tree))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_names_have_their_own_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text())
    missing = [
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not missing
