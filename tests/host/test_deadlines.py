"""A shim's own deadlines and what a program's end means: pure, the time is an argument."""

from __future__ import annotations

import signal

import pytest

from workers.host.deadlines import TERM_SECONDS, Deadlines
from workers.host.executors import Exit
from workers.host.outcomes import of_data_load, of_workload


def test_a_lease_that_nobody_renews_expires():
    deadlines = Deadlines(until=10.0)
    assert deadlines.due(9.9) == "nothing"
    assert deadlines.due(10.0) == "expired"
    assert deadlines.renewed(20.0).due(10.0) == "nothing"


def test_saving_gives_time_then_terminates_then_kills():
    deadlines = Deadlines(until=100.0).saving(30.0)
    assert deadlines.due(29.0) == "nothing"
    assert deadlines.due(30.0) == "term"
    assert deadlines.due(30.0 + TERM_SECONDS) == "kill"
    assert deadlines.staying().due(30.0) == "nothing"


def test_stopping_terminates_at_once_and_kills_after_its_grace():
    deadlines = Deadlines(until=100.0).stopping(5.0, 8.0)
    assert deadlines.due(5.0) == "term"
    assert deadlines.due(8.0) == "kill"


def test_a_stop_is_neither_taken_back_nor_softened():
    stopped = Deadlines(until=100.0).stopping(5.0, 8.0)
    assert stopped.staying() == stopped
    assert stopped.saving(50.0) == stopped


def test_the_end_of_the_granted_life_goes_before_any_grace():
    assert Deadlines(until=10.0).saving(60.0).due(10.0) == "expired"


def test_the_next_instant_is_the_earliest_that_is_still_to_come():
    deadlines = Deadlines(until=100.0).stopping(5.0, 8.0)
    assert deadlines.next_after(0.0) == 5.0
    assert deadlines.next_after(5.0) == 8.0
    assert deadlines.next_after(8.0) == 100.0


@pytest.mark.parametrize(
    ("ended", "saved", "terminated", "reason"),
    [
        (Exit(0), False, False, "completed"),
        (Exit(0), True, False, "completed"),
        (Exit(75), True, False, "stopped"),
        (Exit(75), False, False, "failed"),
        (Exit(0), False, True, "stopped"),
        (Exit(None, signal.SIGTERM), False, True, "stopped"),
        (Exit(None, signal.SIGKILL), False, False, "killed"),
        (Exit(None, signal.SIGSEGV), False, False, "failed"),
        (Exit(3), False, False, "failed"),
        (Exit(None, 64), False, False, "failed"),
    ],
)
def test_what_the_end_of_a_workload_means(ended, saved, terminated, reason):
    assert of_workload(ended, saved=saved, terminated=terminated).reason == reason


def test_a_failed_data_load_shows_how_it_ended_and_what_it_said():
    assert of_data_load(Exit(2), 10.0, "no bucket").detail == "data_load ended with exit status 2: no bucket"
    assert of_data_load(None, 10.0, "").detail == "data_load did not end within 10 s: (no output)"
