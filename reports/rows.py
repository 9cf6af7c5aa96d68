"""The configurations of a study and their runs as rows, ranked where there is an outcome."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.numbers import shown
from simulator.records.reader import RunReader, StudyReader
from simulator.records.summary import ConfigSummary, StudySummary, TargetRecipe
from simulator.records.types import RunPurpose, TrialRecord
from simulator.specs.run import RunSpec

__all__ = ["ConfigRow", "Group", "RunRow", "config_rows", "name_of"]

Group = Literal["top", "tie", "other", "unranked"]
"""Where the outcome puts a configuration; ``unranked`` when it has no place in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of a configuration."""

    trial: int
    seed: int
    purpose: RunPurpose
    status: str
    """A run's status, or ``waiting`` when nobody has begun it."""
    reason: str
    loss: float | None
    num_steps_done: int | None
    num_steps: int | None
    wall_seconds: float | None
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One configuration with everything tables and figures show of it."""

    config: int
    name: str
    """Such as ``#7`` or ``#0 incumbent``."""
    rank: int | None
    """From 1, in the order of the outcome."""
    group: Group
    is_incumbent: bool
    is_finalist: bool
    schedule: str
    peak_lr: float | None
    tau: float | None
    """Averaging timescale 1 / (lr * weight_decay * steps), as a share of the run."""
    weight_decay: float | None
    warmup_steps: int | None
    warmup_ratio: float | None
    num_seeds: int
    """Runs that completed."""
    losses: tuple[float, ...]
    """Smoothed loss of each completed run, nats per token."""
    loss: float | None
    """Mean over the seeds."""
    standard_error: float | None
    """Of the difference from the best."""
    difference: float | None
    """From the best, nats."""
    difference_in_noise: float | None
    gain: float | None
    """Loss of the incumbent minus this one's, nats."""
    status: str
    reason: str
    recipe: TargetRecipe | None
    runs: tuple[RunRow, ...]

    @property
    def matrix_lr_interval(self) -> tuple[float, float] | None:
        """80 % interval of the target's peak rate of a hidden matrix."""
        if self.recipe is None:
            return None
        low, high = self.recipe.lr_interval_80
        factor = self.recipe.matrix_lr / self.recipe.peak_lr
        return low * factor, high * factor


def name_of(config: int, label: str) -> str:
    """Return how a configuration is called everywhere."""
    return f"#{config} {shown(label, 24)}".rstrip()


def config_rows(study: StudyReader) -> tuple[ConfigRow, ...]:
    """Return every configuration of the ledger, best first, those without a loss last.

    With a summary the order, the losses and the differences are the summary's; without one they
    are provisional: means over whatever seeds have ended.
    """
    by_config: dict[int, list[TrialRecord]] = {}
    for trial in study.trials:
        known_trials = by_config.setdefault(trial.config, [])
        if all(trial.fingerprint != known.fingerprint for known in known_trials):
            known_trials.append(trial)  # a run that serves two purposes counts once
    placed = _places(study.summary)
    means = {config: _mean(study, trials) for config, trials in by_config.items()}
    known = [mean for mean in means.values() if mean is not None]
    rows = []
    for config, trials in by_config.items():
        rank, group, found = placed.get(config, (None, "unranked", None))
        outcome = _Outcome.of(found, means[config], min(known, default=None), study.summary)
        rows.append(_row(study, trials, rank, group, outcome))
    return tuple(sorted(rows, key=_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The numbers of one configuration, from the summary where it has them."""

    loss: float | None
    standard_error: float | None
    difference: float | None
    difference_in_noise: float | None
    gain: float | None
    is_finalist: bool
    recipe: TargetRecipe | None

    @classmethod
    def of(
        cls,
        found: ConfigSummary | None,
        mean: float | None,
        best: float | None,
        summary: StudySummary | None,
    ) -> "_Outcome":
        loss = mean if found is None else found.mean_loss
        incumbent = summary.incumbent.mean_loss if summary and summary.incumbent else None
        provisional = loss - best if loss is not None and best is not None else None
        return cls(
            loss=loss,
            standard_error=found.standard_error if found else None,
            difference=found.difference if found else provisional,
            difference_in_noise=found.difference_in_noise if found else None,
            gain=incumbent - loss if incumbent is not None and loss is not None else None,
            is_finalist=found is not None and found.is_finalist,
            recipe=found.recipe if found else None,
        )


def _places(
    summary: StudySummary | None,
) -> dict[int, tuple[int | None, Group, ConfigSummary | None]]:
    if summary is None:
        return {}
    groups: tuple[tuple[Group, Sequence[ConfigSummary]], ...] = (
        ("top", summary.top),
        ("tie", summary.ties),
        ("other", summary.others),
    )
    flat = [(group, found) for group, members in groups for found in members]
    return {found.config: (rank, group, found) for rank, (group, found) in enumerate(flat, 1)}


def _row(
    study: StudyReader,
    trials: Sequence[TrialRecord],
    rank: int | None,
    group: Group,
    outcome: _Outcome,
) -> ConfigRow:
    first = trials[0]
    spec = study.runs[first.fingerprint].spec
    runs = tuple(_run_row(trial, study.runs[trial.fingerprint]) for trial in trials)
    losses = tuple(run.loss for run in runs if run.loss is not None)
    status, reason = _status(runs)
    return ConfigRow(
        config=first.config,
        name=name_of(first.config, first.label),
        rank=rank,
        group=group,
        is_incumbent=_is_incumbent(study.summary, first),
        is_finalist=outcome.is_finalist,
        schedule=shown(str(first.params.get("schedule", "")), 32),
        peak_lr=spec.optimizer.peak_lr if spec else _number(first.params, "peak_lr"),
        tau=_tau(first.params, spec),
        weight_decay=spec.optimizer.weight_decay if spec else _number(first.params, "weight_decay"),
        warmup_steps=spec.schedule.warmup_steps if spec else None,
        warmup_ratio=_number(first.params, "warmup_ratio"),
        num_seeds=len(losses),
        losses=losses,
        loss=outcome.loss,
        standard_error=outcome.standard_error,
        difference=outcome.difference,
        difference_in_noise=outcome.difference_in_noise,
        gain=outcome.gain,
        status=status,
        reason=reason,
        recipe=outcome.recipe,
        runs=runs,
    )


def _run_row(trial: TrialRecord, run: RunReader) -> RunRow:
    record = run.record
    return RunRow(
        trial=trial.number,
        seed=trial.seed,
        purpose=trial.purpose,
        status=run.status or "waiting",
        reason=shown(record.reason, 200) if record else "",
        loss=record.loss if record and record.status == "complete" else None,
        num_steps_done=record.num_steps_done if record else None,
        num_steps=run.spec.num_steps if run.spec else None,
        wall_seconds=record.wall_seconds if record else None,
        fingerprint=trial.fingerprint,
    )


def _status(runs: Sequence[RunRow]) -> tuple[str, str]:
    """Return one status for a configuration, and the reason of its first run that has one."""
    statuses = [run.status for run in runs]
    reason = next((run.reason for run in runs if run.reason), "")
    if len(set(statuses)) == 1:
        return statuses[0], reason
    num_complete = statuses.count("complete")
    if num_complete:
        return f"{num_complete} of {len(runs)} complete", reason
    return next(status for status in statuses if status != "waiting"), reason


def _is_incumbent(summary: StudySummary | None, trial: TrialRecord) -> bool:
    if summary is not None and summary.incumbent is not None:
        return summary.incumbent.config == trial.config
    return trial.label == "incumbent"


def _mean(study: StudyReader, trials: Sequence[TrialRecord]) -> float | None:
    records = (study.runs[trial.fingerprint].record for trial in trials)
    losses = [r.loss for r in records if r and r.status == "complete" and r.loss is not None]
    return math.fsum(losses) / len(losses) if losses else None


def _number(params: Mapping[str, object], name: str) -> float | None:
    value = params.get(name)
    return float(value) if isinstance(value, int | float) else None


def _tau(params: Mapping[str, object], spec: RunSpec | None) -> float | None:
    tau = _number(params, "tau")
    if tau is not None or spec is None or spec.optimizer.weight_decay == 0:
        return tau
    return 1 / (spec.optimizer.peak_lr * spec.optimizer.weight_decay * spec.num_steps)


def _order(row: ConfigRow) -> tuple[float, float, int]:
    rank = math.inf if row.rank is None else row.rank
    return rank, math.inf if row.loss is None else row.loss, row.config
