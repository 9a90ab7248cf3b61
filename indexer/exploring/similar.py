"""Passages similar to some documents and not to others: Rocchio's difference of mean vectors.

Rocchio 1971, "Relevance feedback in information retrieval", as in Manning, Raghavan & Schütze 2008, section
9.1.1 (https://nlp.stanford.edu/IR-book/html/htmledition/the-rocchio71-algorithm-1.html), without a query
(alpha 0): the mean of the wanted vectors less a share of the mean of the unwanted ones.
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

# The book's weights, 0.75 and 0.15, are a ratio of 0.2. On our samples 0.3 halves the results of the unwanted
# subject at no loss of wanted ones; 1 loses half of the wanted ones, too.
AWAY: Final = 0.3
_CANCELLED = 0.01  # a shorter difference has no meaningful direction
_MOST_AWAY = 10.0


def similar(
    store: Store,
    snapshot: Snapshot,
    ids: str | Sequence[str],
    without: str | Sequence[str],
    away: float,
    request: SearchRequest,
) -> Hits:
    """Find the passages nearest to some documents and away from others, excluding the documents themselves.

    away: the weight of the mean of `without` relative to that of `ids`; 0 only excludes them from the result

    A document counts once, by the mean of its passages at unit length. Scores are cosines with the combined
    vector. Raises UnknownDocumentError, and BadInputError for a document on both sides, a document without a
    vector, or sides that cancel out.
    """
    wanted, unwanted = _each_once(ids), _each_once(without)
    if not wanted:
        raise BadInputError("there are no documents to compare with. Give at least one id")
    both = [id_ for id_ in wanted if id_ in set(unwanted)]
    if both:
        raise BadInputError(
            f"document '{both[0]}' is both wanted and unwanted. Remove it from one of the sides"
        )
    if not (math.isfinite(away) and 0.0 <= away <= _MOST_AWAY):
        raise BadInputError(f"away is {away}. Give a weight from 0 to {_MOST_AWAY:g}, such as {AWAY}")
    with store.database.reading() as connection:
        own = passages.numbers_by_id(connection, snapshot.collection.id, [*wanted, *unwanted])
    vectors = [_mean(snapshot, id_, own.get(id_)) for id_ in (*wanted, *unwanted)]
    unlike = np.stack(vectors[len(wanted) :]) if unwanted else None
    query = rocchio(np.stack(vectors[: len(wanted)]), unlike, away)
    excluded = frozenset(number for numbers in own.values() for number in numbers)
    return search(store, snapshot, query[None, :], replace(request, without=excluded))[0]


def rocchio(
    wanted: NDArray[np.float32], unwanted: NDArray[np.float32] | None, away: float
) -> NDArray[np.float32]:
    """The unit vector (d,) of the mean of the wanted rows less `away` times the mean of the unwanted rows.

    wanted: (n, d), unwanted: (m, d) or None, of unit length

    Raises BadInputError if the difference is nearly zero.
    """
    # Rows are summed in the order of their values, so the order of the ids does not matter.
    query = _mean_row(wanted)
    if unwanted is not None:
        query = query - away * _mean_row(unwanted)
    length = float(np.linalg.norm(query))
    if length < _CANCELLED:
        raise BadInputError(
            "the vectors of the documents cancel out, so there is no direction to search in. "
            + ("Choose other documents" if unwanted is None else "Give the unwanted ones less weight")
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
