"""Checkpoints: the state of a run on disk, whole or absent, and checked when read.

::

    checkpoint/
      step-00000200/
        tensors.safetensors   parameters, moments, balance biases
        state.json            where the loop and its policies were
        manifest.json         SHA-256 of the two, written last

A checkpoint is written under a draft name, brought to the disk, and renamed; only then is the one
before it removed. No file is ever unpickled.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

__all__ = ["CheckpointFolder", "Checkpoints", "NoCheckpoints", "Saved"]

_TENSORS, _STATE, _MANIFEST = "tensors.safetensors", "state.json", "manifest.json"
_PREFIX, _DRAFT = "step-", "draft-"

_FORMAT = 2
"""Raised when a checkpoint of older code could no longer be taken up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint says of itself."""

    step: int
    riders: frozenset[str]
    """Identities of the runs it is the state of."""


class Checkpoints(Protocol):
    """Keeps the last resumable state of a run, and of those that shared its steps until then."""

    def peek(self) -> Saved | None:
        """Return what is kept, unverified; None where nothing is."""
        ...

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Keep the state after ``step`` steps in place of the one kept before.

        Raises
        ------
        OSError
            If it cannot be written; the one before is then untouched.
        """
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Any] | None:
        """Copy the tensors kept last into ``tensors`` and return the state kept with them.

        None, and nothing copied, where nothing is kept that can be trusted.
        """
        ...

    def discard(self) -> None:
        """Remove what is kept."""
        ...


class NoCheckpoints:
    """Keeps nothing: for runs too short to be worth it."""

    def peek(self) -> Saved | None:
        """Return None."""
        return None

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Keep nothing."""

    def restore(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Any] | None:
        """Return None and copy nothing."""
        del tensors
        return None

    def discard(self) -> None:
        """Remove nothing."""


class CheckpointFolder:
    """Keeps the state in a folder of a run.

    Parameters
    ----------
    folder
        Made when needed, removed by :meth:`discard`.
    identity
        Fingerprint of the run's specification; a checkpoint of another one is not taken up.

    Attributes
    ----------
    faults
        Why checkpoints that were found are not taken up, in words.
    """

    def __init__(self, folder: Path, *, identity: str) -> None:
        self._folder = folder
        self._identity = identity
        self.faults: list[str] = []

    def peek(self) -> Saved | None:
        """Return what the newest checkpoint says of itself."""
        for path in self._newest_first():
            try:
                found = self._read_state(path)
                step, riders = found["position"]["step"], frozenset(found["riders"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.faults.append(f"{path.name} cannot be used: {error}")
            else:
                return Saved(step=step, riders=riders)
        return None

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write a checkpoint, then remove the one before it."""
        final = self._folder / f"{_PREFIX}{step:08d}"
        if final.exists():  # the state after a step is the same whenever it is reached
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f"{_DRAFT}{step:08d}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        save_file({name: tensor.detach() for name, tensor in tensors.items()}, draft / _TENSORS)
        _write(
            draft / _STATE, {"format": _FORMAT, "identity": self._identity, "state": dict(state)}
        )
        _sync(draft / _TENSORS)
        _write(draft / _MANIFEST, {name: _sha256(draft / name) for name in (_TENSORS, _STATE)})
        _sync(draft)
        draft.rename(final)
        _sync(self._folder)
        for other in self._folder.iterdir():
            if other != final:
                shutil.rmtree(other)

    def restore(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Any] | None:
        """Take up the newest checkpoint that is whole and fits; the others go to ``faults``."""
        for path in self._newest_first():
            try:
                return self._take_up(path, tensors)
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                self.faults.append(f"{path.name} cannot be used: {error}")
        return None

    def discard(self) -> None:
        """Remove the folder."""
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def _newest_first(self) -> list[Path]:
        return sorted(self._folder.glob(f"{_PREFIX}*"), reverse=True)

    def _take_up(self, path: Path, tensors: Mapping[str, Tensor]) -> Mapping[str, Any]:
        expected = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        for name in (_TENSORS, _STATE):
            if _sha256(path / name) != expected[name]:
                raise ValueError(f"{name} does not have the checksum it was written with")
        state = self._read_state(path)
        _copy(load_file(path / _TENSORS), tensors)
        return state

    def _read_state(self, path: Path) -> Mapping[str, Any]:
        found = json.loads((path / _STATE).read_text(encoding="utf-8"))
        origin = (found["format"], found["identity"])
        if origin != (_FORMAT, self._identity):
            raise ValueError(f"it is of format and run {origin}, not {(_FORMAT, self._identity)}")
        state: dict[str, Any] = found["state"]
        return state


def _copy(saved: Mapping[str, Tensor], live: Mapping[str, Tensor]) -> None:
    """Copy saved values into live tensors, if they are the same tensors."""
    shapes = {name: tuple(tensor.shape) for name, tensor in live.items()}
    found = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    if found != shapes:
        names = sorted(name for name in {**shapes, **found} if shapes.get(name) != found.get(name))
        raise ValueError(f"it holds other tensors than the engine: {', '.join(names)}")
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(saved[name])


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
    _sync(path)


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
