"""The rows of an engine and the stretches they work off: what the loop does to single runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from simulator.prefix import Stretch
from simulator.training.job import RunEnd, TrainingJob
from simulator.training.policies import Verdict, severest
from simulator.training.position import Position, Rider
from simulator.training.records import (
    BoolArray,
    EvaluationMade,
    HealthTaken,
    LifeCycle,
    StepMade,
    StepStats,
    StepValues,
    TokenArray,
    TrainingRecord,
)
from simulator.training.taking_up import Start, find_starts

__all__ = ["Rows"]


@dataclass(slots=True, kw_only=True)
class _Row:
    """What one row of the engine is at."""

    stretch: Stretch
    at: Position
    riders: list[Rider]
    """Runs it trains at once; the first owns the steps, their cost and their checkpoints."""
    move: Literal["update", "skip", "stay"] = "update"
    """What this step does to it; ``skip`` makes the step without an update."""

    def tell(self, record: TrainingRecord) -> None:
        for rider in self.riders:
            rider.tell(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A stretch without a row."""

    start: Start
    at: Position
    state: Mapping[str, Tensor] | None
    """Copy of the row it branched off; None where it is a start."""


class Rows:
    """Keeps the rows of an engine busy until every run has ended."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self._riders = [Rider(number, run) for number, run in enumerate(job.runs)]
        self._busy: list[_Row] = []
        self._queue = [
            _Waiting(start=start, at=Position(), state=None) for start in self._find_starts()
        ]
        self._sort_queue()

    def has_work(self) -> bool:
        """Return whether some run has not ended."""
        return bool(self._busy or self._queue)

    # What the loop does in a step, in its order.

    def fill(self) -> bool:
        """Give work to free rows; return whether any row is busy."""
        while self._queue and len(self._busy) < self._job.num_rows:
            self._busy.append(self._begin(self._queue.pop(0), len(self._busy)))
            self.turn_over()  # a checkpoint may hold the very end of its stretch
        return bool(self._busy)

    def values(self) -> StepValues:
        """Return what the schedules prescribe."""
        return StepValues.stack([row.riders[0].run.schedule(row.at.step) for row in self._busy])

    def tokens(self) -> TokenArray:
        """Return the batches, ``[busy rows, sequences, window]``."""
        return np.stack([row.riders[0].run.batches(row.at.num_batches) for row in self._busy])

    def judge(self, stats: StepStats) -> BoolArray:
        """Stop the runs that are to stop; return which rows this step updates."""
        for number, row in enumerate(self._busy):
            self._judge(number, row, stats.of(number))
        return np.array([row.move == "update" for row in self._busy])

    def advance(
        self, values: StepValues, stats: StepStats, times: tuple[float, float, float]
    ) -> None:
        """Note the step made; ``times`` are what data, gradients and update took, in seconds."""
        data, forward_backward, apply = (seconds / len(self._busy) for seconds in times)
        for number, row in enumerate(self._busy):
            if row.move == "stay":
                continue
            row.at.step += 1
            row.at.num_batches += 1
            made = StepMade(
                step=row.at.step,
                tokens=row.at.step * row.riders[0].run.tokens_per_step,
                lr=values.lr[number : number + 1],
                stats=stats.of(number),
                data_seconds=data,
                forward_backward_seconds=forward_backward,
                apply_seconds=apply,
            )
            for rider in row.riders:
                is_clipped = bool(made.stats.is_clipped[0])
                rider.count(is_clipped=is_clipped, is_owner=rider is row.riders[0])
            row.tell(made)

    def measure(self, tokens: TokenArray, stats: StepStats) -> None:
        """Evaluate and inspect the runs for which it is due."""
        for number, row in enumerate(self._busy):
            due = [rider for rider in row.riders if rider.run.is_eval_due(row.at.step)]
            if due and row.move != "stay":
                self._measure(number, row, due, tokens[number], stats.of(number))

    def charge(self, seconds: float) -> None:
        """Divide the time of a step among the rows."""
        for row in self._busy:
            if row.riders:
                row.riders[0].charge(seconds / len(self._busy))

    def save_due(self) -> None:
        """Write the checkpoints that are due."""
        for number, row in enumerate(self._busy):
            if row.riders and row.riders[0].run.is_checkpoint_due(row.at.step):
                self._save(row, self._job.engine.state(number))

    def turn_over(self) -> None:
        """Where a stretch is over: end runs, go on with what follows, refill or close the row."""
        number = 0
        while number < len(self._busy):
            row = self._busy[number]
            if row.riders and row.at.step < row.stretch.stop:
                number += 1
                continue
            follower = self._follow(number, row)
            if follower is not None:
                self._busy[number] = follower
            elif self._queue:
                self._busy[number] = self._begin(self._queue.pop(0), number)
            else:
                self._close(number)

    def preempt(self) -> None:
        """Save every run that has not ended and end it so."""
        for number, row in enumerate(self._busy):
            self._save(row, self._job.engine.state(number))
            self._end(row.riders, "preempted", row.at.step, number)
        for waiting in self._queue:
            riders = self._riders_of(waiting.start.stretch)
            if waiting.state is not None:
                row = _Row(stretch=waiting.start.stretch, at=waiting.at, riders=riders)
                self._save(row, waiting.state)
            self._end(riders, "preempted", waiting.at.step, 0)

    # What these are made of.

    def _find_starts(self) -> tuple[Start, ...]:
        runs = self._job.runs
        saved = {
            number: found
            for number, run in enumerate(runs)
            if (found := run.checkpoints.peek()) is not None
        }
        return find_starts(self._job.roots, saved, [run.identity for run in runs])

    def _sort_queue(self) -> None:
        """Put the longest way to go first, so that rows run out of work together."""
        self._queue.sort(key=lambda waiting: -_length(waiting.start.stretch))

    def _riders_of(self, stretch: Stretch) -> list[Rider]:
        return [self._riders[number] for number in stretch.runs]

    def _begin(self, waiting: _Waiting, number: int) -> _Row:
        """Put a waiting stretch into a row."""
        riders = self._riders_of(waiting.start.stretch)
        if waiting.state is not None:
            riders[0].run.assign(number)
            _copy(waiting.state, self._job.engine.state(number))
            return _Row(stretch=waiting.start.stretch, at=waiting.at, riders=riders)
        row = self._take_up(waiting.start, riders, number)
        row.tell(LifeCycle(kind="started", step=row.at.step))
        return row

    def _take_up(self, start: Start, riders: list[Rider], number: int) -> _Row:
        """Go on from a checkpoint, or begin where there is none that can be trusted."""
        if start.saved_by is not None:
            checkpoints = self._job.runs[start.saved_by].checkpoints
            riders[0].run.assign(number)
            saved = checkpoints.restore(self._job.engine.state(number))
            if saved is not None:
                for rider in riders:
                    rider.restore(saved["riders"][rider.run.identity])
                at = Position(**saved["position"])
                return _Row(stretch=start.stretch, at=at, riders=riders)
        for rider in riders:
            rider.run.checkpoints.discard()
        riders[0].run.start(number)
        return _Row(stretch=start.from_scratch().stretch, at=Position(), riders=riders)

    def _judge(self, number: int, row: _Row, stats: StepStats) -> None:
        verdicts = {rider.number: rider.judge(row.at.step + 1, stats) for rider in row.riders}
        row.move = "update"
        worst = severest(verdicts.values())
        if worst.action == "rewind" and self._go_back(number, row, worst):
            row.move = "stay"
            return
        if worst.action == "skip":
            row.move = "skip"
        for rider in tuple(row.riders):
            if verdicts[rider.number].action in ("stop", "rewind"):
                self._stop(number, row, rider, verdicts[rider.number])
        if not row.riders:
            row.move = "stay"

    def _go_back(self, number: int, row: _Row, verdict: Verdict) -> bool:
        """Rewind if there is something to go back to; all riders go together.

        The batches consumed since then are not read again, and the policies keep their memory:
        they know that they have been here before.
        """
        state = self._job.engine.state(number)
        saved = row.riders[0].run.checkpoints.restore(state)
        if saved is None:
            return False
        row.at.step, row.at.num_batches = saved["position"]["step"], row.at.num_batches + 1
        for rider in row.riders:
            rider.recount(saved["riders"][rider.run.identity])
        row.tell(LifeCycle(kind="rewound", step=row.at.step, reason=verdict.reason))
        return True

    def _stop(self, number: int, row: _Row, rider: Rider, verdict: Verdict) -> None:
        lacking = " (no checkpoint to go back to)" if verdict.action == "rewind" else ""
        reason = verdict.reason + lacking
        rider.tell(LifeCycle(kind="stopped", step=row.at.step, reason=reason))
        row.riders.remove(rider)
        self._end([rider], verdict.status, row.at.step, number, reason)

    def _measure(
        self, number: int, row: _Row, due: list[Rider], tokens: TokenArray, stats: StepStats
    ) -> None:
        """Evaluate and take a health point."""
        health = self._job.inspect(number, tokens)
        begun = self._job.clock()
        made = EvaluationMade(
            step=row.at.step,
            tokens=row.at.step * row.riders[0].run.tokens_per_step,
            evaluation=self._job.evaluate(number),
            seconds=0.0,
        )
        made = replace(made, seconds=self._job.clock() - begun)
        for rider in due:
            taken = HealthTaken(
                step=row.at.step,
                health=health,
                max_violation=stats.max_violation,
                clipped_fraction=np.array([rider.take_clipped_fraction()]),
            )
            rider.tell(taken)
            rider.tell(made)

    def _save(self, row: _Row, state: Mapping[str, Tensor]) -> None:
        row.tell(LifeCycle(kind="checkpoint", step=row.at.step))
        memory = {
            "position": row.at.state(),
            "riders": {rider.run.identity: rider.state() for rider in row.riders},
        }
        row.riders[0].run.checkpoints.save(row.at.step, state, memory)

    def _follow(self, number: int, row: _Row) -> _Row | None:
        """End the runs that are complete; return what goes on in the row, queue what else does."""
        done = [rider for rider in row.riders if rider.run.num_steps <= row.at.step]
        self._end(done, "complete", row.at.step, number)
        alive = {rider.number for rider in row.riders} - {rider.number for rider in done}
        branches = [
            replace(child, runs=runs)
            for child in row.stretch.children
            if (runs := tuple(run for run in child.runs if run in alive))
        ]
        if not branches:
            return None
        if len(branches) > 1:
            self._branch_off(branches[1:], row.at, self._job.engine.state(number))
        first = branches[0]
        return _Row(stretch=first, at=row.at, riders=self._riders_of(first))

    def _branch_off(
        self, branches: list[Stretch], at: Position, state: Mapping[str, Tensor]
    ) -> None:
        copied = {name: tensor.clone() for name, tensor in state.items()}
        self._queue += [
            _Waiting(start=Start(branch, None), at=replace(at), state=copied) for branch in branches
        ]
        self._sort_queue()

    def _close(self, number: int) -> None:
        """Take a row out of work; the last one moves to its place."""
        last = self._busy.pop()
        place = len(self._busy)
        if number < place:
            self._busy[number] = last
            if last.riders:
                last.riders[0].run.assign(number)
                _copy(self._job.engine.state(place), self._job.engine.state(number))

    def _end(
        self,
        riders: list[Rider],
        status: RunEnd,
        step: int,
        number: int,
        reason: str = "",
    ) -> None:
        for rider in riders:
            rider.tell(LifeCycle(kind="ended", step=step))
            outcome = rider.outcome(status, num_steps=step, row=number, reason=reason)
            self._job.ended(rider.number, outcome)


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


def _length(stretch: Stretch) -> int:
    """Return the steps of the longest way through a stretch and what follows it."""
    return stretch.stop - stretch.start + max((_length(c) for c in stretch.children), default=0)
