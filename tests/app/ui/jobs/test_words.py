"""What is said of a job."""

from datetime import UTC, datetime

import pytest
from naming import Naming

from nearsay.app.jobs import JobProgress, JobState, duration
from nearsay.app.ui.watching import STATE_COLOURS, STATE_ICONS, moment


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (0.44, "0.4 s"),
        (0.96, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 5 min"),
        (3600.0, "1 h"),
        (86_400 * 3 + 3600 * 4, "3 d 4 h"),
        (-1.0, "0.0 s"),
    ],
)
def test_a_time_is_said_in_two_units_at_most(seconds, said):
    assert duration(seconds) == said


def test_a_moment_is_said_to_the_minute_and_none_is_nothing():
    assert moment("2026-01-02T03:04:05.678+00:00") == "2026-01-02 03:04"
    assert moment(None) == ""


def test_every_state_has_an_icon_of_its_own():
    assert set(STATE_ICONS) == set(STATE_COLOURS) == set(JobState)
    assert len(set(STATE_ICONS.values())) == len(JobState)


def test_progress_says_what_how_much_how_fast_and_how_long():
    look = JobProgress("embedding", "passages", 1200, 23_300, 0.05, 350.0, 3.4, 63.1)
    assert look.words() == Naming("embedding", "1,200", "23,300", "350 a second", "1 min 3 s")


def test_a_training_knows_its_steps_and_slow_ones_are_said_by_the_step():
    look = JobProgress("training", "steps", 3, 40, 0.075, 0.25, 12.0, 148.0)
    assert look.words() == Naming("training", "3 of 40", "4.0 s", "2 min 28 s")


def test_without_a_total_nothing_is_promised():
    look = JobProgress("reading", "texts", 5, None, None, None, 0.1, None)
    assert look.words() == "reading: 5 texts"


def test_when_all_is_done_no_time_is_left():
    look = JobProgress("embedding", "passages", 9, 8, 1.0, 2.0, 4.0, 0.0)
    assert look.words() == Naming("embedding", 9, 9, "2 a second")
    assert "left" not in look.words()


def test_a_job_took_from_its_turn_to_its_end(record):
    assert record(JobState.DONE).seconds() == 80.0
    assert record(JobState.INTERRUPTED).seconds() is None  # nobody knows when it was killed
    assert record(JobState.WAITING).seconds() is None
    assert record(JobState.RUNNING).seconds(datetime(2026, 1, 2, 3, 4, 15, tzinfo=UTC)) == 10.0
