"""What clusters are about: their terms and their most central passages, from the catalogue's text."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.clusters import scores
from nearsay.indexer.clusters.names import Encode, name_clusters, terms_by_cluster
from nearsay.indexer.clusters.phrases import PhraseCounter
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import Progress, ProgressListener

__all__ = ["Described", "describe"]

_TEXTS = 50_000  # that are read for names, of all clusters together
_MOST_TEXTS = 2_000  # of one cluster
_LEAST_TEXTS = 10
_PHRASE_TEXTS = 20_000  # of those, that phrases are looked for in
_FALLBACK = 40  # characters of a passage that names a cluster without words
_CENTRAL = 3  # passages
_NEAREST = 20  # that they are chosen from
_ALIKE = 0.95  # cosine similarity: of two passages as near as this one is shown


@dataclass(frozen=True, slots=True)
class Described:
    """The clusters of one level."""

    labels: NDArray[np.int32]  # (n,) by place in the points; -1 = outlier
    cosines: NDArray[np.float32]  # (n,) to the own cluster's centre
    sizes: NDArray[np.int64]  # (clusters,)
    cohesion: NDArray[np.float64]  # (clusters,)
    silhouette: NDArray[np.float64]  # (clusters,) NaN where there is no other
    names: list[str]
    terms: list[list[str]]
    central: list[list[PassageRow]]


def describe(
    store: Store,
    collection_id: int,
    points: Points,
    labels: NDArray[np.int32],
    encode: Encode | None,
    listener: ProgressListener,
) -> Described:
    """Measure, name and exemplify clusters.

    encode: phrases to vectors of the points' kind, for names; see `name_clusters`

    Of a large cluster a sample is read, spread evenly from its centre to its edge; the order in which
    passages were added decides only between those with the same vector.
    """
    middles = scores.centres(points, labels)
    cosines = scores.own_cosines(points, labels, middles)
    sizes = np.bincount(labels[labels >= 0], minlength=len(middles))
    inside = labels >= 0
    sums = np.bincount(labels[inside], weights=cosines[inside], minlength=len(middles))
    order = np.lexsort((-cosines, labels))[int((labels < 0).sum()) :]
    members = np.split(order, np.cumsum(sizes)[:-1]) if sizes.size else []
    central: list[list[PassageRow]] = []
    phrases = PhraseCounter()

    def texts() -> Iterator[list[str]]:
        for done, of_cluster in enumerate(members):
            nearest = of_cluster[:_NEAREST]
            sample = _spread(of_cluster, len(members))
            with store.database.reading() as connection:
                numbers = points.ids[nearest].tolist()
                rows = passages.read_passages(connection, collection_id, numbers)
                read = passages.encoded_texts(connection, collection_id, points.ids[sample].tolist())
            # Cosines are rounded: vectors that differ by rounding alone tie, and their text decides.
            central.append(_unlike(points, nearest, np.round(cosines[nearest], 5), rows))
            given = list(read.values())
            phrases.add(given[:: -(-len(given) * len(members) // _PHRASE_TEXTS) or 1])
            yield given
            listener(Progress(done + 1, len(members), "naming clusters", "clusters"))

    terms = terms_by_cluster(texts())
    fallbacks = [(rows[0].title or rows[0].text) if rows else "" for rows in central]
    fallbacks = [" ".join(each.split())[:_FALLBACK].strip() for each in fallbacks]
    return Described(
        labels=labels,
        cosines=cosines,
        sizes=sizes,
        cohesion=sums / np.maximum(sizes, 1),
        silhouette=scores.silhouette(points, labels, middles),
        names=name_clusters(phrases.counted(), fallbacks, middles, encode),
        terms=terms,
        central=central,
    )


def _spread(members: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    most = min(_MOST_TEXTS, max(_LEAST_TEXTS, _TEXTS // clusters))
    if members.size <= most:
        return members
    chosen: NDArray[np.int64] = members[np.linspace(0, members.size - 1, most).astype(np.int64)]
    return chosen


def _unlike(
    points: Points, nearest: NDArray[np.int64], cosines: NDArray[np.float32], rows: dict[int, PassageRow]
) -> list[PassageRow]:
    """The nearest to the centre, without those that say the same again."""
    found = [
        (-float(cosine), rows[number], place)
        for number, cosine, place in zip(points.ids[nearest].tolist(), cosines, nearest, strict=True)
        if number in rows
    ]
    found.sort(key=lambda each: (each[0], each[1].title, each[1].text, each[1].document_id))
    chosen: list[tuple[PassageRow, NDArray[np.float32]]] = []
    for _, row, place in found:
        vector = points.rows(np.array([place]))[0]
        if not any(_same(row.text, other.text) or float(vector @ its) >= _ALIKE for other, its in chosen):
            chosen.append((row, vector))
        if len(chosen) == _CENTRAL:
            break
    return [row for row, _ in chosen]


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()
