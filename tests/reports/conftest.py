"""Studies that several tests read; none of them changes one."""

from pathlib import Path

import pytest

from reports.view import StudyView, make_view
from simulator.records.reader import StudyReader
from tests.reports.studies import Options, write_study


@pytest.fixture(scope="session")
def study_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"), Options(num_steps=100))


@pytest.fixture(scope="session")
def study(study_root: Path) -> StudyReader:
    return StudyReader(study_root)


@pytest.fixture(scope="session")
def view(study: StudyReader) -> StudyView:
    return make_view(study)
