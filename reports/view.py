"""Everything a report shows, as frozen view models; all arithmetic is done here and in ``rows``.

Losses are nats per token of the first validation set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reports.numbers import shown
from reports.rows import ConfigRow, config_rows
from simulator.records.reader import StudyReader
from simulator.records.summary import Flag, StudySummary
from simulator.schedules import lr_factors

__all__ = [
    "MAX_CURVES",
    "Curve",
    "Dimension",
    "Finalist",
    "Provenance",
    "ScheduleCurve",
    "StudyView",
    "make_view",
]

MAX_CURVES = 150
"""Loss curves drawn at most, the best configurations first: more than can be told apart."""

MAX_SCHEDULE_POINTS = 200
"""Points of one schedule curve: finer than a screen shows."""

_SEVERITIES = ("red", "amber", "info")

NEVER_SCALED = (
    "n_layers",
    "n_routed_experts",
    "n_activated_experts",
    "vocab_size",
    "n_mtp_modules",
)
"""Dimensions that are no widths: where they differ the proxy was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Held-out loss of one run as it was trained."""

    config: int
    seed: int
    is_best: bool
    """It belongs to the best configuration."""
    is_incumbent: bool
    tokens: tuple[int, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCurve:
    """Learning rate of one configuration over its run."""

    name: str
    place: int
    """From 1: among the best so far, the incumbent after them."""
    is_incumbent: bool
    fractions: tuple[float, ...]
    """Shares of the run passed."""
    rates: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """One finalist's distance from the best configuration, nats."""

    name: str
    is_chosen: bool
    is_incumbent: bool
    difference: float
    standard_error: float | None
    by_seed: tuple[float, ...]
    """Distance seed by seed, over the seeds both were trained with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One field of the architecture, target beside proxy."""

    name: str
    target: str
    proxy: str
    treatment: Literal["scaled", "kept", "cut"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers come from."""

    created: str
    code_versions: tuple[str, ...]
    torch_versions: tuple[str, ...]
    devices: tuple[str, ...]
    data_sha256: str
    data_sources: str
    tokenizer: str
    seeds: tuple[int, ...]
    parametrisation: str
    sampler: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """One study as the report shows it."""

    name: str
    target_name: str
    summary: StudySummary | None
    rows: tuple[ConfigRow, ...]
    """Every configuration, best first."""
    num_runs: int
    num_runs_ended: int
    status_counts: tuple[tuple[str, int], ...]
    num_steps: int | None
    """Optimiser steps of one run."""
    width_factor: float | None
    """Width of the target over that of the proxy."""
    validation_name: str
    curves: tuple[Curve, ...]
    num_curves_left_out: int
    finalists: tuple[Finalist, ...]
    schedules: tuple[ScheduleCurve, ...]
    dimensions: tuple[Dimension, ...]
    is_synthetic: bool
    """Some training source is made up, so that the study says nothing about real text."""
    provenance: Provenance

    @property
    def noise_std(self) -> float | None:
        """Noise of one run, nats; None where it was not measured."""
        return self.summary.noise_std if self.summary else None

    @property
    def ranked(self) -> tuple[ConfigRow, ...]:
        """Configurations with a loss, best first."""
        return tuple(row for row in self.rows if row.loss is not None)

    @property
    def failed(self) -> tuple[ConfigRow, ...]:
        """Configurations that ended without a loss."""
        ended = ("diverged", "failed", "oom", "pruned")
        return tuple(row for row in self.rows if row.loss is None and row.status in ended)

    @property
    def chosen(self) -> tuple[ConfigRow, ...]:
        """The top three and their ties."""
        return tuple(row for row in self.rows if row.group in ("top", "tie"))

    @property
    def incumbent(self) -> ConfigRow | None:
        """The published recipe's configuration."""
        return next((row for row in self.rows if row.is_incumbent), None)

    @property
    def recipe_flags(self) -> tuple[tuple[str, Flag], ...]:
        """Remarks on the mapping to the target, unless made on the study as a whole already, with
        the names of those they concern; no name where they concern all.
        """
        said = {flag.code for flag in self.flags}
        names: dict[Flag, list[str]] = {}
        for row in self.chosen:
            for flag in row.recipe.flags if row.recipe else ():
                if flag.code not in said:
                    names.setdefault(flag, []).append(row.name)
        found = sorted(names.items(), key=lambda item: _SEVERITIES.index(item[0].severity))
        everyone = len([row for row in self.chosen if row.recipe])
        return tuple(
            ("" if len(members) == everyone else ", ".join(members), flag)
            for flag, members in found
        )

    @property
    def gain_in_noise(self) -> float | None:
        """How far the best lies below the incumbent, in units of the noise of one run."""
        best = self.rows[0].gain if self.rows else None
        return best / self.noise_std if best is not None and self.noise_std else None

    @property
    def flops_share(self) -> float | None:
        """Compute of the sweep over that of the target's run."""
        if self.summary is None or self.summary.target_flops <= 0:
            return None
        return self.summary.sweep_flops / self.summary.target_flops

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Remarks on the study as a whole, gravest first."""
        flags = self.summary.flags if self.summary else ()
        return tuple(sorted(flags, key=lambda flag: _SEVERITIES.index(flag.severity)))


def make_view(study: StudyReader) -> StudyView:
    """Read a study and work out everything its report shows.

    Raises
    ------
    StudyError
        If a file of the study is not what it must be.
    """
    rows = config_rows(study)
    statuses = [run.status for row in rows for run in row.runs]
    curves = _curves(study, rows)
    data = _at(study.sweep, "base", "data")
    return StudyView(
        name=shown(study.head.name, 80),
        target_name=shown(str(_at(study.sweep, "target", "name") or "the target"), 80),
        summary=study.summary,
        rows=rows,
        num_runs=len(statuses),
        num_runs_ended=sum(status not in ("waiting", "running", "stale") for status in statuses),
        status_counts=tuple((s, statuses.count(s)) for s in dict.fromkeys(statuses)),
        num_steps=next((run.num_steps for row in rows for run in row.runs if run.num_steps), None),
        width_factor=_width_factor(study),
        validation_name=shown(_validation_name(data), 40),
        curves=curves,
        num_curves_left_out=max(0, sum(row.loss is not None for row in rows) - MAX_CURVES),
        finalists=_finalists(rows),
        schedules=_schedules(study, rows),
        dimensions=_dimensions(study),
        is_synthetic=any(source.get("kind") == "synthetic" for source in _sources(data)),
        provenance=_provenance(study, data),
    )


def _curves(study: StudyReader, rows: Sequence[ConfigRow]) -> tuple[Curve, ...]:
    found = []
    ranked = [row for row in rows if row.loss is not None][:MAX_CURVES]
    for row in ranked + [row for row in rows if row.loss is None][: MAX_CURVES // 5]:
        for run in row.runs:
            points = study.runs[run.fingerprint].evals()
            curve = Curve(
                config=row.config,
                seed=run.seed,
                is_best=bool(ranked) and row is ranked[0],
                is_incumbent=row.is_incumbent,
                tokens=tuple(point.tokens for point in points),
                losses=tuple(next(iter(point.loss.values()), float("nan")) for point in points),
            )
            if points:
                found.append(curve)
    return tuple(found)


def _finalists(rows: Sequence[ConfigRow]) -> tuple[Finalist, ...]:
    if not rows:
        return ()
    best = {run.seed: run.loss for run in rows[0].runs if run.loss is not None}
    return tuple(
        Finalist(
            name=row.name,
            is_chosen=row.group in ("top", "tie"),
            is_incumbent=row.is_incumbent,
            difference=row.difference,
            standard_error=row.standard_error,
            by_seed=tuple(
                run.loss - best[run.seed]
                for run in row.runs
                if run.loss is not None and run.seed in best
            ),
        )
        for row in rows
        if (row.is_finalist or row.group in ("top", "tie")) and row.difference is not None
    )


def _schedules(study: StudyReader, rows: Sequence[ConfigRow]) -> tuple[ScheduleCurve, ...]:
    top = [row for row in rows if row.loss is not None][:3]
    incumbent = [row for row in rows if row.is_incumbent and row not in top]
    found = []
    for place, row in enumerate(top + incumbent, 1):
        spec = study.runs[row.runs[0].fingerprint].spec
        if spec is None:
            continue
        factors = lr_factors(spec.schedule, spec.num_steps)
        stride = max(1, len(factors) // MAX_SCHEDULE_POINTS)
        steps = sorted({*range(0, len(factors), stride), len(factors) - 1})
        found.append(
            ScheduleCurve(
                name=row.name,
                place=place,
                is_incumbent=row.is_incumbent,
                fractions=tuple((step + 1) / spec.num_steps for step in steps),
                rates=tuple(spec.optimizer.peak_lr * factors[step] for step in steps),
            )
        )
    return tuple(found)


def _dimensions(study: StudyReader) -> tuple[Dimension, ...]:
    """Return the plan's table of dimensions; without a plan, the architecture field by field."""
    planned = _at(study.plan, "dimensions") or ()
    found = tuple(_planned_dimension(entry) for entry in planned if isinstance(entry, Mapping))
    if found:
        return found
    target = _flat(_at(study.sweep, "target", "model") or {})
    proxy = _flat(_at(study.sweep, "base", "model") or {})
    return tuple(
        Dimension(
            name=name,
            target=target[name],
            proxy=proxy.get(name, "none"),
            treatment=_treatment(name, target[name], proxy.get(name, "none")),
            reason="",
        )
        for name in target
    )


def _planned_dimension(entry: Mapping[str, Any]) -> Dimension:
    name, target, proxy = (str(entry.get(key, "")) for key in ("name", "target", "proxy"))
    treatment = entry.get("treatment")
    return Dimension(
        name=shown(name),
        target=shown(target.removesuffix(".0"), 40),
        proxy=shown(proxy.removesuffix(".0"), 40),
        treatment=treatment
        if treatment in ("scaled", "kept", "cut")
        else _treatment(name, target, proxy),
        reason=shown(str(entry.get("reason", "")), 200),
    )


def _width_factor(study: StudyReader) -> float | None:
    target, proxy = (_at(study.sweep, part, "model", "dim") for part in ("target", "base"))
    return target / proxy if isinstance(target, int) and isinstance(proxy, int) else None


def _treatment(name: str, target: str, proxy: str) -> Literal["scaled", "kept", "cut"]:
    if target == proxy:
        return "kept"
    return "cut" if name.rpartition(".")[2] in NEVER_SCALED else "scaled"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            found |= _flat(entry, f"{prefix}{key}.")
        elif entry is not None:
            found[shown(f"{prefix}{key}", 60)] = shown(str(entry), 40)
    return found


def _at(value: Any, *path: str) -> Any:
    """Return what lies under a path of plain values; None where the path ends early."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _sources(data: Any) -> tuple[Mapping[str, Any], ...]:
    sources = _at(data, "sources") or ()
    return tuple(source for source in sources if isinstance(source, Mapping))


def _validation_name(data: Any) -> str:
    sets: Sequence[Any] = _at(data, "validation") or ({},)
    return str(_at(sets[0], "name") or "held-out")


def _provenance(study: StudyReader, data: Any) -> Provenance:
    records = [run.record for run in study.runs.values() if run.record is not None]
    base = _at(study.sweep, "base")
    sources = [
        " ".join(filter(None, [str(source.get("kind")), str(source.get("path") or "")]))
        for source in _sources(data)
    ]
    kind, anchor = (_at(base, "parametrisation", key) for key in ("kind", "anchor"))
    return Provenance(
        created=shown(study.head.created),
        code_versions=_distinct([study.head.code_version, *(r.code_version for r in records)]),
        torch_versions=_distinct([r.execution.torch_version for r in records]),
        devices=_distinct(
            [f"{r.execution.device_name} ({r.execution.precision})" for r in records]
        ),
        data_sha256=shown(str(_at(data, "content_sha256") or ""), 64),
        data_sources=shown(", ".join(sources), 200),
        tokenizer=shown(
            f"{_at(data, 'tokenizer', 'kind')}, {_at(data, 'tokenizer', 'vocab_size')} ids"
        ),
        seeds=tuple(sorted({trial.seed for trial in study.trials})),
        parametrisation=shown(f"{kind}, anchored at the {anchor}") if kind else "",
        sampler=shown(str(_at(study.sweep, "search", "sampler") or "")),
    )


def _distinct(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shown(value, 80) for value in values))
