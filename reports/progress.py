"""A running study for people: a live display on a terminal, plain lines when piped.

Both print one line for every run that ends. On a terminal a few lines below them show what is
running now; they stay within 100 columns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reports.numbers import difference, learning_rate, loss, noise_units, shown
from reports.rows import name_of
from reports.tracking import EndedRun, RunningRun, StudyProgress, fold
from simulator.records.events import (
    Notice,
    RunFinished,
    StageStarted,
    StudyEvent,
    StudyFinished,
    StudyObserver,
    StudyStarted,
)
from simulator.records.types import TrialRecord

__all__ = ["NowFn", "clock_time", "progress_observer", "render_progress"]

NowFn = Callable[[], float]
"""Seconds of a clock that never goes back."""

HEARTBEAT_SECONDS = 60.0
"""When piped, the longest silence while runs are on their way."""

MAX_COLUMNS = 100
_STYLES = {"amber": "yellow", "red": "red"}
_STAGE_WORDS = {
    "search": "search: trying configurations, one seed each",
    "noise": "noise: the best again under other seeds, to see how far equal runs differ",
    "finalists": "finalists: the best few and the incumbent again under other seeds",
}


@contextmanager
def progress_observer(console: Console, now: NowFn) -> Iterator[StudyObserver]:
    """Yield an observer that shows a study on ``console`` until the block is left.

    Parameters
    ----------
    console
        Where to show it; standard error, where standard output carries a document.
    now
        The clock.
    """
    display = _Display(console, now)
    if not console.is_terminal:
        yield display.observe
        return
    with Live(
        get_renderable=display.picture, console=console, refresh_per_second=4, transient=True
    ):
        yield display.observe


def clock_time(seconds: float | None) -> str:
    """Return a time as ``1:02:03`` or ``2:03``.

    Examples
    --------
    >>> clock_time(123), clock_time(None)
    ('2:03', '-:--')
    """
    if seconds is None:
        return "-:--"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def render_progress(progress: StudyProgress, now: float) -> RenderableType:
    """Return the live part: the study as a whole, the running runs, the best so far."""
    if not progress.num_planned:
        return Text("")
    parts: list[RenderableType] = [_headline(progress, now)]
    if progress.running:
        parts.append(_running_table(progress))
    best = progress.best
    if best is not None:
        parts.append(Text(f"  best so far  {_config_words(best.trial)}  loss {loss(best.loss)}"))
    return Group(*parts)


class _Display:
    """Keeps what is known and prints what happened."""

    def __init__(self, console: Console, now: NowFn) -> None:
        self._console = console
        self._now = now
        self._progress = StudyProgress()
        self._spoke = now()

    def picture(self) -> RenderableType:
        return render_progress(self._progress, self._now())

    def observe(self, event: StudyEvent) -> None:
        now = self._now()
        self._progress = fold(self._progress, event, now)
        line = _line(self._progress, event)
        if line is None and self._is_silent(now):
            line = Text(_heartbeat(self._progress, now))
        if line is not None:
            stamp = clock_time(now - self._progress.started) if self._progress.name else "0:00"
            width = min(MAX_COLUMNS, self._console.width)
            self._console.print(Text(f"{stamp:>7} ", style="dim") + line, width=width)
            self._spoke = now

    def _is_silent(self, now: float) -> bool:
        is_piped = not self._console.is_terminal
        return is_piped and bool(self._progress.running) and now - self._spoke > HEARTBEAT_SECONDS


def _line(progress: StudyProgress, event: StudyEvent) -> Text | None:
    """Return what is printed of an event for good; None for most."""
    match event:
        case StudyStarted():
            done = f", {event.num_runs_done} of them done already" if event.num_runs_done else ""
            workers = f"{event.num_workers} worker" + ("s" if event.num_workers != 1 else "")
            return Text(
                f"{shown(event.name)}: up to {event.total_planned_runs} runs{done}, {workers}; "
                "+ is above the best so far"
            )
        case StageStarted():
            words = _STAGE_WORDS.get(event.name, event.name)
            return Text(f"{words} ({event.num_runs} runs)", style="bold")
        case RunFinished(is_reused=False):
            return _ended_line(progress, progress.ended[-1])
        case Notice():
            return Text(shown(event.message, 400), style=_STYLES.get(event.severity, ""))
        case StudyFinished():
            return Text(f"finished: {event.summary.verdict.replace('_', ' ')}", style="bold")
        case _:
            return None


def _ended_line(progress: StudyProgress, run: EndedRun) -> Text:
    head = f"{progress.num_ended:>3}/{progress.num_planned} {_config_words(run.trial)}  "
    if run.loss is None:
        return Text.assemble(head, (run.status, "red"), f"  {shown(run.reason, 120)}")
    return Text.assemble(head, f"loss {loss(run.loss)}  ", _distance(progress, run))


def _distance(progress: StudyProgress, run: EndedRun) -> tuple[str, str]:
    above, best = progress.above_best(run), progress.best
    if above is None or best is None:
        return "", ""
    if run is best:
        return "best so far", "green"
    if run.trial.config == best.trial.config:
        return "the best again", "green"
    noise = progress.noise
    units = f" = {noise_units(above / noise)} noise" if noise else ""
    return f"{difference(above)}{units}", ""


def _config_words(trial: TrialRecord) -> str:
    """Return a configuration in columns: name, schedule, peak learning rate, seed."""
    params = trial.params
    lr = params.get("peak_lr")
    rate = learning_rate(lr) if isinstance(lr, float) else ""
    schedule = shown(str(params.get("schedule", "")), 17)
    name = shown(name_of(trial.config, trial.label), 12)
    return f"{name:<12} {schedule:<17} lr {rate:<7} seed {trial.seed}"


def _heartbeat(progress: StudyProgress, now: float) -> str:
    runs = ", ".join(
        f"#{run.trial.config} step {run.step}/{run.num_steps}" for run in progress.running.values()
    )
    return (
        f"{progress.num_ended:>3}/{progress.num_planned}  running {shown(runs, 400)}; "
        f"ETA {clock_time(progress.seconds_left(now))}"
    )


def _headline(progress: StudyProgress, now: float) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(
        Text(f"  {progress.stage}", style="bold"),
        f"{progress.num_ended} of {progress.num_planned} runs",
        ProgressBar(total=1.0, completed=progress.fraction, width=24),
        f"{100 * progress.fraction:.0f} %",
        f"elapsed {clock_time(now - progress.started)}",
        f"ETA {clock_time(progress.seconds_left(now))}",
    )
    return table


def _running_table(progress: StudyProgress) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for run in progress.running.values():
        table.add_row(*_running_cells(run))
    return table


def _running_cells(run: RunningRun) -> tuple[RenderableType, ...]:
    return (
        f"  {_config_words(run.trial)}",
        ProgressBar(total=1.0, completed=run.fraction, width=12),
        f"{run.step}/{run.num_steps}",
        "" if run.loss is None else f"train loss {run.loss:.3f}",
    )
