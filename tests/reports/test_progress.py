import io
from collections.abc import Iterable

import pytest
from rich.console import Console

from reports.progress import HEARTBEAT_SECONDS, clock_time, progress_observer, render_progress
from reports.tracking import StudyProgress, fold
from simulator.records.events import Notice, StudyEvent, StudyFinished
from simulator.records.reader import StudyReader
from tests.reports.runs import advanced, begun, diverged, ended, short_study, started, trial


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


def shown(
    events: Iterable[StudyEvent], *, is_terminal: bool = False, seconds_each: float = 10.0
) -> str:
    clock = Clock()
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=is_terminal, color_system=None)
    with progress_observer(console, clock.now) as observe:
        for event in events:
            observe(event)
            clock.seconds += seconds_each
    return file.getvalue()


def test_piped_every_run_that_ends_has_one_plain_line() -> None:
    text = shown(short_study())
    assert "\x1b" not in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert len([line for line in lines if "/5 #" in line]) == 5
    assert "best so far" in text
    assert "+0.1100" in text
    assert "the best again" in text


def test_lines_tell_the_time_since_the_start() -> None:
    assert shown([begun(), ended(trial(0), 3.5)]).splitlines()[1].startswith("   0:10 ")


def test_distance_is_in_noise_once_noise_is_known() -> None:
    last = shown(short_study()).splitlines()[-1]
    assert last.endswith("+0.1100 = +6.1 noise")


def test_on_a_terminal_the_same_lines_stay() -> None:
    text = shown(short_study(), is_terminal=True)
    for line in shown(short_study()).splitlines():
        assert line in text


def test_a_failed_run_says_why() -> None:
    text = " ".join(shown([begun(), diverged(trial(3))]).split())
    assert "diverged Training loss was not finite at step 9." in text


def test_runs_taken_over_are_counted_not_listed() -> None:
    text = shown([begun(done=1), ended(trial(0), 3.5, is_reused=True), ended(trial(1), 3.6)])
    assert "1 of them done already" in text
    assert "#0" not in text
    assert "2/10 #1" in text
    assert "+0.1000" in text


def test_a_notice_is_shown_without_markup() -> None:
    assert "[bold]merged[/bold]" in shown([begun(), Notice(message="[bold]merged[/bold]\x1b[2J")])


def test_piped_a_long_silence_is_broken() -> None:
    one = trial(0)
    steps = [advanced(one, step) for step in range(1, 100, 10)]
    text = shown([begun(), started(one), *steps], seconds_each=HEARTBEAT_SECONDS / 4)
    beats = [line for line in text.splitlines() if "running #0 step" in line]
    assert 1 <= len(beats) <= 3
    assert "ETA" in beats[0]


def test_the_end_names_the_verdict(study: StudyReader) -> None:
    assert study.summary is not None
    assert "finished: resolved" in shown([begun(), StudyFinished(summary=study.summary)])


@pytest.mark.parametrize("num_events", range(1, 12))
def test_the_live_part_keeps_to_100_columns(num_events: int) -> None:
    progress = StudyProgress()
    for now, event in enumerate(list(short_study())[:num_events]):
        progress = fold(progress, event, float(now))
    file = io.StringIO()
    Console(file=file, width=100).print(render_progress(progress, 500.0))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert f"{progress.num_ended} of 5 runs" in lines[0]
    assert len(lines) == 1 + len(progress.running) + (progress.best is not None)


def test_before_anything_is_known_nothing_is_shown() -> None:
    file = io.StringIO()
    Console(file=file).print(render_progress(StudyProgress(), 0.0))
    assert file.getvalue().strip() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-:--"), (0.4, "0:00"), (59.6, "1:00"), (3723, "1:02:03")]
)
def test_times_read_as_on_a_clock(seconds: float | None, text: str) -> None:
    assert clock_time(seconds) == text
