import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import numbers

POSITIVE = st.floats(min_value=1e-12, max_value=1e18)


@given(POSITIVE)
def test_learning_rate_keeps_three_digits(value: float) -> None:
    assert float(numbers.learning_rate(value)) == pytest.approx(value, rel=5.1e-3)


@given(POSITIVE)
def test_count_keeps_three_digits(value: float) -> None:
    number, _, unit = numbers.count(value).partition(" ")
    factor = 1000.0 ** " kMGTPE".index(unit) if unit else 1.0
    assert float(number) * factor == pytest.approx(value, rel=5.1e-3)


@given(st.floats(min_value=0, max_value=1e9))
def test_duration_is_never_off_by_more_than_its_smaller_unit(seconds: float) -> None:
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    words = numbers.duration(seconds).split()
    shown = sum(int(n) * sizes[u] for n, u in zip(words[::2], words[1::2], strict=True))
    largest = sizes[words[1]]
    assert abs(shown - seconds) <= max(1.0, largest / 24)


@given(st.text(), st.integers(min_value=2, max_value=50))
def test_shown_fits_one_line_and_the_limit(text: str, limit: int) -> None:
    result = numbers.shown(text, limit)
    assert len(result) <= limit
    forbidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not forbidden & {unicodedata.category(letter) for letter in result}


@pytest.mark.parametrize(
    "write",
    [
        numbers.loss,
        numbers.difference,
        numbers.noise_units,
        numbers.learning_rate,
        numbers.count,
        numbers.fraction,
        numbers.duration,
        numbers.times,
    ],
)
@pytest.mark.parametrize("value", [None, math.nan])
def test_what_does_not_exist_is_a_dash(write, value) -> None:
    assert write(value) == numbers.DASH


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("too high diverges", "Too high diverges."),
        ("n_heads is 2", "n_heads is 2."),
        ("Already whole.", "Already whole."),
        ("", ""),
    ],
)
def test_a_remark_becomes_a_sentence(text: str, written: str) -> None:
    assert numbers.sentence(text) == written


def test_differences_carry_their_sign() -> None:
    assert numbers.difference(0.0123) == "+0.0123"
    assert numbers.difference(-0.0123) == "\N{MINUS SIGN}0.0123"
    assert numbers.difference(0.0) == "0"


def test_noise_units_stay_short_whatever_the_noise() -> None:
    values = [0.0, 1e-9, 12.34, -99.99, 450.0, 1e30, math.inf, -math.inf]
    assert all(len(numbers.noise_units(value)) <= 6 for value in values)
