"""How numbers and names are written, the same on the page and on the terminal."""

import math
import unicodedata

__all__ = [
    "DASH",
    "count",
    "difference",
    "duration",
    "fraction",
    "learning_rate",
    "loss",
    "noise_units",
    "plus_minus",
    "power_of_two",
    "sentence",
    "shown",
    "times",
]

DASH = "\N{EN DASH}"
"""Stands for a value that does not exist."""

_MINUS = "\N{MINUS SIGN}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def loss(value: float | None) -> str:
    """Return a loss in nats with four decimals."""
    return DASH if value is None or _is_missing(value) else f"{value:.4f}"


def plus_minus(value: float | None, error: float | None) -> str:
    """Return a loss with its standard error, where it has one."""
    if error is None or _is_missing(error):
        return loss(value)
    return f"{loss(value)} ± {error:.4f}"


def difference(value: float | None) -> str:
    """Return a difference of losses in nats with its sign; zero has none."""
    if value is None or _is_missing(value):
        return DASH
    return "0" if value == 0 else f"{value:+.4f}".replace("-", _MINUS)


def noise_units(value: float | None) -> str:
    """Return a difference in units of the noise of one run."""
    if value is None or _is_missing(value):
        return DASH
    if abs(value) >= 9999:
        return ">9999" if value > 0 else f"<{_MINUS}9999"
    digits = 1 if abs(value) < 100 else 0
    return "0" if value == 0 else f"{value:+.{digits}f}".replace("-", _MINUS)


def learning_rate(value: float | None) -> str:
    """Return a rate or coefficient with three digits, small ones as ``4.41e-3``."""
    if value is None or _is_missing(value):
        return DASH
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def power_of_two(exponent: int) -> str:
    """Return 2 with its exponent raised.

    Examples
    --------
    >>> power_of_two(-8)
    '2⁻⁸'
    """
    return "2" + str(exponent).translate(_SUPERSCRIPT)


def count(value: float | None) -> str:
    """Return a large count with three digits and its unit prefix.

    Examples
    --------
    >>> count(671_026_419_200), count(2048)
    ('671 G', '2.05 k')
    """
    if value is None or _is_missing(value):
        return DASH
    if abs(value) < 1000:
        return f"{value:.3g}"
    group = min(int(math.log10(abs(value)) / 3), 6)
    if abs(value) / 1000**group >= 999.5 and group < 6:
        group += 1
    return f"{value / 1000**group:.3g} {' kMGTPE'[group]}"


def times(ratio: float | None) -> str:
    """Return a ratio with three digits and its sign."""
    if ratio is None or _is_missing(ratio):
        return DASH
    return f"{ratio:.3g} \N{MULTIPLICATION SIGN}"


def fraction(value: float | None) -> str:
    """Return a share as per cent."""
    if value is None or _is_missing(value):
        return DASH
    return f"{100 * value:.3g} %"


def duration(seconds: float | None) -> str:
    """Return a time in its two largest units.

    Examples
    --------
    >>> duration(214), duration(7.2), duration(90_000)
    ('3 min 34 s', '7 s', '1 d 1 h')
    """
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return DASH
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    rest = round(seconds)
    parts: list[str] = []
    for name, size in units:
        number, rest = divmod(rest, size)
        if number or parts or name == "s":
            parts.append(f"{number} {name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ") or len(parts) == 1)


def shown(text: str, limit: int = 60) -> str:
    """Return a user's text fit for one line: no control characters, at most ``limit`` long."""
    clean = "".join(" " if _is_control(letter) else letter for letter in text).strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def sentence(text: str, limit: int = 500) -> str:
    """Return a remark as a sentence: a capital where it begins with a word, and a full stop."""
    clean = shown(text, limit)
    first = clean.partition(" ")[0]
    if first.isalpha() and first.islower():
        clean = clean[0].upper() + clean[1:]
    return clean if not clean or clean[-1] in ".!?" else f"{clean}."


def _is_control(letter: str) -> bool:
    """Return whether a letter is a control, a surrogate or changes the direction of writing."""
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
