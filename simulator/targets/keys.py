"""Strict, typed access to the keys of a model configuration written by somebody else.

Two sorts of keys are told apart. *Structure* decides which tensors exist: a missing one is an
error at once. *Behaviour* (rotary base, routing, norms) is needed for training alone: a missing
one leaves the target countable and is remembered, so that training can be refused by name. No
value is ever made up in silence; a default that is harmless leaves a note.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from simulator.specs.errors import SpecError

__all__ = ["ALIASES", "Convert", "KeyReader", "flag", "items", "nullable", "real", "whole", "word"]

_T = TypeVar("_T")

Convert = Callable[[str, object], _T]
"""Checks the value found under a dotted path and returns it typed, or raises ``SpecError``."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("dim", "n_embd"),
    "intermediate_size": ("inter_dim",),
    "moe_intermediate_size": ("moe_inter_dim",),
    "num_hidden_layers": ("n_layers", "n_layer"),
    "first_k_dense_replace": ("n_dense_layers",),
    "num_attention_heads": ("n_heads", "n_head"),
    "num_key_value_heads": ("n_kv_heads",),
    "n_routed_experts": ("num_experts", "num_local_experts"),
    "num_experts_per_tok": ("n_activated_experts", "experts_per_token"),
    "n_group": ("n_expert_groups",),
    "topk_group": ("n_limited_groups",),
    "scoring_func": ("score_func",),
    "routed_scaling_factor": ("route_scale",),
    "max_position_embeddings": ("max_seq_len",),
    "num_nextn_predict_layers": ("n_mtp_layers", "n_mtp_modules"),
    "rope_type": ("type",),
}
"""Other names of a key: DeepSeek's inference files, GPT-2, and three names of the expert count."""

_LARGEST = 2**40
"""Bound on any whole number: a larger one is a slip."""


def whole(minimum: int = 1, maximum: int = _LARGEST) -> Convert[int]:
    """Return a check for a whole number within bounds; ``true`` and ``8.0`` are none."""

    def convert(path: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError(path, "must be a whole number", value, "Write it as a JSON integer.")
        if not minimum <= value <= maximum:
            rule = f"must lie in [{minimum}, {maximum}]"
            raise SpecError(path, rule, value, "Correct the value.")
        return value

    return convert


def real(minimum: float = 0.0) -> Convert[float]:
    """Return a check for a finite number that is not below ``minimum``."""

    def convert(path: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(path, "must be a number", value, "Write it as a JSON number.")
        if not math.isfinite(value) or value < minimum:
            rule = f"must be finite and >= {minimum:g}"
            raise SpecError(path, rule, value, "Correct the value.")
        return float(value)

    return convert


def flag(path: str, value: object) -> bool:
    """Check a boolean; 0 and 1 are none."""
    if not isinstance(value, bool):
        raise SpecError(path, "must be true or false", value, "Write a JSON boolean.")
    return value


def word(allowed: Collection[_T]) -> Convert[_T]:
    """Return a check for one of a few words."""

    def convert(path: str, value: object) -> _T:
        for known in allowed:
            if known == value:
                return known
        rule = f"must be one of {', '.join(map(str, allowed))}"
        raise SpecError(path, rule, value, "Use one of these.")

    return convert


def nullable(convert: Convert[_T]) -> Convert[_T | None]:
    """Let null through."""
    return lambda path, value: None if value is None else convert(path, value)


def items(length: int, convert: Convert[_T]) -> Convert[tuple[_T, ...]]:
    """Return a check for a list of at least ``length`` values, cut to that length."""

    def convert_all(path: str, value: object) -> tuple[_T, ...]:
        if not isinstance(value, list) or len(value) < length:
            rule = f"must be a list of at least {length} values"
            raise SpecError(path, rule, value, "Complete the list.")
        return tuple(convert(f"{path}[{i}]", item) for i, item in enumerate(value[:length]))

    return convert_all


@dataclass(slots=True)
class KeyReader:
    """Reads one table of a configuration and collects what has to be said about it."""

    values: Mapping[str, Any]
    path: str = "config"
    notes: list[str] = field(default_factory=list)
    """Defaults taken, and what the simulator leaves out."""
    missing: list[str] = field(default_factory=list)
    """Behaviour keys that are not there."""
    unsupported: list[str] = field(default_factory=list)
    """Why the model cannot be trained although nothing is missing, in sentences."""

    def child(self, key: str) -> "KeyReader | None":
        """Return a reader of a nested table that shares the remarks; null where there is none.

        Raises
        ------
        SpecError
            If the value is neither a table nor null.
        """
        path, value = self._find(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise SpecError(path, "must be a table or null", value, "Correct the value.")
        return KeyReader(value, path, self.notes, self.missing, self.unsupported)

    def has(self, key: str) -> bool:
        """Return whether the key, under any of its names, holds something other than null."""
        return self._find(key)[1] is not None

    def structure(self, key: str, convert: Convert[_T]) -> _T:
        """Return a value the tensors depend on.

        Raises
        ------
        SpecError
            If the key is missing, or its value does not pass.
        """
        names = self._names(key)
        if not any(name in self.values for name in names):
            also = f" (also read as {', '.join(names[1:])})" if names[1:] else ""
            raise SpecError(
                f"{self.path}.{key}",
                "is required: the tensors cannot be counted without it",
                "nothing",
                f"Add it{also}; no default is assumed.",
            )
        return convert(*self._find(key))

    def behaviour(self, key: str, convert: Convert[_T], placeholder: _T) -> _T:
        """Return a value only training needs; where it is missing remember that.

        Raises
        ------
        SpecError
            If a value is there but does not pass.
        """
        path, value = self._find(key)
        if value is None:
            self.missing.append(path)
            return placeholder
        return convert(path, value)

    def default(self, key: str, convert: Convert[_T], value: _T, why: str) -> _T:
        """Return a value, or a harmless default with a note.

        Raises
        ------
        SpecError
            If a value is there but does not pass.
        """
        path, found = self._find(key)
        if found is None:
            self.notes.append(f"{path} is not given: taken as {value!r} ({why}).")
            return value
        return convert(path, found)

    def refuse_if(self, key: str, consequence: str) -> None:
        """Refuse a flag that changes the tensors in a way not counted here.

        Raises
        ------
        SpecError
            If it is set.
        """
        path, value = self._find(key)
        if value is not None and flag(path, value):
            raise SpecError(
                path, f"must be false: {consequence}", value, "This variant cannot be counted."
            )

    def _names(self, key: str) -> tuple[str, ...]:
        return (key, *ALIASES.get(key, ()))

    def _find(self, key: str) -> tuple[str, Any]:
        """Return path and value of a key under any of its names; null where it is missing."""
        found = [name for name in self._names(key) if name in self.values]
        if not found:
            return f"{self.path}.{key}", None
        path, value = f"{self.path}.{found[0]}", self.values[found[0]]
        for name in found[1:]:
            if self.values[name] != value:
                rule = f"must equal {path} ({value!r}), which means the same"
                raise SpecError(
                    f"{self.path}.{name}", rule, self.values[name], "Keep one of the two."
                )
        return path, value
