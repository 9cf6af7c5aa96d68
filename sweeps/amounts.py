"""How large amounts are written in plans and counts."""

import math

__all__ = ["amount", "flops", "gibibytes", "share"]

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def amount(value: float) -> str:
    """Return parameters or tokens as people in this field write them.

    Examples
    --------
    >>> amount(671_026_404_352), amount(14_800_000_000_000), amount(128)
    ('671 B', '14.8 T', '128')
    """
    for size, unit in _UNITS:
        if value >= 0.9995 * size:
            return f"{_three_digits(value / size)} {unit}"
    return f"{value:.3g}"


def flops(value: float) -> str:
    """Return a number of operations with two decimals and its power of ten.

    Examples
    --------
    >>> flops(3.3e24)
    '3.30e24'
    """
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def gibibytes(num_bytes: float) -> str:
    """Return a memory in GiB, small ones in MiB.

    Examples
    --------
    >>> gibibytes(2**37), gibibytes(2**24)
    ('128 GiB', '16 MiB')
    """
    if num_bytes < 2**29:
        return f"{_three_digits(num_bytes / 2**20)} MiB"
    return f"{_three_digits(num_bytes / 2**30)} GiB"


def share(fraction: float) -> str:
    """Return a share as per cent, very large ones as a factor.

    Examples
    --------
    >>> share(0.0091), share(12.0)
    ('0.91 %', '12 times')
    """
    if fraction >= 10:
        return f"{_three_digits(fraction)} times"
    return f"{_three_digits(100 * fraction)} %"


def _three_digits(value: float) -> str:
    """Return three significant digits, whole numbers in full."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
