"""Jobs of a library take turns."""

import os
from pathlib import Path

import pytest

from nearsay.app.cli import child as turn_module
from nearsay.app.cli.child import turn
from nearsay.app.jobs.job_folder import JobFolder


class Naps(list[int]):
    """What is done in each nap of one who waits, instead of sleeping."""

    def __call__(self, _seconds: float) -> None:
        os.close(self.pop(0))


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Naps:
    """The locks that are let go, one in each nap; a further nap is an error."""
    found = Naps()
    monkeypatch.setattr(turn_module.time, "sleep", found)
    return found


def test_the_first_works_at_once_and_waits_no_more(tmp_path: Path, naps: Naps) -> None:
    lock = JobFolder(tmp_path, 1).make()
    with turn(tmp_path, 1):
        assert not JobFolder(tmp_path, 1).waiting
    os.close(lock)


def test_the_next_waits_until_the_turn_is_over(tmp_path: Path, naps: Naps) -> None:
    locks = [JobFolder(tmp_path, number).make() for number in (1, 2)]
    with turn(tmp_path, 1), pytest.raises(IndexError), turn(tmp_path, 2):  # it would nap
        pytest.fail("both are at work")
    with turn(tmp_path, 2):
        pass
    for lock in locks:
        os.close(lock)


def test_who_waits_longer_comes_first_and_the_dead_do_not_wait(tmp_path: Path, naps: Naps) -> None:
    first, ninth, tenth = (JobFolder(tmp_path, number).make() for number in (1, 9, 10))
    naps += [first, ninth]
    with turn(tmp_path, 10):  # a number, not a name: 9 comes before 10
        assert naps == []
    os.close(tenth)


def test_a_turn_is_over_when_its_work_fails(tmp_path: Path, naps: Naps) -> None:
    locks = [JobFolder(tmp_path, number).make() for number in (1, 2)]
    with pytest.raises(ZeroDivisionError), turn(tmp_path, 1):
        raise ZeroDivisionError
    with turn(tmp_path, 2):
        pass
    for lock in locks:
        os.close(lock)
