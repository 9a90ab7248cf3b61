"""What is measured beside each other, over stores that keep their pages and stores that give them back."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from table_collection import COUNT, DIMENSION, TABLE, clustered

from nearsay.indexer.plans import trials
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.plans.trials import Searcher
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore

QUERIES = clustered(30, seed=7)
ASKED = 10


def store(*, gives_back: bool) -> VectorStore:
    """COUNT vectors in three segments, numbered by threes."""
    ids = np.arange(1, COUNT + 1) * 3
    cuts = [(0, 1000), (1000, 1700), (1700, COUNT)]
    segments = [VectorSegment(str(b), ids[b:e], TABLE[b:e]) for b, e in cuts]
    return VectorStore(segments, DIMENSION, gives_back=gives_back)


@pytest.fixture(scope="module")
def alive() -> NDArray[np.bool_]:
    """Every passage but each tenth."""
    found = np.ones(3 * COUNT + 1, dtype=np.bool_)
    found[30::30] = False
    found.flags.writeable = False
    return found


@pytest.fixture(scope="module")
def searcher(alive: NDArray[np.bool_]) -> Searcher:
    """Inverted lists over a store that gives its pages back."""
    vectors = store(gives_back=True)
    index = build(PlanKind.IVF_PQ, vectors, vectors.ids[alive[vectors.ids]], 3 * COUNT)
    return Searcher(vectors, alive, ASKED, index.looking({"probes": 8, "factor": 4}))


def same(mine: Sequence[Candidates], others: Sequence[Candidates]) -> bool:
    return all(
        one.ids.tolist() == other.ids.tolist() and one.scores.tobytes() == other.scores.tobytes()
        for one, other in zip(mine, others, strict=True)
    )


def test_a_searcher_made_ready_holds_its_candidates_alone_and_finds_the_same(searcher: Searcher) -> None:
    ready = searcher.ready_for(QUERIES)
    assert searcher.index is not None
    proposed = searcher.index.proposed(QUERIES, ASKED, searcher.alive)
    assert ready.vectors.ids.tolist() == np.unique(proposed[proposed >= 0]).tolist()
    assert len(ready.vectors) < COUNT
    assert not any(np.shares_memory(segment.vectors, TABLE) for segment in ready.vectors.segments)
    assert same(ready.search(QUERIES), searcher.search(QUERIES))
    for query, together in zip(QUERIES, searcher.search(QUERIES), strict=True):
        assert same(ready.search(query[None, :]), [together])


def test_queries_asked_some_at_a_time_find_the_same(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_AT_ONCE", 7)
    assert same(searcher.found(QUERIES), searcher.search(QUERIES))


def test_over_a_store_that_keeps_its_pages_nothing_is_copied(
    searcher: Searcher, alive: NDArray[np.bool_]
) -> None:
    keeping = Searcher(store(gives_back=False), alive, ASKED, searcher.index)
    assert keeping.ready_for(QUERIES) is keeping
    assert same(keeping.found(QUERIES), searcher.search(QUERIES))


def test_exact_search_is_ready_for_any_query(alive: NDArray[np.bool_]) -> None:
    exact = Searcher(store(gives_back=True), alive, ASKED)
    assert exact.ready_for(QUERIES) is exact
    assert exact.index is None
    found = exact.search(QUERIES)
    assert {one.ids.size for one in found} == {ASKED}
    assert all(alive[one.ids].all() for one in found)
