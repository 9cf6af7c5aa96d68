"""Records say which code wrote them."""

import re

from simulator.records.version import code_version


def test_version_names_the_release_and_the_commit() -> None:
    assert re.fullmatch(r"[0-9][0-9a-z.]*(\+g[0-9a-f]{4,40})?", code_version())
