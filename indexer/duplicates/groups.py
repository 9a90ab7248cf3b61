"""Groups of near-duplicates, one representative of each, and the collection with one of each kept."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.passage_documents import document_ids, documents_of, whole_documents
from nearsay.indexer.duplicates.closest import MOST_PAIRS, TooManyPairsError
from nearsay.indexer.duplicates.closest_pairs import DistinctPairs, distinct_pairs
from nearsay.indexer.duplicates.linking import Link, linked
from nearsay.indexer.duplicates.pairs import PairedPassage, Side
from nearsay.indexer.duplicates.representatives import by_centrality
from nearsay.indexer.duplicates.whole_documents import document_pairs
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.distinct import Distinct
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.query.export import export_documents, write_lines
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["By", "DuplicateGroup", "DuplicateGroups", "KeptReport", "find_duplicates"]

_Choice = TypeVar("_Choice", bound=StrEnum)
_PAGE = 500  # members whose texts are read at a time


class By(StrEnum):
    """What is a duplicate."""

    DOCUMENT = "document"  # each passage of either document has a near-duplicate in the other
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class DuplicateGroup:
    """What says nearly the same."""

    representative: PairedPassage  # the most central; a document's first passage stands for it
    others: tuple[PairedPassage, ...]  # by falling cosine to the middle, then in the order they were added
    size: int  # the representative included


@dataclass(frozen=True, slots=True)
class KeptReport:
    """What became of an export."""

    kept: int  # documents written
    left_out: int  # documents that one of the kept stands for


@dataclass(frozen=True, slots=True)
class DuplicateGroups:
    """Groups, the largest first; the texts are read when they are looked at, while the library is open."""

    by: By
    link: Link
    threshold: float
    starts: NDArray[np.int64]  # (groups + 1,) where each begins in `members`
    members: NDArray[np.int64]  # (m,) passage numbers, each group's representative first
    looked_at: int  # documents, or passages
    exact: bool  # False: the pairs came through lists of neighbours, which may miss some
    notes: tuple[str, ...]  # plain sentences
    _where: Where | None = field(repr=False)
    _side: Side = field(repr=False)

    def __len__(self) -> int:
        return int(self.starts.size) - 1

    @property
    def duplicates(self) -> int:
        """How many members could go if one of each group stays."""
        return int(self.members.size) - len(self)

    def __iter__(self) -> Iterator[DuplicateGroup]:
        """Each group in order, without members that are gone since."""
        for groups in self._pages():
            rows = self._side.rows(np.concatenate(groups))
            for numbers in groups:
                there = [PairedPassage.of(rows[number]) for number in numbers.tolist() if number in rows]
                if len(there) > 1:
                    yield DuplicateGroup(there[0], tuple(there[1:]), len(there))

    def ids(self) -> list[tuple[str, ...]]:
        """The documents of each group in order, its representative first, without those gone since.

        BadInputError for groups of passages.
        """
        self._require_documents("listed as documents")
        return [of_group for of_group in self._ids() if len(of_group) > 1]

    def keep_one(self, out: Path | BinaryIO) -> KeptReport:
        """Write every document but those that a representative stands for, as JSON lines for `documents add`.

        Documents in no group are all written, those added since included. BadInputError for groups of
        passages: a document is kept or not, but not in part.
        """
        self._require_documents("written as documents, which are kept whole")
        gone = {id_ for of_group in self._ids() for id_ in of_group[1:]}
        left_out = 0

        def kept() -> Iterator[dict[str, object]]:
            nonlocal left_out
            explored, snapshot = self._side.explored, self._side.snapshot
            for document in export_documents(explored.store, snapshot.collection.id, self._where):
                if document["id"] in gone:
                    left_out += 1
                else:
                    yield document

        written = write_lines(kept(), out)
        return KeptReport(written, left_out)

    def _pages(self) -> Iterator[list[NDArray[np.int64]]]:
        """The members of each group, as many groups at a time as are read together."""
        begin = 0
        while begin < len(self):
            full = np.searchsorted(self.starts, self.starts[begin] + _PAGE, side="right") - 1
            end = min(len(self), max(begin + 1, int(full)))
            yield [self.members[self.starts[at] : self.starts[at + 1]] for at in range(begin, end)]
            begin = end

    def _ids(self) -> Iterator[tuple[str, ...]]:
        """The ids of each group's documents that are there."""
        explored, collection = self._side.explored, self._side.snapshot.collection
        for groups in self._pages():
            with explored.store.database.reading() as connection:
                ids = document_ids(connection, collection.id, np.concatenate(groups))
            for numbers in groups:
                yield tuple(ids[number] for number in numbers.tolist() if number in ids)

    def _require_documents(self, what: str) -> None:
        if self.by is not By.DOCUMENT:
            raise BadInputError(f"groups of passages cannot be {what}. Group by document: --unit documents")


def find_duplicates(
    explored: Explored,
    threshold: float = 0.95,
    *,
    link: Link | str = Link.TRANSITIVE,
    by: By | str = By.DOCUMENT,
    where: Where | None = None,
    exact: bool | None = None,
    listener: ProgressListener = unheard,
) -> DuplicateGroups:
    """Groups of near-duplicates; see `Explorer.duplicates`.

    By document only those are compared of which every passage is there: has a vector and passes the filter.
    """
    link, by = _chosen(Link, link, "link"), _chosen(By, by, "by")
    if not 0.0 < threshold <= 1.0:
        raise BadInputError(f"threshold is {threshold}. Take a cosine above 0 and up to 1, such as 0.95")
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    side = Side(explored, snapshot)
    notes = side.notes
    things = np.arange(len(points))  # what each passage belongs to: itself, or its document
    if by is By.DOCUMENT:
        with explored.store.database.reading() as connection:
            numbers = documents_of(connection, snapshot.collection.id, points.ids)
            whole = whole_documents(connection, snapshot.collection.id, numbers)
        if not whole.all():
            in_part = np.unique(numbers[~whole & (numbers >= 0)])  # below 0: removed since the snapshot
            notes += (_in_part(in_part.size),) if in_part.size else ()
            points = Points.of(snapshot, points.ids[whole])
        things = np.unique(numbers[whole], return_inverse=True)[1].astype(np.int64)
    distinct = Distinct.of(points)
    pairs = DistinctPairs.none()
    if threshold < 1.0:
        device = explored.store.device or "cpu"
        try:
            pairs = distinct_pairs(
                points, distinct, threshold=threshold, listener=listener, exact=exact, device=device
            )
        except TooManyPairsError as error:
            raise BadInputError(
                f"{error.pairs:,} pairs or more have a cosine of {threshold:g} and above, and {MOST_PAIRS:,} "
                "can be put into groups. Raise the threshold, or look at a part: --where"
            ) from error
    starts, members = grouped(points, distinct, pairs, things, link)
    return DuplicateGroups(
        by,
        link,
        threshold,
        starts,
        points.ids[members],
        int(things.max(initial=-1)) + 1,
        pairs.exact,
        notes if pairs.exact else (_missed(pairs.recall), *notes),
        where,
        side,
    )


def grouped(
    points: Points, distinct: Distinct, pairs: DistinctPairs, things: NDArray[np.int64], link: Link
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each group begins (groups + 1,), and the first places of its things, the representative first.

    things: (n,) what each place belongs to, 0, 1, …
    """
    alone = things.size == int(things.max(initial=-1)) + 1
    if alone:
        number, count = distinct.number, len(distinct)
        first, second, cosines = pairs.first, pairs.second, pairs.cosines
    else:
        whole = document_pairs(things, distinct.number, pairs)
        number, count, first, second, cosines = (
            whole.number,
            whole.count,
            whole.first,
            whole.second,
            whole.cosines,
        )
    group = linked(count, first, second, cosines, link)[number]
    return by_centrality(points, things, group)


def _chosen(kind: type[_Choice], wanted: str, name: str) -> _Choice:
    try:
        return kind(wanted)
    except ValueError as error:
        raise BadInputError(f"{name} is '{wanted}'. Take one of: {', '.join(kind)}") from error


def _in_part(documents: int) -> str:
    was = "was" if documents == 1 else "were"
    return (
        f"{counted(documents, 'document')} {was} left out: some passages have no vector yet or do not pass "
        "the filter, and documents are compared as a whole"
    )


def _missed(recall: float) -> str:
    return (
        f"not every two passages were compared, but each with those of the lists nearest to it, where "
        f"{recall:.1%} of the ten nearest are: some duplicates may be missing"
    )
