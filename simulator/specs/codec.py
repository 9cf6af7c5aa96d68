"""Strict decoding, encoding and identity of specifications and records.

This is the one file in which the validation library lives. Everything goes through JSON, whose
strict mode accepts an array for a tuple and nothing else for anything: ``true`` is no integer, a
number is no string, an unknown key is an error that names its dotted path and the nearest key.
"""

import dataclasses
import difflib
import hashlib
import json
import tomllib
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from simulator.specs.errors import SpecError

__all__ = ["canonical_json", "decode", "decode_json", "encode", "fingerprint", "load_toml"]

_T = TypeVar("_T")

_UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden")


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def decode(cls: type[_T], value: Mapping[str, Any], *, root: str = "") -> _T:
    """Build ``cls`` from plain JSON-like values.

    Parameters
    ----------
    root
        Dotted path put before every path in an error message.

    Raises
    ------
    SpecError
        For the first key or value that does not fit, with its dotted path.
    """
    return decode_json(cls, json.dumps(value, default=str), root=root)


def decode_json(cls: type[_T], text: str | bytes, *, root: str = "") -> _T:
    """Build ``cls`` from a JSON document; errors as in :func:`decode`."""
    try:
        return typing.cast("_T", _adapter(typing.cast("Any", cls)).validate_json(text))
    except ValidationError as error:
        raise _spec_error(cls, error, root) from None


def encode(value: Any) -> dict[str, Any]:
    """Return a specification or record as plain JSON-like values."""
    return typing.cast(
        "dict[str, Any]", _adapter(typing.cast("Any", type(value))).dump_python(value, mode="json")
    )


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a specification: sorted keys, no spaces, no NaN."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(value: Any) -> str:
    """Return the identity of a specification: 16 hex digits of the SHA-256 of its content."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file into plain values.

    Raises
    ------
    SpecError
        If the file is missing, is not UTF-8, or is not TOML; with the parser's line and column.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(str(path), "must exist", "no such file", "Check the path.") from None
    except IsADirectoryError:
        raise SpecError(str(path), "must be a file", "a folder", "Name the .toml file.") from None
    except UnicodeDecodeError as error:
        raise SpecError(
            str(path), "must be UTF-8 text", f"byte {error.start}", "Save it as UTF-8."
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(str(path), "must be valid TOML", str(error), "Correct it.") from None


def _spec_error(cls: type, error: ValidationError, root: str) -> SpecError:
    details = _relevant(error.errors(include_url=False))
    first = next((detail for detail in details if detail["type"] in _UNKNOWN_KEY), details[0])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SpecError):
        return cause
    path = ".".join([*filter(None, [root]), *_path(first["loc"])]) or "document"
    if first["type"] in _UNKNOWN_KEY:
        return _unknown_key(cls, first, path)
    if first["type"] in ("missing", "missing_keyword_only_argument"):
        return SpecError(path, "is required", "nothing", "Add it.")
    rule = first["msg"][:1].lower() + first["msg"][1:]
    return SpecError(path, f"is not acceptable: {rule}", first["input"], "Correct the value.")


def _relevant(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Drop the complaints of union members that the value's ``kind`` rules out."""
    ruled_out = {
        error["loc"][:-1]
        for error in errors
        if error["loc"] and error["loc"][-1] == "kind" and error["type"] == "literal_error"
    }
    kept = [error for error in errors if not any(_below(error["loc"], loc) for loc in ruled_out)]
    return kept or errors


def _below(loc: tuple[int | str, ...], prefix: tuple[int | str, ...]) -> bool:
    return loc[: len(prefix)] == prefix


def _path(loc: tuple[int | str, ...]) -> list[str]:
    """Return the user's path: union members' class names are not part of it."""
    return [str(part) for part in loc if not (isinstance(part, str) and _is_member_name(part))]


def _is_member_name(part: str) -> bool:
    return part[:1].isupper() or part.startswith(("tuple[", "list[", "dict[", "function-"))


def _unknown_key(cls: type, error: ErrorDetails, path: str) -> SpecError:
    owner: Any = cls
    for part in error["loc"][:-1]:
        owner = _descend(owner, part)
    members = [member for member in _members(owner) if _is_spec(member)]
    known = [field.name for member in members for field in dataclasses.fields(member)]
    key = str(error["loc"][-1])
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known keys: {', '.join(known)}."
    return SpecError(path, "is not a known key", error["input"], hint)


def _is_spec(owner: Any) -> bool:
    return isinstance(owner, type) and dataclasses.is_dataclass(owner)


def _descend(owner: Any, part: int | str) -> Any:
    """Return the type found under ``part`` of a dataclass, union, tuple or mapping type."""
    members = _members(owner)
    for member in members:
        if _is_spec(member) and member.__name__ == part:
            return member
    for member in members:
        if _is_spec(member) and part in {field.name for field in dataclasses.fields(member)}:
            return typing.get_type_hints(member)[part]
        arguments = typing.get_args(member)
        if arguments and isinstance(part, int):
            return arguments[0]
        if len(arguments) == 2 and typing.get_origin(member) in (dict, Mapping):
            return arguments[1]
    return None


def _members(owner: Any) -> tuple[Any, ...]:
    if typing.get_origin(owner) in (typing.Union, types.UnionType):
        return tuple(m for arg in typing.get_args(owner) for m in _members(arg))
    return (owner,)
