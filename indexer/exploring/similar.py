"""What is like these documents, but not like those: Rocchio's mean and difference of vectors.

Rocchio 1971, "Relevance feedback in information retrieval", as in Manning, Raghavan & Schütze 2008, section
9.1.1 (https://nlp.stanford.edu/IR-book/html/htmledition/the-rocchio71-algorithm-1.html), with no query of its
own (alpha 0): the mean of what is wanted less a share of the mean of what is not.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.query.hit import Hits
from nearsay.indexer.query.search import SearchRequest, search
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import UnknownDocumentError
from nearsay.indexer.vectors.vector_store import unit_length

# The book's weights, 0.75 and 0.15, are a share of 0.2. Over our samples 0.3 halves what comes of the subject
# that is not wanted and costs nothing of the one that is; at 1 half of that is lost, too.
AWAY: Final = 0.3
_CANCELLED = 0.01  # a sum of unit vectors that is shorter has no direction to speak of
_MOST_AWAY = 10.0


def similar(
    store: Store,
    snapshot: Snapshot,
    ids: str | Sequence[str],
    without: str | Sequence[str],
    away: float,
    request: SearchRequest,
) -> Hits:
    """The passages nearest to documents, and away from others; theirs are left out.

    away: the weight of the mean of `without` against that of `ids`; 0 leaves them out only

    A document counts by the mean of its passages, at length 1, and once, however often it is named. A score
    is the cosine with the vector that all together make. UnknownDocumentError; BadInputError for a document
    on both sides or without a vector, or where the two sides cancel out.
    """
    wanted, unwanted = _each_once(ids), _each_once(without)
    if not wanted:
        raise BadInputError("there is no document to start from. Name at least one id")
    both = [id_ for id_ in wanted if id_ in set(unwanted)]
    if both:
        raise BadInputError(
            f"document '{both[0]}' is both wanted and not wanted. Leave it away on one of the sides"
        )
    if not (math.isfinite(away) and 0.0 <= away <= _MOST_AWAY):
        raise BadInputError(f"away is {away}. Take a weight from 0 to {_MOST_AWAY:g}, as {AWAY}")
    with store.database.reading() as connection:
        own = passages.numbers_by_id(connection, snapshot.collection.id, [*wanted, *unwanted])
    vectors = [_mean(snapshot, id_, own.get(id_)) for id_ in (*wanted, *unwanted)]
    unlike = np.stack(vectors[len(wanted) :]) if unwanted else None
    query = rocchio(np.stack(vectors[: len(wanted)]), unlike, away)
    passed_over = frozenset(number for numbers in own.values() for number in numbers)
    return search(store, snapshot, query[None, :], replace(request, without=passed_over))[0]


def rocchio(
    wanted: NDArray[np.float32], unwanted: NDArray[np.float32] | None, away: float
) -> NDArray[np.float32]:
    """The unit vector (d,) towards the mean of the first rows, less `away` times the mean of the second.

    wanted: (n, d), unwanted: (m, d) or None, of unit length. BadInputError if next to nothing is left.
    """
    # Summed in the order of their values, so that the order in which they are named says nothing.
    query = _mean_row(wanted)
    if unwanted is not None:
        query = query - away * _mean_row(unwanted)
    length = float(np.linalg.norm(query))
    if length < _CANCELLED:
        raise BadInputError(
            "the vectors of the documents cancel each other out, so that there is no direction to look in. "
            + (
                "Name other documents"
                if unwanted is None
                else "Give the unwanted ones less weight, or others"
            )
        )
    return (query / length).astype(np.float32)


def _mean_row(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    ordered = rows[np.lexsort(rows.T[::-1])]
    mean: NDArray[np.float64] = ordered.astype(np.float64).mean(axis=0)
    return mean


def _mean(snapshot: Snapshot, id_: str, numbers: Sequence[int] | None) -> NDArray[np.float32]:
    name = snapshot.collection.name
    if numbers is None:
        raise UnknownDocumentError.of(name, id_)
    positions = snapshot.vectors.positions(np.array(sorted(numbers), dtype=np.int64))
    if not positions.size:
        raise BadInputError(
            f"document '{id_}' has no vector yet. Finish the indexing: nearsay index rebuild {name}"
        )
    found: NDArray[np.float32] = unit_length(snapshot.vectors.rows(positions).mean(axis=0, keepdims=True))[0]
    return found


def _each_once(ids: str | Sequence[str]) -> tuple[str, ...]:
    return (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
