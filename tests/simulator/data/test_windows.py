"""Where windows begin."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from simulator.data.windows import WindowShape, num_train_tokens, spread_starts


@given(st.integers(0, 10**6), st.integers(1, 50), st.integers(1, 64), st.integers(0, 5000))
def test_spread_windows_lie_inside_and_do_not_overlap(
    begin: int, count: int, window: int, slack: int
) -> None:
    end = begin + count * window + slack
    starts = spread_starts(begin, end, count=count, window=window)
    assert starts[0] >= begin
    assert starts[-1] + window <= end
    assert (np.diff(starts) >= window).all()
    assert count == 1 or starts[-1] + window == end


@given(st.integers(1, 300), st.integers(1, 5), st.integers(0, 10_000))
def test_windows_fit_and_no_further_one_would(seq_len: int, extra: int, num_tokens: int) -> None:
    shape = WindowShape(seq_len, extra)
    assume(num_tokens >= shape.num_tokens)
    last = (shape.count(num_tokens) - 1) * seq_len
    assert last + shape.num_tokens <= num_tokens < last + seq_len + shape.num_tokens


@given(st.integers(1, 10**12), st.floats(0.001, 0.999))
def test_held_out_tail_is_the_share_asked_for(num_tokens: int, fraction: float) -> None:
    held_out = num_tokens - num_train_tokens(num_tokens, fraction)
    assert 1 <= held_out <= num_tokens
    assert abs(held_out - num_tokens * fraction) <= 1
