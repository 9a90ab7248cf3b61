"""The most similar pairs of passages of a collection, or of two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.duplicates.closest_pairs import closest_pairs
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explorable, Explored, JoinedPoints, Look, Vectors
from nearsay.indexer.vectors.errors import EncoderMismatchError, UnknownDocumentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

TOP = 100  # pairs, by default
_PAGE = 250  # pairs whose texts are read at a time


@dataclass(frozen=True, slots=True)
class PairedPassage:
    """A passage of a pair or a group."""

    id: str  # of the document
    title: str
    text: str  # of the passage
    ordinal: int  # 0-based place of the passage in its document
    metadata: Mapping[str, JsonValue]

    @classmethod
    def of(cls, row: PassageRow) -> "PairedPassage":
        """From a row of the catalogue."""
        return cls(row.document_id, row.title, row.text, row.ordinal, row.metadata)


@dataclass(frozen=True, slots=True)
class Pair(Report):
    """Two similar passages."""

    REPORT: ClassVar = "pair"

    cosine: float  # 1 only for the same vector
    first: PairedPassage  # the earlier one; of two collections, the passage of the explored one
    second: PairedPassage


@dataclass(frozen=True, slots=True)
class Pairs(Sequence[Pair]):
    """Pairs by descending cosine; ties, such as copies, in the order of addition.

    Texts are read on access, while the library is open.
    """

    cosines: NDArray[np.float32]  # (m,) descending
    first: NDArray[np.int64]  # (m,) passage numbers
    second: NDArray[np.int64]  # (m,)
    looked_at: int  # passages, of both collections
    exact: bool  # False: found through inverted lists, which may miss some
    recall: float  # of each passage's ten nearest, measured on a sample if not exact
    notes: tuple[str, ...]  # plain sentences
    _looks: tuple[Look, Look] = field(repr=False)

    def __len__(self) -> int:
        return int(self.cosines.size)

    def __getitem__(self, at: int | slice) -> Any:  # noqa: ANN401 - a Pair, or a list of them
        """One pair, or a list of pairs; UnknownDocumentError if a document has been removed since."""
        places = np.atleast_1d(np.arange(len(self))[at])
        read = list(self._read(places))
        if len(read) < places.size:
            raise UnknownDocumentError("a document of a pair was removed meanwhile. Find the pairs again")
        return read if isinstance(at, slice) else read[0]

    def __iter__(self) -> Iterator[Pair]:
        """Each pair in order, without those whose documents have been removed since."""
        for begin in range(0, len(self), _PAGE):
            yield from self._read(np.arange(begin, min(begin + _PAGE, len(self))))

    def _read(self, places: NDArray[np.int64]) -> Iterator[Pair]:
        left, right = (
            look.rows(np.unique(numbers[places]))
            for look, numbers in zip(self._looks, (self.first, self.second), strict=True)
        )
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
    """Find the most similar pairs of passages, in the collection or between it and another.

    top:           number of pairs; None = all over the threshold, or 100 without one
    threshold:     the least cosine
    other:         a collection with the same encoder: pair passages of this one with passages of that one
    other_where:   a filter for the other collection
    same_document: also pair passages of the same document
    exact:         compare all pairs; None = up to some hundred thousand passages

    Raises EncoderMismatchError, and BadInputError for more pairs than can be listed.
    """
    if top is None and threshold is None:
        top = TOP
    look = explored.look(where)
    vectors: Vectors = look.points
    looks, numbers = (look, look), look.points.ids
    if other is None:
        apart = None if same_document else look.documents()
    else:
        second = other.explore.look(other_where)
        _same_space(look, second)
        apart = np.repeat(np.array([0, 1]), [len(look.points), len(second.points)])
        vectors, looks = JoinedPoints(look.points, second.points), (look, second)
        numbers = np.concatenate([numbers, second.points.ids])
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
            *look.waiting,
            *(() if other is None else looks[1].waiting),
        ),
        looks,
    )


def _same_space(mine: Look, theirs: Look) -> None:
    """Raise an error for collections that cannot be compared."""
    one, other = mine.explored, theirs.explored
    if one.store.folder == other.store.folder and one.name == other.name:
        raise BadInputError(
            f"collection '{one.name}' cannot be compared with itself. Omit the other collection to find the "
            "pairs within it"
        )
    first, second = mine.snapshot.generation.encoder, theirs.snapshot.generation.encoder
    if first.fingerprint != second.fingerprint:
        raise EncoderMismatchError(
            f"collection '{one.name}' was embedded by {first.name} and '{other.name}' by {second.name}: "
            f"their vectors cannot be compared. Re-embed one: nearsay index rebuild {other.name} "
            f"--encoder {first.source}"
        )


def _notes(exact: bool, recall: float, looked_at: int) -> tuple[str, ...]:
    if exact:
        return ()
    note = (
        f"the {looked_at:,} passages were compared within their nearest lists only, which hold {recall:.1%} "
        "of the ten nearest neighbours: some pairs may be missing, the most similar ones least likely"
    )
    return (note,)
