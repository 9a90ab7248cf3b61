"""A library of each kind of catalogue, and clusterings as they are saved."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import ClusterRow, Members

SaveClusters = Callable[..., None]


@pytest.fixture(params=["sqlite", "postgresql"])
def either_library(request: pytest.FixtureRequest, tmp_path: Path, words: WordsEncoder) -> Iterator[Library]:
    """A library of the words encoder, of each kind of catalogue in turn."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with Library.open(tmp_path / "library", database=url, load_encoder=lambda _: words) as library:
        yield library


def _save(
    collection: Collection,
    clusters: Mapping[str, int],
    names: Mapping[int, str] | None = None,
    *,
    through: str | None = None,
    parents: Mapping[int, int] | None = None,
) -> None:
    above = parents or {}
    snapshot = collection.snapshot()
    ids = snapshot.vectors.ids[snapshot.alive[snapshot.vectors.ids]]
    of = [document.id for document in collection.documents() for _ in range(document.passages)]
    inside = np.array([id_ in clusters for id_ in of])
    numbers = np.array([clusters.get(id_, 0) for id_ in of], dtype=np.int32)[inside]
    last = ids[-1] if through is None else ids[max(at for at, id_ in enumerate(of) if id_ == through)]
    values = {
        "collection_id": snapshot.collection.id,
        "generation": snapshot.generation.number,
        "method": "kmeans",
        "parameters": {},
        "report": {},
        "passages": len(of),
        "through": int(last),
        "created_at": "2026-11-01T00:00:00+00:00",
    }
    rows = [
        ClusterRow(
            n,
            above.get(n),
            int(n in above.values()),
            (names or {}).get(n, f"cluster {n}"),
            False,
            (),
            (),
            int((numbers == n).sum()),
            1.0,
            None,
        )
        for n in sorted({*clusters.values(), *above.values()})
    ]
    with collection._store.database.writing() as connection:
        who = Members(ids[inside], numbers, np.ones(numbers.size))
        clusterings.replace(connection, values, rows, who)


@pytest.fixture
def save_clusters() -> SaveClusters:
    """Puts documents into clusters: `save_clusters(collection, {"a": 1}, {1: "name"}, through="a")`."""
    return _save
