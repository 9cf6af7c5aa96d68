"""The default corpus."""

import hashlib
import subprocess
import sys

from simulator.data.readers.sympy_sources import find_sympy
from simulator.data.stream import TextStream


def test_corpus_of_the_pinned_version_is_the_published_one() -> None:
    reader = find_sympy()
    assert reader.version == "1.14.0"
    assert len(reader.files) == 1532
    text = "".join(TextStream(reader)).encode()
    assert len(text) == 26_171_880
    assert hashlib.sha256(text).hexdigest().startswith("556ceb49")


def test_package_is_not_imported() -> None:
    code = (
        "import sys\nfrom simulator.data.readers.sympy_sources import find_sympy\n"
        "find_sympy()\nsys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
