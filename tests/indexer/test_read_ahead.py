"""Making the next items in the background changes neither their order nor what is raised."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.indexer.vectors.read_ahead import read_ahead


class _BrokenError(Exception):
    """Raised by a source."""


@given(items=st.lists(st.integers() | st.none() | st.text()), depth=st.integers(1, 5))
def test_the_items_come_in_order(items: list[object], depth: int) -> None:
    assert list(read_ahead(iter(items), depth)) == items


@given(items=st.lists(st.integers()), depth=st.integers(1, 5))
def test_what_the_source_raises_comes_after_the_items_before_it(items: list[int], depth: int) -> None:
    def source() -> Iterator[int]:
        yield from items
        raise _BrokenError("at the end")

    ahead = read_ahead(source(), depth)
    assert [next(ahead) for _ in items] == items
    with pytest.raises(_BrokenError, match="at the end"):
        next(ahead)


@given(
    items=st.lists(st.integers(), min_size=1), data=st.data(), depth=st.integers(1, 3), fails=st.booleans()
)
def test_closing_early_closes_the_source_and_ends_its_thread(
    items: list[int], data: st.DataObject, depth: int, fails: bool
) -> None:
    closed: list[threading.Thread] = []

    def source() -> Iterator[int]:
        try:
            yield from items
            if fails:
                raise _BrokenError
        finally:
            closed.append(threading.current_thread())

    ahead = read_ahead(source(), depth)
    taken = data.draw(st.integers(1, len(items)))
    assert [next(ahead) for _ in range(taken)] == items[:taken]
    ahead.close()
    assert len(closed) == 1
    assert closed[0] is not threading.current_thread()
    assert not closed[0].is_alive()


def test_items_are_made_before_they_are_asked_for() -> None:
    second_was_made = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        second_was_made.set()
        yield 2

    ahead = read_ahead(source())
    assert next(ahead) == 1
    assert second_was_made.wait(60)
    assert list(ahead) == [2]


def test_no_more_is_made_ahead_than_the_depth_allows() -> None:
    made = []

    def source() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    ahead = read_ahead(source(), depth=2)
    next(ahead)
    ahead.close()
    assert len(made) <= 4  # the one taken, two in the queue, one in the making


def test_a_source_that_cannot_be_closed_is_left_alone() -> None:
    ahead = read_ahead([1, 2, 3], depth=1)
    assert next(ahead) == 1
    ahead.close()
    assert list(read_ahead([1, 2, 3])) == [1, 2, 3]


def test_an_interrupt_in_the_source_is_raised_in_the_caller() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    ahead = read_ahead(source())
    assert next(ahead) == 1
    with pytest.raises(KeyboardInterrupt):
        next(ahead)
