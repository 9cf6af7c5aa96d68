from collections.abc import Iterable
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.tracking import StudyProgress, fold
from simulator.records.events import Notice, StageStarted, StudyEvent
from tests.reports.runs import advanced, begun, diverged, ended, short_study, started, trial


def folded(events: Iterable[StudyEvent], *, seconds_each: float = 1.0) -> StudyProgress:
    progress, now = StudyProgress(), 0.0
    for event in events:
        progress = fold(progress, event, now)
        now += seconds_each
    return progress


def test_a_run_is_running_from_start_to_end() -> None:
    one = trial(1)
    progress = folded([begun(), started(one), advanced(one, 30, 4.5)])
    (run,) = progress.running.values()
    assert (run.step, run.fraction, run.loss) == (30, 0.3, 4.5)
    progress = fold(progress, ended(one, 3.4), 9.0)
    assert not progress.running
    assert progress.num_ended == 1


def test_progress_of_a_run_nobody_started_is_ignored() -> None:
    assert not folded([begun(), advanced(trial(3), 1)]).running


def test_the_best_is_the_lowest_loss_under_the_shared_seed() -> None:
    events = [
        begun(),
        ended(trial(0), 3.5),
        ended(trial(1), 3.4),
        ended(trial(0, seed=1), 3.1),
        diverged(trial(2)),
    ]
    best = folded(events).best
    assert best is not None
    assert (best.trial.config, best.loss) == (1, 3.4)


def test_runs_are_compared_with_the_best_under_the_same_seed() -> None:
    progress = folded(short_study())
    above = [progress.above_best(run) for run in progress.ended]
    assert above == [pytest.approx(d) for d in (0.1, 0.0, 0.2, 0.0, 0.11)]


def test_where_the_best_lacks_a_seed_its_first_stands_in() -> None:
    progress = folded([begun(), ended(trial(1), 3.4), ended(trial(0, seed=5), 3.5)])
    assert progress.above_best(progress.ended[-1]) == pytest.approx(0.1)


def test_noise_is_pooled_over_configurations() -> None:
    progress = folded(short_study())
    # two pairs, 0.02 and 0.03 apart: variance (0.02**2 + 0.03**2) / 2 / 2
    assert progress.noise == pytest.approx(((0.02**2 + 0.03**2) / 4) ** 0.5)
    assert folded([begun(), ended(trial(1), 3.4), ended(trial(0), 3.5)]).noise is None


@given(st.integers(0, 10), st.integers(0, 9), st.integers(0, 100))
def test_time_left_is_exact_at_an_even_pace(num_reused: int, num_own: int, step: int) -> None:
    total = num_reused + num_own + 5
    events: list[StudyEvent] = [begun(total=total, done=num_reused)]
    events += [ended(trial(n), 3.0, is_reused=True) for n in range(num_reused)]
    events += [ended(trial(100 + n), 3.0) for n in range(num_own)]
    events += [started(trial(999)), advanced(trial(999), step)]
    progress = folded(events, seconds_each=0.0)
    pace = 20.0  # seconds a run
    done = num_own + step / 100
    left = progress.seconds_left(pace * done)
    if done < 0.05:
        assert left is None
    else:
        assert left == pytest.approx(pace * (5 - step / 100))


def test_finalists_settle_how_many_runs_there_are() -> None:
    events = [begun(total=30), ended(trial(0), 3.5), StageStarted(name="finalists", num_runs=4)]
    progress = folded(events)
    assert progress.num_planned == 5
    assert progress.stage == "finalists"


@given(st.permutations(list(short_study())))
def test_whatever_the_order_the_share_done_stays_a_share(events: list[StudyEvent]) -> None:
    progress = StudyProgress()
    for now, event in enumerate(events):
        progress = fold(progress, event, float(now))
        assert 0 <= progress.fraction <= 1
        assert progress.num_ended <= progress.num_planned or not progress.name
        left = progress.seconds_left(now + 1.0)
        assert left is None or left >= 0


def test_a_notice_changes_nothing() -> None:
    progress = folded(short_study())
    assert fold(progress, Notice(message="x"), 3.0) is progress
    assert reduce(lambda p, _: fold(p, Notice(message="x"), 0.0), range(3), progress) is progress
