"""The most similar pairs of passages of a collection, or of two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.indexer.catalogue.passages import PassageRow, documents_of
from nearsay.indexer.duplicates.closest_pairs import closest_pairs
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explorable, Explored, JoinedPoints, Vectors, rows_of
from nearsay.indexer.query.search_notes import waiting_note
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import EncoderMismatchError, UnknownDocumentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["Pair", "PairedPassage", "Pairs", "Side", "find_pairs"]


TOP = 100  # pairs, where neither their number nor a threshold is said
_PAGE = 250  # pairs whose texts are read at a time


@dataclass(frozen=True, slots=True)
class PairedPassage:
    """One of the two."""

    id: str  # of the document
    title: str
    text: str  # of the passage
    ordinal: int  # 0-based place of the passage in its document
    metadata: Mapping[str, JsonValue]

    @classmethod
    def of(cls, row: PassageRow) -> "PairedPassage":
        """As the catalogue has it."""
        return cls(row.document_id, row.title, row.text, row.ordinal, row.metadata)


@dataclass(frozen=True, slots=True)
class Pair(Report):
    """Two passages that say nearly the same."""

    REPORT: ClassVar = "pair"

    cosine: float  # 1 for the same vector only
    first: PairedPassage  # added before the second; of two collections, the one that was asked
    second: PairedPassage


@dataclass(frozen=True, slots=True)
class Side:
    """Where the passages of one side are read."""

    explored: Explored
    snapshot: Snapshot

    def rows(self, numbers: NDArray[np.int64]) -> dict[int, PassageRow]:
        """Those that are still there."""
        return rows_of(self.explored, self.snapshot, np.unique(numbers))

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be looked at, in plain sentences."""
        if not self.snapshot.waiting:
            return ()
        return (waiting_note(self.snapshot, "looked at"),)


@dataclass(frozen=True, slots=True)
class Pairs(Sequence[Pair]):
    """Pairs by falling cosine; those that tie, copies before all, in the order they were added.

    The texts are read when they are looked at, while the library is open.
    """

    cosines: NDArray[np.float32]  # (m,) falling
    first: NDArray[np.int64]  # (m,) passage numbers
    second: NDArray[np.int64]  # (m,)
    looked_at: int  # passages, of both collections
    exact: bool  # False: through lists of neighbours, which may miss some
    recall: float  # of each passage's ten nearest, measured on a sample where not exact
    notes: tuple[str, ...]  # plain sentences
    _sides: tuple[Side, Side] = field(repr=False)

    def __len__(self) -> int:
        return int(self.cosines.size)

    def __getitem__(self, at: int | slice) -> Any:  # noqa: ANN401 - a Pair, or a list of them
        """A pair, or several; UnknownDocumentError if one's document is gone since."""
        places = np.atleast_1d(np.arange(len(self))[at])
        read = list(self._read(places))
        if len(read) < places.size:
            raise UnknownDocumentError("a document of a pair was removed meanwhile. Look for the pairs again")
        return read[0] if isinstance(at, int) else read

    def __iter__(self) -> Iterator[Pair]:
        """Each pair in order; those of which a document is gone since are left out."""
        for begin in range(0, len(self), _PAGE):
            yield from self._read(np.arange(begin, min(begin + _PAGE, len(self))))

    def _read(self, places: NDArray[np.int64]) -> Iterator[Pair]:
        left, right = self._sides[0].rows(self.first[places]), self._sides[1].rows(self.second[places])
        for place in places.tolist():
            first, second = left.get(int(self.first[place])), right.get(int(self.second[place]))
            if first is not None and second is not None:
                yield Pair(float(self.cosines[place]), PairedPassage.of(first), PairedPassage.of(second))


def find_pairs(
    explored: Explored,
    top: int | None = None,
    *,
    threshold: float | None = None,
    where: Where | None = None,
    other: Explorable | None = None,
    other_where: Where | None = None,
    same_document: bool = False,
    exact: bool | None = None,
    progress: ProgressListener = unheard,
) -> Pairs:
    """The pairs of passages that are most similar, in the collection or between it and another.

    top:           how many; None = all over the threshold, or 100 without one
    threshold:     the least cosine
    other:         a collection of the same encoder: pairs of one passage here and one there
    other_where:   a filter for the other
    same_document: passages of one document are pairs, too
    exact:         compare every two or not; None = up to some hundred thousand passages

    EncoderMismatchError, and BadInputError for more pairs than can be listed, each with its remedy.
    """
    if top is None and threshold is None:
        top = TOP
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    side = Side(explored, snapshot)
    if other is None:
        apart = None
        if not same_document:
            with explored.store.database.reading() as connection:
                apart = documents_of(connection, snapshot.collection.id, points.ids)
        vectors: Vectors = points
        sides, numbers = (side, side), points.ids
    else:
        second = other.explore
        theirs = second.snapshot()
        _same_space(explored, snapshot, second, theirs)
        others = second.points(theirs, other_where)
        apart = np.repeat(np.array([0, 1]), [len(points), len(others)])
        vectors, sides = JoinedPoints(points, others), (side, Side(second, theirs))
        numbers = np.concatenate([points.ids, others.ids])
    found = closest_pairs(
        vectors,
        top=top,
        threshold=threshold,
        apart=apart,
        listener=progress,
        exact=exact,
        device=explored.store.device or "cpu",
    )
    return Pairs(
        found.cosines,
        numbers[found.first],
        numbers[found.second],
        len(vectors),
        found.exact,
        found.recall,
        (
            *_notes(found.exact, found.recall, len(vectors)),
            *side.notes,
            *(() if other is None else sides[1].notes),
        ),
        sides,
    )


def _same_space(one: Explored, mine: Snapshot, other: Explored, theirs: Snapshot) -> None:
    """Refuse what cannot be compared."""
    if one.store.folder == other.store.folder and mine.collection.id == theirs.collection.id:
        raise BadInputError(
            f"collection '{one.name}' cannot be compared with itself. Leave the other out: its own pairs "
            "are what is looked for then"
        )
    first, second = mine.generation.encoder, theirs.generation.encoder
    if first.fingerprint != second.fingerprint:
        raise EncoderMismatchError(
            f"collection '{one.name}' was embedded by {first.name} and '{other.name}' by {second.name}: "
            f"their vectors cannot be compared. Embed one again: nearsay index rebuild {other.name} "
            f"--encoder {first.source}"
        )


def _notes(exact: bool, recall: float, looked_at: int) -> tuple[str, ...]:
    if exact:
        return ()
    said = (
        f"of {looked_at:,} passages not every two were compared, but each with those of the lists nearest to "
        f"it, where {recall:.1%} of the ten nearest are: some pairs may be missing, the less likely the more "
        "similar"
    )
    return (said,)
