import pytest

from sweeps.amounts import amount, flops, gibibytes, share


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (128, "128"),
        (999.4, "999"),
        (999.6, "1 k"),
        (493_000, "493 k"),
        (999_999_999, "1 B"),
        (10_700_000_000, "10.7 B"),
        (14.8e12, "14.8 T"),
        (1.5e15, "1,500 T"),
    ],
)
def test_amounts_have_three_digits_and_a_unit(value: float, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(("value", "text"), [(3.3e24, "3.30e24"), (1.0, "1.00e0"), (0, "0.00e0")])
def test_operations_have_a_power_of_ten(value: float, text: str) -> None:
    assert flops(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 MiB"), (2**20, "1 MiB"), (2**30, "1 GiB"), (162 * 2**30, "162 GiB")]
)
def test_memory_is_binary(value: float, text: str) -> None:
    assert gibibytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 %"), (0.0091, "0.91 %"), (1.0, "100 %"), (25.0, "25 times")]
)
def test_shares_are_per_cent_until_they_are_multiples(value: float, text: str) -> None:
    assert share(value) == text
