"""Fixtures and the rule that nothing is skipped in silence."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

ALLOWED_SKIPS = ("needs shared data", "needs program")
"""Beginnings of the only reasons for which a test may be skipped outside ``--require=all``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        choices=["none", "all"],
        default="none",
        help="all: a skipped test is a failure, whatever its reason",
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    config.stash[SKIPPED] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs minutes or a GPU, unless the command line asks for a marker."""
    if config.getoption("-m"):
        return
    kept, dropped = [], []
    for item in items:
        is_extra = item.get_closest_marker("slow") or item.get_closest_marker("gpu")
        (dropped if is_extra else kept).append(item)
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept


SKIPPED = pytest.StashKey[list[str]]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """Turn a skip that is not allowed into a failure of that test."""
    outcome = yield
    report = outcome.get_result()
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    bare = reason.removeprefix("Skipped: ")
    if item.config.getoption("--require") == "all" or not bare.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: skipped, which is not allowed here: {bare}"


@pytest.fixture
def shared_data() -> Path:
    """Public data that lies beside the checkout on a development machine."""
    if not SHARED.is_dir():
        pytest.skip("needs shared data beside the checkout")
    return SHARED
