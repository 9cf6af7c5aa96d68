"""The study directory as its driver writes it: append-only, human-readable, whole after any crash.

A round of trials enters the ledger before the first of its runs begins. A run is stored under the
fingerprint of its complete specification, so what is left to do is a set difference: the ledger's
runs minus those whose record is final.
"""

import contextlib
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from simulator.records.layout import StudyLayout
from simulator.records.summary import Flag, StudySummary
from simulator.records.types import RunRecord, RunStatus, StudyRecord, TrialRecord, check_schema
from simulator.records.writing import append_lines, write_atomically
from simulator.specs.codec import decode, decode_json, encode
from simulator.specs.errors import SpecError, StoppedError, StudyError
from sweeps.executors.faults import fault_of_machine
from sweeps.spec import SweepSpec

__all__ = ["FINAL", "RETRIED", "Store", "resume_command"]

_T = TypeVar("_T")

FINAL: tuple[RunStatus, ...] = ("complete", "pruned", "diverged", "failed", "oom")
"""Statuses after which a run is not taken up again."""

RETRIED: tuple[RunStatus, ...] = ("failed", "oom")
"""Those of them that another attempt may mend: the file is there now, the memory is free."""


class Store:
    """Reads and writes one study directory; whoever writes holds its lock.

    Parameters
    ----------
    layout
        Where everything lies.
    """

    def __init__(self, layout: StudyLayout) -> None:
        self.layout = layout

    def head(self) -> StudyRecord | None:
        """Return the study's head; None where the directory holds no study yet.

        Raises
        ------
        StudyError
            If the head is damaged or of a newer schema.
        """
        path = self.layout.study
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        value = _json_object(text, path)
        check_schema(value.get("schema_version", 0), str(path))
        return _decoded(StudyRecord, value, path)

    def sweep(self) -> SweepSpec:
        """Return the resolved sweep that the study was made for.

        Raises
        ------
        StudyError
            If the directory holds no study.
        """
        head = self.head()
        if head is None:
            raise StudyError(
                str(self.layout.root),
                "must be a study directory (one with a study.json)",
                "no study.json",
                "Name the folder that `sweep run` wrote.",
            )
        return _decoded(SweepSpec, head.sweep, self.layout.study)

    def prepare_directory(self) -> None:
        """Make the directory if it is not there.

        Raises
        ------
        StudyError
            If it cannot be one, or holds files but no study.
        """
        layout, root = self.layout, self.layout.root
        try:
            root.mkdir(parents=True, exist_ok=True)
            found = [] if self.head() else sorted(root.iterdir())
        except (PermissionError, FileExistsError, NotADirectoryError) as error:
            rule, fix = "must be a folder of yours", "Name another folder with --out."
            raise StudyError(str(root), rule, str(error), fix) from None
        ours = {layout.lock, layout.owner, layout.sweep, layout.plan}
        for path in found:
            if path not in ours and not path.name.endswith(".draft"):
                rule, fix = "must be empty, or a study directory", "Name another folder with --out."
                raise StudyError(str(root), rule, path.name, fix)

    def create(self, head: StudyRecord, *, source: str, plan: dict[str, Any]) -> None:
        """Make the directory a study: the user's file and the plan first, the head last."""
        write_atomically(self.layout.sweep, source)
        write_atomically(self.layout.plan, _pretty(plan))
        write_atomically(self.layout.study, _pretty(encode(head)))

    def planned_flags(self) -> tuple[Flag, ...]:
        """Return what the plan warned of; nothing where no plan was stored.

        Raises
        ------
        StudyError
            If the plan is damaged.
        """
        path = self.layout.plan
        try:
            plan = _json_object(path.read_bytes(), path)
        except FileNotFoundError:
            return ()
        return tuple(_decoded(Flag, flag, path) for flag in plan.get("flags", []))

    def trials(self) -> tuple[TrialRecord, ...]:
        """Return the ledger's whole rounds, and cut off what a crash left of an unfinished one.

        Raises
        ------
        StudyError
            If a line before the end is damaged.
        """
        path = self.layout.ledger
        if not path.exists():
            return ()
        content = path.read_bytes()
        lines = content.split(b"\n")[:-1]  # the last piece is empty, or torn
        trials = _whole_rounds([_trial(line, number, path) for number, line in enumerate(lines, 1)])
        end = sum(len(line) + 1 for line in lines[: len(trials)])
        if end < len(content):
            with path.open("r+b") as file:
                file.truncate(end)
        return trials

    def append(self, trials: Sequence[TrialRecord]) -> None:
        """Enter one round of trials; it is in the ledger whole, or not at all."""
        lines = [json.dumps(encode(trial), allow_nan=False) for trial in trials]
        append_lines(self.layout.ledger, lines)

    def record(self, fingerprint: str) -> RunRecord | None:
        """Return a run's final record; None while it has none.

        Raises
        ------
        StudyError
            If the record is damaged or of a newer schema.
        """
        path = self.layout.run(fingerprint).record
        try:
            value = _json_object(path.read_bytes(), path)
        except FileNotFoundError:
            return None
        check_schema(value.get("schema_version", 0), str(path))
        record = _decoded(RunRecord, value, path)
        return record if record.status in FINAL else None

    def forget_failures(self) -> int:
        """Put aside the records of runs that failed through no fault of their own; count them."""
        failed = [
            record
            for fingerprint in {trial.fingerprint for trial in self.trials()}
            if (record := self.record(fingerprint)) is not None and record.status in RETRIED
        ]
        for record in failed:
            path = self.layout.run(record.fingerprint).record
            path.replace(path.with_suffix(".failed.json"))
        return len(failed)

    def write_record(self, record: RunRecord) -> None:
        """Store the record of a run whose worker could not do it."""
        path = self.layout.run(record.fingerprint).record
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _pretty(encode(record)))

    def write_summary(self, summary: StudySummary) -> None:
        """Store the outcome."""
        write_atomically(self.layout.summary, _pretty(encode(summary)))

    @contextlib.contextmanager
    def watching_disk(self) -> Iterator[None]:
        """Turn a disk that takes no more into an orderly stop.

        Raises
        ------
        StoppedError
            In place of the system's error.
        """
        try:
            yield
        except OSError as error:
            reason = fault_of_machine(error)
            if reason is None:
                raise
            raise StoppedError(
                f"the study's disk takes no more: {reason}. What was finished is stored. Make room,"
                f" then resume with: {resume_command(self.layout)}"
            ) from error


def resume_command(layout: StudyLayout) -> str:
    """Return the command line that goes on with the study."""
    return f"sweep resume {shlex.quote(str(layout.root))}"


def _whole_rounds(trials: Sequence[TrialRecord]) -> tuple[TrialRecord, ...]:
    start = 0
    while start < len(trials) and start + trials[start].round_size <= len(trials):
        start += trials[start].round_size
    return tuple(trials[:start])


def _trial(line: bytes, number: int, path: Path) -> TrialRecord:
    try:
        return decode_json(TrialRecord, line)
    except SpecError as error:
        raise StudyError(
            f"{path}:{number}",
            f"must hold a trial: {error.path} {error.rule}",
            line.decode(errors="replace"),
            "Restore the line; only what follows the last line break may be torn.",
        ) from None


def _decoded(cls: type[_T], value: dict[str, Any], path: Path) -> _T:
    try:
        return decode(cls, value)
    except SpecError as error:
        raise StudyError(
            str(path),
            f"must hold a {cls.__name__}: {error.path} {error.rule}",
            error.found,
            "Restore the file, or use the version of the tool that wrote it.",
        ) from None


def _json_object(text: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StudyError(str(path), "must hold JSON", str(error), "Restore the file.") from None
    if not isinstance(value, dict):
        raise StudyError(str(path), "must hold a JSON object", value, "Restore the file.")
    return value


def _pretty(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
