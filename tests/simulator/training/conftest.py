"""Fixtures of the tests that execute runs."""

from pathlib import Path

import pytest

from simulator.training.corpora import OpenCorpora
from tests.simulator.training.runs import Runs


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache of resolved data."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def corpora() -> OpenCorpora:
    """Corpora opened by any test."""
    return OpenCorpora()


@pytest.fixture
def run(tmp_path: Path, cache: Path, corpora: OpenCorpora) -> Runs:
    """Executes runs in folders of their own."""
    return Runs(tmp_path, cache, corpora)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, cache: Path, corpora: OpenCorpora) -> Runs:
    """The default run, executed once in folder ``run``; only to be read."""
    runs = Runs(tmp_path_factory.mktemp("finished"), cache, corpora)
    runs()
    return runs
