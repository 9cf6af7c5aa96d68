"""Clocks."""

import time

from sweeps.clock import SimulatedClock, WallClock, timestamp


def test_wall_clock_shows_the_time() -> None:
    before = time.time()
    assert before <= WallClock().now() <= time.time()


def test_simulated_clock_moves_when_read() -> None:
    clock = SimulatedClock(5.0, tick_seconds=2.0)
    assert [clock.now(), clock.now(), clock.now()] == [5.0, 7.0, 9.0]


def test_timestamp_is_utc() -> None:
    assert timestamp(SimulatedClock(0.0)) == "1970-01-01T00:00:00+00:00"
