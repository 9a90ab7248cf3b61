"""Passages that wait for their vectors are in no figure, and every exploration says so."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from naming import Naming

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import collections, passages
from nearsay.indexer.exploring.explorer import Explorer
from nearsay.indexer.neighbours.points import Shown

ROWS = [{"id": f"d{at}", "text": f"{'x ' * (at % 4)}{'yy ' * at}zzz", "year": 2000 + at} for at in range(12)]
LOOKS: dict[str, Callable[[Explorer], Sequence[str]]] = {
    "outliers": lambda explorer: explorer.outliers(3).notes,
    "diverse": lambda explorer: explorer.diverse(3).notes,
    "diverse about a query": lambda explorer: explorer.diverse(3, query="x yy").notes,
    "what is new": lambda explorer: explorer.new_since("2006", "year").notes,
    "through time": lambda explorer: explorer.over_time("year").notes,
    "clusters": lambda explorer: explorer.cluster("kmeans", clusters=2, save=False).notes,
    "map": lambda explorer: explorer.map().notes,
    "pairs": lambda explorer: explorer.pairs(3).notes,
    "duplicates": lambda explorer: explorer.duplicates().notes,
}


@pytest.fixture
def waiting(library: Library) -> Collection:
    """A collection whose last passage has no vector, as if an add had been stopped before."""
    collection = library.collection("texts", chunking="none")
    collection.add_rows(ROWS)
    collection.explore.cluster("kmeans", clusters=2)
    with library.store.database.writing() as connection:
        connection.execute(passages.update().where(passages.c.number == len(ROWS)).values(number=50))
        connection.execute(collections.update().values(version=collections.c.version + 1))
    return collection


@pytest.mark.parametrize("look", LOOKS)
def test_what_waits_for_its_vector_is_said_to_be_left_out(waiting: Collection, look: str) -> None:
    said = Naming("1 passage", "no vector", "nearsay index rebuild texts")
    assert [note for note in LOOKS[look](waiting.explore) if note == said]
    waiting.rebuild()
    assert not [note for note in LOOKS[look](waiting.explore) if note == said]


@pytest.mark.parametrize("look", [Explorer.outliers, Explorer.diverse])
def test_where_none_passes_the_filter_one_that_waits_may(
    waiting: Collection, look: Callable[..., Shown[Any]]
) -> None:
    found = look(waiting.explore, where="year = 2011")
    assert found.notes == (Naming("filter"), Naming("1 passage", "no vector"))
