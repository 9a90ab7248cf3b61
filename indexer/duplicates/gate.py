"""The gate: documents that come in are held against those that were there before.

Two documents are near-duplicates where each passage of either has one in the other at a cosine of the
threshold or above: the same rule as for `explore duplicates`, so that a short text is none of a long one that
holds it. The one whose newest passage is older is the original; near-duplicates themselves are none, so what
is removed or linked points at what stays. A document is held against those that hold the thousand passages
nearest to one of its own: what has more than that above the threshold may be taken for none.

A gate is remembered with its collection, and every `add` holds against what is there whatever came in since
the last look: documents are written before they have vectors, and looked at when they have them. What was
found and how far was looked are written in one transaction, so a run that is killed anywhere is made good by
the next. What was there before the collection got its gate is not looked at, nor is a change that only takes
passages away. A link lasts until one of the two changes; where that brought passages, a gate that
links looks for another.
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
    """The documents by their newest passage, each one's passages together.

    A document that was changed counts as new: it comes where its newest passage does. The *rank* of a
    document is its place in this order, a *row* that of a passage.
    """

    points: Points
    documents: NDArray[np.int64]  # (documents,) numbers by rank
    newest: NDArray[np.int64]  # (documents,) number of the newest passage, rising
    starts: NDArray[np.int64]  # (documents + 1,) the first row of each
    places: NDArray[np.int64]  # (n,) place in `points` of each row
    ranks: NDArray[np.int64]  # (n,) of the document of each row

    @classmethod
    def of(cls, points: Points, documents: NDArray[np.int64]) -> "Arrangement":
        """documents: (n,) the number of the document of each place."""
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
        """The row of a passage out of the middle of each document: beginnings and ends are often alike."""
        row: NDArray[np.int64] = (self.starts[ranks] + self.starts[ranks + 1]) // 2
        return row

    def vectors(self, rank: int) -> NDArray[np.float32]:
        """Of a document's passages, (m, d)."""
        return self.points.rows(self.places[self.starts[rank] : self.starts[rank + 1]])

    def ids(self, end: int, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The rising passage numbers of the documents kept among the first `end`; kept: by rank."""
        rows = self.starts[end]
        chosen: NDArray[np.int64] = self.places[:rows][kept[self.ranks[:rows]]]
        return self.points.ids[np.sort(chosen)]


# For one passage of each document the earlier documents that have one like it.
#
# Some documents are asked for through the collection's own search, many by matrix products of all with all
# before. Both may propose too many: what is decided on is looked at closely afterwards.


MOST = 1000  # nearest passages of one that are looked at
_STEPS = (16, 128, MOST)  # nearest that are asked for, until the last is below the threshold
_SURELY = 1e-5  # below the threshold: more than float32 errs


class Asked:
    """By the collection's search, exact or through its index."""

    def __init__(self, arrangement: Arrangement, snapshot: Snapshot, threshold: float) -> None:
        """The arrangement is of the snapshot."""
        self._arrangement = arrangement
        self._snapshot = snapshot
        self._bar = threshold - _SURELY
        self._rank = np.full(snapshot.alive.size, -1, dtype=np.int64)  # by passage number
        self._rank[arrangement.points.ids[arrangement.places]] = arrangement.ranks

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """For each document the ranks, rising, of those that may be near it, before the last one's end.

        ranks: (m,) rising; kept: by rank, False = not to be proposed. A document itself may be among them,
        and later ones.
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


class Multiplied:
    """By matrix products in the narrowest format that the machine multiplies quickly."""

    def __init__(self, arrangement: Arrangement, threshold: float, device: str | None = "cpu") -> None:
        """Two bytes a number of every vector are held where the machine multiplies those."""
        self._arrangement = arrangement
        self._products = Products.of(arrangement.points, arrangement.places, device)
        self._bar = threshold - _SURELY

    def near(self, ranks: NDArray[np.int64], kept: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
        """See `Asked`."""
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
    """The rank of the nearest of the others that the document is a near-duplicate of, and their cosine.

    others: (m,) ranks, rising; of those that are equally near the first is taken.
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
    """Mean over the passages of both of the cosine of their nearest there; None where one is below.

    one: (m, d), other: (k, d), of unit length. 1 for the same vectors only.
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
    """By numpy's einsum, whose sum for two vectors depends on nothing but them."""
    cosines: NDArray[np.float32] = np.minimum(np.einsum("id,jd->ij", one, other), _BELOW_ONE)
    for row, column in np.argwhere(cosines >= _NEARLY_ONE).tolist():
        if np.array_equal(one[row], other[column]):
            cosines[row, column] = 1.0
    return cosines


THRESHOLD = 0.95  # where none is named
_OFF = "off"
_SHOWN = 100  # near-duplicates named in a report
_BLOCK = 512  # documents looked at together: half of MOST, which they may fill as long as they are undecided
_ASKED_UP_TO = 256  # new documents: more are multiplied with all before them
_MULTIPLIED_UP_TO = 300_000  # passages: in more, near ones are looked for by search
# New passages for which all are compared sooner than an index is chosen, which takes 1,400 exact searches.
_EXACTLY_UP_TO = 4_096
_Found: TypeAlias = tuple[int, int, float]  # numbers of a near-duplicate and its original, their cosine


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the gate found among the documents that came in."""

    action: GateAction
    threshold: float  # cosine
    looked_at: int  # documents
    count: int  # near-duplicates among them
    first: tuple[NearDuplicate, ...]  # of these the first hundred, in the order they were added

    @property
    def sentence(self) -> str:
        """How many were found among how many, and what became of them."""
        done = {"report": "found and kept", "skip": "removed again", "link": "linked"}[self.action]
        return f"{self.count:,} of {counted(self.looked_at, 'document')} {done}"


@dataclass(frozen=True, slots=True)
class AskedGate:
    """What an addition says of the gate."""

    action: str | None = None  # report, skip, link or off; None = as it was
    threshold: float | None = None  # cosine; None = as it was, 0.95 at first

    def __post_init__(self) -> None:
        """BadInputError for what cannot be."""
        known = [*GateAction, _OFF]
        if self.action is not None and self.action not in known:
            raise BadInputError(f"near_duplicates is '{self.action}'. Take one of: {', '.join(known)}")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise BadInputError(
                f"the threshold of near-duplicates is {self.threshold}. Take a cosine above 0 and up to 1, "
                f"such as {THRESHOLD}"
            )
        if self.threshold is not None and self.action == _OFF:
            raise BadInputError(
                "a threshold is for a gate, and near-duplicates are off. Leave one of the two out"
            )

    def settle(self, connection: sa.Connection, collection: CollectionRow, generation: GenerationRow) -> None:
        """Remember it with the collection; a new gate looks at what has no vector yet, and at what comes.

        BadInputError for a threshold alone where there is no gate.
        """
        before = near_duplicates.gate_of(connection, collection.id)
        if self.action == _OFF:
            if before is not None:  # what changed and was not looked at again before a run ended
                near_duplicates.leave_newer(connection, collection.id, before.checked_through)
            near_duplicates.close_gate(connection, collection.id)
        elif self.action is not None or self.threshold is not None:
            if self.action is None and before is None:
                raise BadInputError(
                    f"collection '{collection.name}' has no gate that a threshold would be for. Say what "
                    f"becomes of near-duplicates, too: report, skip or link"
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
    """Hold what came in against what was there; None where the collection has no gate.

    take:  gives the newest snapshot
    index: brings the index up to date, where many have to be looked for in it
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
    looked_at, kept = _looked_at(arrangement, gate, linked)
    candidates: Asked | Multiplied
    if looked_at.size <= _ASKED_UP_TO or not multiplied:
        candidates = Asked(arrangement, snapshot, gate.threshold)
    else:
        candidates = Multiplied(arrangement, gate.threshold, store.device or "cpu")
    found = _found(arrangement, looked_at, kept, candidates, gate.threshold, listener)
    report = _report(store, collection, gate, looked_at.size, found)
    with store.database.writing() as connection:
        if gate.action is GateAction.SKIP and found:
            gone = [document for document, _, _ in found]
            documents.remove(connection, collection.id, one_of(document_table.c.number, gone))
            collections.changed(connection, collection.id)
        looked = arrangement.documents[looked_at].tolist() if linked.size else []
        links = found if gate.action is GateAction.LINK else []
        near_duplicates.link(connection, collection.id, looked, links, now())
        near_duplicates.passed(connection, collection.id, through)
    return report


def _looked_at(
    arrangement: Arrangement, gate: GateRow, linked: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The ranks to look at, and by rank which documents are no near-duplicates as far as is known.

    Those that were linked to a document that has changed are looked at again where the gate links: a gate
    that removes was not asked about what was there before.
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
    candidates: Asked | Multiplied,
    threshold: float,
    listener: ProgressListener,
) -> list[_Found]:
    """The numbers of near-duplicates and their originals, with the cosine; `kept` is written to."""
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
        listener(Progress(done, looked_at.size, "looking for near-duplicates", "documents"))
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
