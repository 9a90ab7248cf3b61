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
    _looks: tuple[Look, Look] = field(repr=False)

    def __len__(self) -> int:
        return int(self.cosines.size)

    def __getitem__(self, at: int | slice) -> Any:  # noqa: ANN401 - a Pair, or a list of them
        """A pair, or several; UnknownDocumentError if one's document is gone since."""
        places = np.atleast_1d(np.arange(len(self))[at])
        read = list(self._read(places))
        if len(read) < places.size:
            raise UnknownDocumentError("a document of a pair was removed meanwhile. Look for the pairs again")
        return read if isinstance(at, slice) else read[0]

    def __iter__(self) -> Iterator[Pair]:
        """Each pair in order; those of which a document is gone since are left out."""
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
    """Refuse what cannot be compared."""
    one, other = mine.explored, theirs.explored
    if one.store.folder == other.store.folder and one.name == other.name:
        raise BadInputError(
            f"collection '{one.name}' cannot be compared with itself. Leave the other out: its own pairs "
            "are what is looked for then"
        )
    first, second = mine.snapshot.generation.encoder, theirs.snapshot.generation.encoder
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
