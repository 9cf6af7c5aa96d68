"""Checks that several tables share; each raises a four-part ``SpecError``."""

from simulator.specs.errors import SpecError

__all__ = ["above", "all_positive", "at_least", "bounds", "levels"]


def at_least(path: str, value: int | None, minimum: int) -> None:
    """Refuse a count below ``minimum``; ``None`` was left out and passes."""
    if value is not None and value < minimum:
        raise SpecError(path, f"must be >= {minimum}", value, f"Give {minimum} or more.")


def above(path: str, value: float | None) -> None:
    """Refuse zero and below; ``None`` was left out and passes."""
    if value is not None and value <= 0:
        raise SpecError(path, "must be positive", value, "Give a number above 0.")


def all_positive(path: str, values: tuple[float, ...]) -> None:
    """Refuse an empty list and one that holds zero or below."""
    if not values or any(value <= 0 for value in values):
        raise SpecError(path, "must list positive numbers", values, "Give at least one, all > 0.")


def bounds(path: str, low: float | None, high: float | None) -> None:
    """Refuse half a range and one that is empty or not positive."""
    if (low is None) != (high is None):
        raise SpecError(
            f"{path}.{'high' if high is None else 'low'}",
            f"must be given where {path}.{'low' if high is None else 'high'} is",
            None,
            "Give both bounds.",
        )
    if low is not None and high is not None and not 0 < low < high:
        raise SpecError(
            f"{path}.low", f"must be positive and below high ({high})", low, "Swap or correct them."
        )


def levels(
    path: str, values: tuple[float, ...] | None, low: float | None, high: float | None
) -> None:
    """Refuse a list beside bounds; each alone must be sound."""
    bounds(path, low, high)
    if values is None:
        return
    all_positive(f"{path}.values", values)
    if low is not None:
        raise SpecError(
            f"{path}.values",
            f"must be left out where bounds are given ({low} to {high})",
            values,
            "Keep either the list or low and high.",
        )
