"""Neighbours through graph, where a block of queries is decided in a thread while the next is multiplied."""

import threading

import numpy as np
import pytest

from nearsay.indexer.neighbours import graph
from nearsay.indexer.neighbours.graph import KBest, ListedProducts
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.vector_store import unit_length

_COUNT = 600


@pytest.fixture
def listed() -> ListedProducts:
    """Some vectors in graph."""
    generator = np.random.default_rng(0)
    vectors = unit_length(generator.standard_normal((_COUNT, 16)).astype(np.float32))
    return ListedProducts.of(Points.from_array(np.arange(_COUNT), vectors), np.arange(_COUNT), 5)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five blocks and a rest of queries instead of one block."""
    monkeypatch.setattr(graph, "_LISTS_QUERIES", 110)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("nearsay-")]


def test_blocks_of_any_size_give_the_same_neighbours(
    listed: ListedProducts, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbours, cosines = listed.nearest()
    assert (neighbours >= 0).all()
    for size in (_COUNT - 1, 110, 64):
        monkeypatch.setattr(graph, "_LISTS_QUERIES", size)
        found = listed.nearest()
        np.testing.assert_array_equal(found[0], neighbours)
        np.testing.assert_array_equal(found[1], cosines)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("block", [1, 3, 6])
def test_an_error_in_deciding_any_block_comes_out_and_ends_the_thread(
    listed: ListedProducts, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    real, left = KBest.decided, iter(range(1, block))

    def broken(self: KBest) -> object:
        if next(left, None) is None:
            raise ZeroDivisionError
        return real(self)

    monkeypatch.setattr(KBest, "decided", broken)
    with pytest.raises(ZeroDivisionError):
        listed.nearest()
    assert _threads() == []


@pytest.mark.usefixtures("small_blocks")
def test_a_listener_that_raises_ends_the_thread(listed: ListedProducts) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 220:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        listed.nearest(stop)
    assert _threads() == []
