"""One row of text from documents."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.data.stream import merged


@given(st.lists(st.text(min_size=1)), st.integers(1, 20))
def test_merging_keeps_the_text_and_the_least_length(pieces: list[str], min_chars: int) -> None:
    found = list(merged(iter(pieces), min_chars))
    assert "".join(found) == "".join(pieces)
    assert all(len(piece) >= min_chars for piece in found[:-1])
    assert all(found)
