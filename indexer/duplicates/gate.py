"""The check for near-duplicates during indexing: new documents are compared with older ones.

Two documents are near-duplicates if each passage of either has one in the other with a cosine of at least the
threshold: the same rule as for `explore duplicates`, so a short text is not a near-duplicate of a long one
that contains it. The document whose newest passage is older is the original; near-duplicates cannot be
originals, so removed or linked documents refer to one that stays. Candidates are the documents with the
thousand nearest passages to one passage of the new document: if more are above the threshold, a
near-duplicate may be missed.

The gate is stored with its collection, and every `add` checks the documents embedded since the last check.
Results and progress are written in one transaction, so the next run completes a run that was killed.
Documents from before the gate was set, and changes that only remove passages, are not checked. A link lasts
until one of its documents changes; if the original gains passages, a gate that links checks its linked
documents again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import collections, documents, near_duplicates
from nearsay.indexer.catalogue.bulk import one_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.near_duplicates import GateAction, GateRow, NearDuplicate
from nearsay.indexer.catalogue.passages import documents_of
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.neighbours.graph import KBest
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.neighbours.products import Products
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Documents ordered by their newest passage, with the passages of each together.

    A changed document counts as new. A document's *rank* is its place in this order, a *row* that of a
    passage.
    """

    points: Points
    documents: NDArray[np.int64]  # (documents,) numbers by rank
    newest: NDArray[np.int64]  # (documents,) number of the newest passage, ascending
    starts: NDArray[np.int64]  # (documents + 1,) the first row of each rank
    places: NDArray[np.int64]  # (n,) place in `points` of each row
    ranks: NDArray[np.int64]  # (n,) of the document of each row

    @classmethod
    def of(cls, points: Points, documents: NDArray[np.int64]) -> "Arrangement":
        """documents: (n,) the document number of each place"""
        numbers, inverse = np.unique(documents, return_inverse=True)
        newest = np.zeros(numbers.size, dtype=np.int64)
        np.maximum.at(newest, inverse, points.ids)
        by_newest = np.argsort(newest)
        rank = np.empty(numbers.size, dtype=np.int64)
        rank[by_newest] = np.arange(numbers.size)
        of_places = rank[inverse]
        places = np.argsort(of_places, kind="stable")
        ranks = of_places[places]
        starts = np.searchsorted(ranks, np.arange(numbers.size + 1))
        return cls(points, numbers[by_newest], newest[by_newest], starts, places, ranks)

    def middle(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each document's middle passage: beginnings and ends are often alike."""
        row: NDArray[np.int64] = (self.starts[ranks] + self.starts[ranks + 1]) // 2
        return row

    def vectors(self, rank: int) -> NDArray[np.float32]:
        """The vectors of a document's passages, (m, d)."""
        return self.points.rows(self.places[self.starts[rank] : self.starts[rank + 1]])

    def ids(self, end: int, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The ascending passage numbers of the kept documents among the first `end`; kept: by rank."""
        rows = self.starts[end]
        chosen: NDArray[np.int64] = self.places[:rows][kept[self.ranks[:rows]]]
        return self.points.ids[np.sort(chosen)]


# Candidates: earlier documents with a passage similar to one passage of the document. A few documents are
# searched in the collection, many are compared by matrix products. Candidates are verified afterwards.


MOST = 1000  # nearest passages to consider
_STEPS = (16, 128, MOST)  # nearest to search for, until the last is below the threshold
_MARGIN = 1e-5  # below the threshold, above the error of float32


class BySearch:
    """Candidates from the collection's search, exact or through its index."""

    def __init__(self, arrangement: Arrangement, snapshot: Snapshot, threshold: float) -> None:
        """arrangement: of the passages of the snapshot"""
        self._arrangement = arrangement
        self._snapshot = snapshot
        self._bar = threshold - _MARGIN
        self._rank = np.full(snapshot.alive.size, -1, dtype=np.int64)  # by passage number
        self._rank[arrangement.points.ids[arrangement.places]] = arrangement.ranks

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """For each document, the ascending ranks of candidates up to the last document's rank.

        ranks: (m,) ascending
        kept:  by rank, False = excluded

        The result may include the document itself and later ones.
        """
        arrangement = self._arrangement
        allowed = arrangement.ids(int(ranks[-1]) + 1, kept)
        queries = arrangement.points.rows(arrangement.places[arrangement.middle(ranks)])
        found = [np.zeros(0, dtype=np.int64)] * ranks.size
        asking = np.arange(ranks.size)
        for k in _STEPS:
            answers = self._snapshot.nearest_many(queries[asking], k, allowed) if allowed.size else []
            more = []
            for number, answer in zip(asking.tolist(), answers, strict=bool(allowed.size)):
                over = answer.scores >= self._bar
                found[number] = np.unique(self._rank[answer.ids[over]])
                if over.size == k and over.all():
                    more.append(number)
            asking = np.array(more, dtype=np.int64)
            if not asking.size:
                break
        return found


class ByProducts:
    """Candidates from matrix products in the fastest format of the machine."""

    def __init__(self, arrangement: Arrangement, threshold: float, device: str | None = "cpu") -> None:
        """Memory: two bytes for each dimension of every vector, if the machine has fast 16-bit products."""
        self._arrangement = arrangement
        self._products = Products.of(arrangement.points, arrangement.places, device)
        self._bar = threshold - _MARGIN

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """See `BySearch`."""
        arrangement = self._arrangement
        end = int(arrangement.starts[int(ranks[-1]) + 1])
        kept_rows = kept[arrangement.ranks[:end]]
        best = KBest(self._products, arrangement.middle(ranks), MOST, self._bar, kept_rows)
        best.look(np.arange(ranks.size), slice(0, end))
        rows, _ = best.decided()
        return [np.unique(arrangement.ranks[near[near >= 0]]) for near in rows]


_BELOW_ONE = np.nextafter(np.float32(1.0), np.float32(0.0))
_NEARLY_ONE = np.float32(1.0 - 1e-5)
_ROWS = 2048  # passages of each document multiplied at a time


def nearest_original(
    arrangement: Arrangement, rank: int, others: NDArray[np.int64], threshold: float
) -> tuple[int, float] | None:
    """The rank and cosine of the nearest of the others that the document is a near-duplicate of.

    others: (m,) ranks, ascending; of equally near ones the first is returned
    """
    best: tuple[int, float] | None = None
    if not others.size:
        return best
    mine = arrangement.vectors(rank)
    for other in others.tolist():
        cosine = document_cosine(mine, arrangement.vectors(other), threshold)
        if cosine is not None and (best is None or cosine > best[1]):
            best = other, cosine
    return best


def document_cosine(one: NDArray[np.float32], other: NDArray[np.float32], threshold: float) -> float | None:
    """The mean cosine of both documents' passages to their nearest in the other; None if one is below.

    one: (m, d), other: (k, d), of unit length. 1 only for the same vectors.
    """
    across = np.full(len(other), -2.0, dtype=np.float32)
    along = np.full(len(one), -2.0, dtype=np.float32)
    for begin in range(0, len(one), _ROWS):
        some = slice(begin, begin + _ROWS)
        for start in range(0, len(other), _ROWS):
            part = slice(start, start + _ROWS)
            cosines = _cosines(one[some], other[part])
            along[some] = np.maximum(along[some], cosines.max(axis=1))
            across[part] = np.maximum(across[part], cosines.max(axis=0))
        if along[some].min() < np.float32(threshold):
            return None
    if across.min() < np.float32(threshold):
        return None
    return float(np.concatenate([along, across]).mean(dtype=np.float64))


def _cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """By numpy's einsum, whose sum for two vectors does not depend on the other rows."""
    cosines: NDArray[np.float32] = np.minimum(np.einsum("id,jd->ij", one, other), _BELOW_ONE)
    for row, column in np.argwhere(cosines >= _NEARLY_ONE).tolist():
        if np.array_equal(one[row], other[column]):
            cosines[row, column] = 1.0
    return cosines


THRESHOLD = 0.95
_OFF = "off"
_SHOWN = 100  # near-duplicates named in a report
_BLOCK = 512  # documents at a time: half of MOST, as undecided ones are candidates of each other
_SEARCHED_UP_TO = 256  # new documents; more are compared by matrix products
_MULTIPLIED_UP_TO = 300_000  # passages; in more, candidates come from search
# New passages up to which exact search is faster than choosing an index, which takes 1,400 exact searches.
_EXACTLY_UP_TO = 4_096
_Found: TypeAlias = tuple[int, int, float]  # numbers of a near-duplicate and its original, their cosine


@dataclass(frozen=True, slots=True)
class GateReport:
    """The near-duplicates found among new documents."""

    action: GateAction
    threshold: float  # cosine
    looked_at: int  # checked documents
    count: int  # near-duplicates among them
    first: tuple[NearDuplicate, ...]  # the first hundred of them, in the order of addition

    @property
    def sentence(self) -> str:
        """The numbers of near-duplicates and checked documents, and the action."""
        done = {"report": "found and kept", "skip": "removed again", "link": "linked"}[self.action]
        return f"{self.count:,} of {counted(self.looked_at, 'document')} {done}"


@dataclass(frozen=True, slots=True)
class GateRequest:
    """The gate settings of an `add`."""

    action: str | None = None  # report, skip, link or off; None = unchanged
    threshold: float | None = None  # cosine; None = unchanged, 0.95 for a new gate

    def __post_init__(self) -> None:
        """Raise BadInputError for invalid or contradictory values."""
        known = [*GateAction, _OFF]
        if self.action is not None and self.action not in known:
            raise BadInputError(f"near_duplicates is '{self.action}'. Give one of: {', '.join(known)}")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise BadInputError(
                f"the threshold of near-duplicates is {self.threshold}. Give a cosine above 0 and at most 1, "
                f"such as {THRESHOLD}"
            )
        if self.threshold is not None and self.action == _OFF:
            raise BadInputError(
                "a threshold has no effect if the check for near-duplicates is off. Omit one of the two"
            )

    def settle(self, connection: sa.Connection, collection: CollectionRow, generation: GenerationRow) -> None:
        """Store the settings with the collection; a new one checks pending and later passages.

        Raises BadInputError for a threshold without a gate.
        """
        before = near_duplicates.gate_of(connection, collection.id)
        if self.action == _OFF:
            if before is not None:  # links of documents that changed since the last check
                near_duplicates.leave_newer(connection, collection.id, before.checked_through)
            near_duplicates.close_gate(connection, collection.id)
        elif self.action is not None or self.threshold is not None:
            if self.action is None and before is None:
                raise BadInputError(
                    f"collection '{collection.name}' does not check for near-duplicates, so a threshold has "
                    f"no effect. Give an action, too: report, skip or link"
                )
            action = self.action or (before.action if before else _OFF)
            threshold = float(self.threshold or (before.threshold if before else THRESHOLD))
            through = before.checked_through if before else generation.embedded_through
            gate = GateRow(GateAction(action), threshold, through)
            if gate != before:
                near_duplicates.set_gate(connection, collection.id, gate)


def go_through_gate(
    store: Store,
    collection: CollectionRow,
    take: Callable[[], Snapshot],
    index: Callable[[], object],
    listener: ProgressListener,
) -> GateReport | None:
    """Check new documents against older ones; None if the collection has no gate.

    take:  returns the newest snapshot
    index: updates the index, if many documents have to be searched in it

    The caller holds the writer lock.
    """
    with store.database.reading() as connection:
        gate = near_duplicates.gate_of(connection, collection.id)
        if gate is None:
            return None
        linked = near_duplicates.linked_numbers(connection, collection.id)
    snapshot = take()
    through = snapshot.generation.embedded_through
    if through <= gate.checked_through:
        return GateReport(gate.action, gate.threshold, 0, 0, ())
    multiplied = snapshot.searchable <= _MULTIPLIED_UP_TO
    if not multiplied and np.count_nonzero(snapshot.alive[gate.checked_through + 1 :]) > _EXACTLY_UP_TO:
        index()
        snapshot = take()
    points = Points.of(snapshot)
    with store.database.reading() as connection:
        owners = documents_of(connection, collection.id, points.ids)
    arrangement = Arrangement.of(points, owners)
    looked_at, kept = _to_check(arrangement, gate, linked)
    candidates: BySearch | ByProducts
    if looked_at.size <= _SEARCHED_UP_TO or not multiplied:
        candidates = BySearch(arrangement, snapshot, gate.threshold)
    else:
        candidates = ByProducts(arrangement, gate.threshold, store.device or "cpu")
    found = _found(arrangement, looked_at, kept, candidates, gate.threshold, listener)
    report = _report(store, collection, gate, looked_at.size, found)
    with store.database.writing() as connection:
        if gate.action is GateAction.SKIP and found:
            duplicates = [document for document, _, _ in found]
            documents.remove(connection, collection.id, one_of(document_table.c.number, duplicates))
            collections.changed(connection, collection.id)
        checked = arrangement.documents[looked_at].tolist() if linked.size else []
        links = found if gate.action is GateAction.LINK else []
        near_duplicates.link(connection, collection.id, checked, links, now())
        near_duplicates.passed(connection, collection.id, through)
    return report


def _to_check(
    arrangement: Arrangement, gate: GateRow, linked: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The ranks to check, and by rank which documents are not known near-duplicates.

    A gate that links checks documents again that were linked to a changed one; a gate that removes does not,
    as it does not apply to existing documents.
    """
    new = arrangement.newest > gate.checked_through
    changed = np.isin(linked[:, 1], arrangement.documents[new])
    kept = new | ~np.isin(arrangement.documents, linked[~changed, 0])
    if gate.action is GateAction.LINK:
        new |= np.isin(arrangement.documents, linked[changed, 0])
    return np.flatnonzero(new), kept


def _found(
    arrangement: Arrangement,
    looked_at: NDArray[np.int64],
    kept: NDArray[np.bool_],
    candidates: BySearch | ByProducts,
    threshold: float,
    listener: ProgressListener,
) -> list[_Found]:
    """The near-duplicates with their originals and cosines; `kept` is updated."""
    found: list[_Found] = []
    for begin in range(0, looked_at.size, _BLOCK):
        ranks = looked_at[begin : begin + _BLOCK]
        for rank, near in zip(ranks.tolist(), candidates.near(ranks, kept), strict=True):
            earlier = near[(near < rank) & kept[near]]
            original = nearest_original(arrangement, rank, earlier, threshold)
            if original is not None:
                kept[rank] = False
                numbers = arrangement.documents[[rank, original[0]]].tolist()
                found.append((numbers[0], numbers[1], original[1]))
        done = min(begin + _BLOCK, looked_at.size)
        listener(Progress(done, looked_at.size, "finding near-duplicates", "documents"))
    return found


def _report(
    store: Store,
    collection: CollectionRow,
    gate: GateRow,
    looked_at: int,
    found: list[_Found],
) -> GateReport:
    shown = found[:_SHOWN]
    numbers = sorted({number for document, original, _ in shown for number in (document, original)})
    with store.database.reading() as connection:
        ids = documents.ids_of(connection, collection.id, numbers)
    first = tuple(NearDuplicate(ids[document], ids[original], cosine) for document, original, cosine in shown)
    return GateReport(gate.action, gate.threshold, looked_at, len(found), first)
