"""A lock that lives as long as a process."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nearsay.app import life_lock


def test_a_lock_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    assert not life_lock.is_held(place)
    assert not place.exists()
    taken = life_lock.take(place)
    assert taken is not None
    assert life_lock.is_held(place)
    assert life_lock.take(place) is None
    os.close(taken)
    assert not life_lock.is_held(place)


def test_two_that_look_at_once_do_not_take_each_other_for_the_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "lock"
    place.touch()
    seen = []
    close = os.close

    def look_again_before_closing(descriptor: int) -> None:
        monkeypatch.setattr(os, "close", close)
        seen.append(life_lock.is_held(place))
        close(descriptor)

    monkeypatch.setattr(os, "close", look_again_before_closing)
    assert not life_lock.is_held(place)
    assert seen == [False]


_HEIR = """
import sys
from nearsay.app import life_lock
life_lock.keep(int(sys.argv[1]))
print(sys.stdin.readline(), flush=True)
"""


def test_who_inherits_the_lock_holds_it_from_its_first_moment_until_it_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    taken = life_lock.take(place)
    assert taken is not None
    command = [sys.executable, "-c", _HEIR, str(taken)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(taken,)) as process:
        os.close(taken)
        assert life_lock.is_held(place)
        process.kill()
        life_lock.wait_until_free(place)
        assert not life_lock.is_held(place)


def test_waiting_ends_when_the_lock_is_free(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    life_lock.wait_until_free(place)
    taken = life_lock.take(place)
    assert taken is not None
    waiting = threading.Thread(target=life_lock.wait_until_free, args=[place])
    waiting.start()
    assert life_lock.is_held(place)
    os.close(taken)
    waiting.join(30)
    assert not waiting.is_alive()


def test_an_inherited_lock_is_not_inherited_further(tmp_path: Path) -> None:
    taken = life_lock.take(tmp_path / "lock")
    assert taken is not None
    os.set_inheritable(taken, True)
    life_lock.keep(taken)
    assert not os.get_inheritable(taken)
    os.close(taken)
