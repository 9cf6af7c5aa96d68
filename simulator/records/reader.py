"""Read a study directory and nothing else: no lock is taken and no file is written.

A study may be read while a driver writes it, or after the driver was killed at any moment.
Records are written atomically, so they are whole or absent. Files that grow by the line may end
in a torn line; that line is left out. Everything is read when it is asked for.
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import GenericAlias
from typing import Any, TypeVar, cast

from simulator.records.layout import RunLayout, StudyLayout
from simulator.records.owner import Owner, is_owner_alive, read_owner
from simulator.records.summary import StudySummary
from simulator.records.types import (
    SCHEMA_VERSION,
    EvalPoint,
    HealthPoint,
    RunRecord,
    RunStatus,
    StepPoint,
    StudyRecord,
    TrialRecord,
    check_schema,
)
from simulator.specs.codec import decode, decode_json
from simulator.specs.errors import SpecError, StudyError
from simulator.specs.run import RunSpec

__all__ = ["OwnerProbe", "RunReader", "StudyReader"]

_T = TypeVar("_T")
_P = TypeVar("_P", StepPoint, EvalPoint, HealthPoint)

OwnerProbe = Callable[[Owner], bool]
"""Tells whether the driver that ``owner.json`` names still lives."""


class RunReader:
    """One run's folder.

    Parameters
    ----------
    layout
        Where its files lie.
    has_driver
        Whether a driver works on the study; decides between ``running`` and ``stale``.
    """

    def __init__(self, layout: RunLayout, *, has_driver: bool) -> None:
        self.layout = layout
        self._has_driver = has_driver

    @property
    def fingerprint(self) -> str:
        """Identity of the run."""
        return self.layout.root.name

    @cached_property
    def spec(self) -> RunSpec | None:
        """The run's specification; None before it was written.

        Raises
        ------
        StudyError
            If the file does not hold a specification.
        """
        value = _read_json(self.layout.spec)
        return None if value is None else _decoded(RunSpec, value, self.layout.spec)

    @cached_property
    def record(self) -> RunRecord | None:
        """The run's outcome; None while it has none.

        Raises
        ------
        StudyError
            If the file does not hold a record, or one of a newer schema.
        """
        value = _read_json(self.layout.record)
        return None if value is None else _versioned(RunRecord, value, self.layout.record)

    @property
    def status(self) -> RunStatus | None:
        """The record's status; without a record ``running``, or ``stale`` when the driver is gone.

        None means that nobody has begun the run.
        """
        if self.record is not None:
            is_orphan = self.record.status == "running" and not self._has_driver
            return "stale" if is_orphan else self.record.status
        if not self.layout.root.is_dir():
            return None
        return "running" if self._has_driver else "stale"

    def steps(self) -> tuple[StepPoint, ...]:
        """Return the training series in order of steps; empty where nothing was logged."""
        return _series(self.layout.steps, StepPoint)

    def evals(self) -> tuple[EvalPoint, ...]:
        """Return the held-out series in order of steps."""
        return _series(self.layout.evals, EvalPoint)

    def health(self) -> tuple[HealthPoint, ...]:
        """Return the health series in order of steps."""
        return _series(self.layout.health, HealthPoint)


class StudyReader:
    """A study directory.

    Parameters
    ----------
    root
        The directory.
    probe
        How to find out whether the driver named in ``owner.json`` lives.

    Raises
    ------
    StudyError
        If ``root`` is not a study, or one of a newer schema.

    Examples
    --------
    >>> study = StudyReader(Path("runs/quickstart"))  # doctest: +SKIP
    >>> [trial.number for trial in study.trials]  # doctest: +SKIP
    [0, 1, 2]
    """

    def __init__(self, root: Path, *, probe: OwnerProbe = is_owner_alive) -> None:
        self.layout = StudyLayout(root)
        self._probe = probe
        value = _read_json(self.layout.study)
        if value is None:
            raise StudyError(
                str(root),
                "must be a study directory (one with a study.json)",
                _what_is_there(root),
                "Name the folder that `sweep run` wrote.",
            )
        self.head = _versioned(StudyRecord, value, self.layout.study)

    @property
    def root(self) -> Path:
        """The directory."""
        return self.layout.root

    @property
    def sweep(self) -> dict[str, Any]:
        """The resolved sweep as plain values; its package knows how to decode it."""
        return self.head.sweep

    @cached_property
    def plan(self) -> dict[str, Any] | None:
        """What was planned, as plain values; None where no plan was written."""
        return _read_json(self.layout.plan)

    @cached_property
    def owner(self) -> Owner | None:
        """Who drives the study; None when nobody does."""
        return read_owner(self.layout.owner)

    @cached_property
    def has_driver(self) -> bool:
        """Whether a living driver works on the study."""
        return self.owner is not None and self._probe(self.owner)

    @cached_property
    def trials(self) -> tuple[TrialRecord, ...]:
        """The ledger's whole rounds, in order; what a crash left of another round does not count.

        Raises
        ------
        StudyError
            If a line before the last line break is not a trial.
        """
        path = self.layout.ledger
        lines = _text(path).split("\n")[:-1]
        found = [_trial(line, number, path) for number, line in enumerate(lines, 1)]
        return _whole_rounds(found)

    @cached_property
    def summary(self) -> StudySummary | None:
        """The outcome; None before the study has ended.

        Raises
        ------
        StudyError
            If the file does not hold a summary, or one of a newer schema.
        """
        value = _read_json(self.layout.summary)
        return None if value is None else _versioned(StudySummary, value, self.layout.summary)

    @cached_property
    def runs(self) -> dict[str, RunReader]:
        """Every run the ledger names, by fingerprint, in order of first mention."""
        has_driver = self.has_driver
        return {
            trial.fingerprint: RunReader(self.layout.run(trial.fingerprint), has_driver=has_driver)
            for trial in self.trials
        }


def _read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in ``path``; None where there is no such file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StudyError(
            str(path), "must hold JSON", str(error), "Restore the file or make the study again."
        ) from None
    except OSError as error:
        raise StudyError(str(path), "must be readable", str(error), "Check the path.") from None
    if not isinstance(value, dict):
        raise StudyError(
            str(path), "must hold a JSON object", value, "Restore it or make the study again."
        )
    return value


def _versioned(cls: type[_T], value: dict[str, Any], path: Path) -> _T:
    version = value.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise StudyError(
            str(path),
            f"must have schema_version 1 to {SCHEMA_VERSION}",
            version,
            "Check that the folder is a study of this tool.",
        )
    check_schema(version, str(path))
    return _decoded(cls, value, path)


def _decoded(cls: type[_T], value: dict[str, Any], path: Path) -> _T:
    try:
        return decode(cls, value)
    except SpecError as error:
        raise StudyError(
            str(path),
            f"must hold a {cls.__name__}: {error.path} {error.rule}",
            error.found,
            "Restore the file, or read it with the version of the tool that wrote it.",
        ) from None


def _text(path: Path) -> str:
    """Return the content of a growing file; a character torn at its end is replaced."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _trial(line: str, number: int, path: Path) -> TrialRecord:
    try:
        return decode_json(TrialRecord, line)
    except SpecError as error:
        raise StudyError(
            f"{path}:{number}",
            f"must hold a trial: {error.path} {error.rule}",
            line,
            "Restore the line; only what follows the last line break may be torn.",
        ) from None


def _whole_rounds(trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    end = 0
    while end < len(trials) and end + trials[end].round_size <= len(trials):
        end += trials[end].round_size
    return tuple(trials[:end])


def _series(path: Path, cls: type[_P]) -> tuple[_P, ...]:
    """Return the points by step; of a step written twice (before and after a resume) the later."""
    lines = [line for line in _text(path).split("\n") if line.strip()]
    try:
        found = decode_json(_tuple_of(cls), "[" + ",".join(lines) + "]")
    except SpecError:
        found = tuple(point for line in lines if (point := _point(line, cls)) is not None)
    by_step = {point.step: point for point in found}
    return tuple(by_step[step] for step in sorted(by_step))


def _tuple_of(cls: type[_P]) -> type[tuple[_P, ...]]:
    """Return ``tuple[cls, ...]``, so that a whole series is decoded in one call."""
    return cast("type[tuple[_P, ...]]", GenericAlias(tuple, (cls, ...)))


def _point(line: str, cls: type[_P]) -> _P | None:
    """Return the point of one line; None for one torn by a kill, in the middle too.

    A diverging run logs values that are no numbers, which strict decoding refuses; such a point is
    what the log is read for, so it is built as it is.
    """
    try:
        return decode_json(cls, line)
    except SpecError:
        return _built_as_it_is(line, cls)


def _built_as_it_is(line: str, cls: type[_P]) -> _P | None:
    try:
        point = cls(**json.loads(line))
    except (json.JSONDecodeError, TypeError):
        return None
    return point if isinstance(point.step, int) else None


def _what_is_there(root: Path) -> str:
    if not root.exists():
        return "no such folder"
    if not root.is_dir():
        return "a file"
    names = sorted(entry.name for entry in root.iterdir())
    if not names:
        return "an empty folder"
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return "a folder with " + ", ".join(names[:6]) + more
