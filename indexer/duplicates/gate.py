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
from nearsay.indexer.catalogue import collections, documents, near_duplicates
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.near_duplicates import GateAction, GateRow, NearDuplicate
from nearsay.indexer.catalogue.passage_documents import documents_of
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.duplicates.arrangement import Arrangement
from nearsay.indexer.duplicates.gate_candidates import Asked, Candidates, Multiplied
from nearsay.indexer.duplicates.originals import nearest_original
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener

__all__ = ["THRESHOLD", "AskedGate", "GateReport", "go_through_gate"]

THRESHOLD = 0.95  # where none is named
_OFF = "off"
_SHOWN = 100  # near-duplicates named in a report
_BLOCK = 512  # documents looked at together: half of MOST, which they may fill as long as they are undecided
_ASKED_UP_TO = 256  # new documents: more are multiplied with all before them
_MULTIPLIED_UP_TO = 300_000  # passages: more are asked for through the index
_SOME = 500  # values in one IN (…)
_Found: TypeAlias = tuple[int, int, float]  # numbers of a near-duplicate and its original, their cosine


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the gate found among the documents that came in."""

    action: GateAction
    threshold: float  # cosine
    looked_at: int  # documents
    count: int  # near-duplicates among them
    first: tuple[NearDuplicate, ...]  # of these the first hundred, in the order they were added


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
    if not multiplied and np.count_nonzero(snapshot.alive[gate.checked_through + 1 :]) > _ASKED_UP_TO:
        index()
        snapshot = take()
    points = Points.of(snapshot)
    with store.database.reading() as connection:
        owners = documents_of(connection, collection.id, points.ids)
    arrangement = Arrangement.of(points, owners)
    looked_at, kept = _looked_at(arrangement, gate, linked)
    candidates: Candidates
    if looked_at.size <= _ASKED_UP_TO or not multiplied:
        candidates = Asked(arrangement, snapshot, gate.threshold)
    else:
        candidates = Multiplied(arrangement, gate.threshold, store.device or "cpu")
    found = _found(arrangement, looked_at, kept, candidates, gate.threshold, listener)
    report = _report(store, collection, gate, looked_at.size, found)
    with store.database.writing() as connection:
        if gate.action is GateAction.SKIP and found:
            gone = [document for document, _, _ in found]
            for begin in range(0, len(gone), _SOME):
                some = document_table.c.number.in_(gone[begin : begin + _SOME])
                documents.remove(connection, collection.id, some)
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
    candidates: Candidates,
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
