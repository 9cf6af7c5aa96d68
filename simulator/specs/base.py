"""The one decorator that makes a specification: frozen, keyword-only, strictly decodable."""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

__all__ = ["STRICT", "spec"]

_T = TypeVar("_T")

STRICT = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
"""What the decoder in ``codec`` applies to every specification it meets."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def spec(cls: type[_T]) -> type[_T]:
    """Make ``cls`` a frozen, slotted, keyword-only dataclass that decodes strictly.

    The configuration attribute is read by the codec alone; nothing else depends on the library
    behind it, so that specifications stay importable with the standard library only.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return made
