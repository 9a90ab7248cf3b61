"""How Python runs while rows are on their way, and that it is as before afterwards."""

import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearsay.app.bulk_work import bulk_work
from nearsay.indexer import Library


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds, turn = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(turn)


def test_the_collector_looks_more_rarely_and_threads_take_turns_sooner_meanwhile() -> None:
    gc.set_threshold(700, 10, 10)
    sys.setswitchinterval(0.005)
    with bulk_work():
        assert gc.get_threshold() == (50_000, 10, 10)
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    assert gc.get_threshold() == (700, 10, 10)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_everything_is_as_before_after_an_error() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(KeyError), bulk_work():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


def test_of_two_that_overlap_the_first_puts_everything_back() -> None:
    gc.set_threshold(600, 9, 8)
    first, second = bulk_work(), bulk_work()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (50_000, 9, 8)
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (600, 9, 8)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (600, 9, 8)


def test_what_the_process_sets_meanwhile_stays() -> None:
    gc.set_threshold(700, 10, 10)
    sys.setswitchinterval(0.005)
    with bulk_work():
        gc.set_threshold(900, 8, 8)
        sys.setswitchinterval(0.002)
    assert gc.get_threshold() == (900, 8, 8)
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_threads_that_come_and_go_leave_everything_as_before() -> None:
    gc.set_threshold(600, 9, 8)
    sys.setswitchinterval(0.004)
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for _ in range(200):
            with bulk_work(), bulk_work():
                assert gc.get_threshold()[1:] == (9, 8)

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work) for _ in range(8)]:
            done.result()
    assert gc.get_threshold() == (600, 9, 8)
    assert sys.getswitchinterval() == pytest.approx(0.004)


@pytest.mark.parametrize("own", [0, 80_000])
def test_a_process_that_collects_more_rarely_or_never_is_left_so(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    sys.setswitchinterval(0.0001)
    with bulk_work():
        assert gc.get_threshold()[0] == own
        assert sys.getswitchinterval() == pytest.approx(0.0001, abs=2e-6)


def test_adding_from_python_changes_nothing_of_the_process(library: Library) -> None:
    before, seen = (gc.get_threshold(), sys.getswitchinterval()), []

    def rows() -> Iterator[str]:
        for number in range(3):
            seen.append((gc.get_threshold(), sys.getswitchinterval()))
            yield f"row {number}"

    library.collection("rows").add_rows(rows())
    assert seen == [before] * 3
