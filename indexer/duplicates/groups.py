"""Groups of near-duplicates, one representative of each, and the collection with one of each kept."""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.indexer.catalogue.passages import document_ids, whole_documents
from nearsay.indexer.duplicates.closest_pairs import (
    MOST_PAIRS,
    ClosestPairs,
    TooManyPairsError,
    distinct_pairs,
)
from nearsay.indexer.duplicates.pairs import PairedPassage
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Distinct, Explored, Look, Points, Vectors, runs
from nearsay.indexer.query.export import export_documents, write_lines
from nearsay.indexer.vectors.errors import chosen
from nearsay.indexer.vectors.progress import ProgressListener, unheard


def document_pairs(
    document: NDArray[np.int64], vector: NDArray[np.int64], pairs: ClosestPairs
) -> tuple[NDArray[np.int64], ClosestPairs]:
    """Documents by the different vectors that their passages have, and which of these contents are paired.

    Two documents are near-duplicates where each passage of either has a near-duplicate in the other; a pair's
    cosine is the mean, over the passages of both, of that of their nearest there. The number (documents,) of
    each one's content is the same for copies, and what the pairs name.

    document: (n,) the document of each passage, 0, 1, …; vector: (n,) its number in a Distinct
    pairs:    the different vectors that are near-duplicates
    """
    held = np.unique(np.stack([document, vector], axis=1), axis=0)
    bounds = np.searchsorted(held[:, 0], np.arange(int(document.max(initial=-1)) + 2))
    known: dict[tuple[int, ...], int] = {}
    number = np.array(
        [
            known.setdefault(tuple(held[begin:end, 1].tolist()), len(known))
            for begin, end in pairwise(bounds.tolist())
        ],
        dtype=np.int64,
    )
    order = sorted(known)  # by content, so that ties fall the same way whatever came first
    rank = np.empty(len(order), dtype=np.int64)
    rank[[known[content] for content in order]] = np.arange(len(order))
    near = _neighbourhoods(pairs)
    return rank[number], ClosestPairs(*_compared(order, near))


Near = dict[int, dict[int, float]]


def _neighbourhoods(pairs: ClosestPairs) -> Near:
    near: Near = defaultdict(dict)
    for one, other, cosine in zip(
        pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist(), strict=True
    ):
        near[one][other] = near[other][one] = cosine
    return near


def _compared(
    contents: list[tuple[int, ...]], near: Near
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    holders: dict[int, list[int]] = defaultdict(list)
    for content, vectors in enumerate(contents):
        for vector in vectors:
            holders[vector].append(content)
    first, second, cosines = [], [], []
    for content, vectors in enumerate(contents):
        # Whatever matches the whole matches each passage, so the rarest one names all that can.
        reach = [[vector, *near.get(vector, ())] for vector in vectors]
        rarest = min(reach, key=lambda found: sum(len(holders[vector]) for vector in found))
        for other in sorted({holder for vector in rarest for holder in holders[vector]}):
            if other > content:
                cosine = _matched(vectors, contents[other], near)
                if cosine is not None:
                    first.append(content)
                    second.append(other)
                    cosines.append(cosine)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), np.array(cosines, np.float32)


def _matched(one: tuple[int, ...], other: tuple[int, ...], near: Near) -> float | None:
    """The mean cosine of each passage's nearest on the other side; None where one has none there."""
    total = 0.0
    for here, there in ((one, frozenset(other)), (other, frozenset(one))):
        for vector in here:
            if vector in there:
                total += 1.0
                continue
            matches = [cosine for neighbour, cosine in near.get(vector, {}).items() if neighbour in there]
            if not matches:
                return None
            total += max(matches)
    return total / (len(one) + len(other))


_DIGITS = 6  # of a cosine: what differs by less is as central, and the earliest is taken
_BLOCK = 16_384  # vectors in memory at a time


def by_centrality(
    points: Vectors, things: NDArray[np.int64], group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Groups of two things and more, the largest first, each from its most central thing to its least.

    things: (n,) what each place belongs to, 0, 1, …; group: (things,) the group of each
    returns: where each group begins (groups + 1,), and for each thing of a group its first place

    A thing is its mean vector, as central as its cosine to the mean of the group's things; of those that are
    as central the one that was added first comes first. Groups of one size stand by their earliest thing.
    """
    size = np.bincount(group, minlength=1)
    wanted = np.flatnonzero(size[group] > 1)
    if not wanted.size:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    wanted = wanted[np.argsort(group[wanted], kind="stable")]  # each group's things together
    groups, number = np.unique(group[wanted], return_inverse=True)
    places = np.argsort(things, kind="stable")
    bounds = np.searchsorted(things[places], np.arange(group.size + 1))
    central = _centralities(points, wanted, number, places, bounds)
    place = places[bounds[wanted]]
    earliest = np.full(groups.size, things.size)
    np.minimum.at(earliest, number, place)
    order = np.lexsort((place, -central, earliest[number], -size[groups][number]))
    starts = np.flatnonzero(np.diff(number[order], prepend=-1, append=-1))
    return starts.astype(np.int64), place[order].astype(np.int64)


def _centralities(
    points: Vectors,
    wanted: NDArray[np.int64],
    number: NDArray[np.int64],
    places: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The cosine (m,) of each wanted thing to the middle of its group, rounded.

    wanted: (m,) things, those of a group together; number: (m,) the group of each, rising
    places: those of each thing together, bounds: (things + 1,) where each thing's begin
    """
    central = np.empty(wanted.size)
    first = np.flatnonzero(np.diff(number, prepend=-1, append=-1))  # of each group
    begin = 0
    while begin < first.size - 1:  # whole groups, as many as fit, or one that does not
        full = int(np.searchsorted(first, first[begin] + _BLOCK, side="right")) - 1
        end = max(begin + 1, full)
        some = np.arange(first[begin], first[end])
        middles = np.zeros((end - begin, points.dimension))
        for part, means in _means(points, some, wanted, places, bounds):
            np.add.at(middles, number[part] - begin, means)
        middles /= np.maximum(np.linalg.norm(middles, axis=1, keepdims=True), 1e-12)
        for part, means in _means(points, some, wanted, places, bounds):
            central[part] = np.einsum("ij,ij->i", means, middles[number[part] - begin])
        begin = end
    return np.round(central, _DIGITS)


def _means(
    points: Vectors,
    some: NDArray[np.int64],
    wanted: NDArray[np.int64],
    places: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Some of the wanted things a block at a time, and the unit-length mean of each one's vectors."""
    for begin in range(0, some.size, _BLOCK):
        part = some[begin : begin + _BLOCK]
        held = bounds[wanted[part] + 1] - bounds[wanted[part]]
        row = np.repeat(np.arange(part.size), held)
        its = places[runs(bounds[wanted[part]], held)]
        means = np.zeros((part.size, points.dimension))
        for first in range(0, row.size, _BLOCK):
            np.add.at(means, row[first : first + _BLOCK], points.rows(its[first : first + _BLOCK]))
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        yield part, means


class Link(StrEnum):
    """When passages belong together."""

    TRANSITIVE = "transitive"  # a chain of pairs leads from each to each: connected components
    COMPLETE = "complete"  # every two are a pair: complete linkage, cut at the threshold


def linked(
    count: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    cosines: NDArray[np.float32],
    link: Link,
) -> NDArray[np.int64]:
    """The number of the group (count,) of each of `count` things; 0, 1, … by each group's first.

    first, second, cosines: (m,) the pairs over the threshold, each once

    Complete linkage joins the two groups whose least similar two are most similar, as long as every two of
    both are a pair (Sørensen 1948); of joins that tie, the one with the lower numbers comes first.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = coo_array((np.ones(first.size, dtype=np.int8), (first, second)), shape=(count, count))
    _, component = connected_components(pairs, directed=False)
    component = component.astype(np.int64)
    if link is Link.COMPLETE:
        component = _complete(component, first, second, cosines)
    _, begins, number = np.unique(component, return_index=True, return_inverse=True)
    rank = np.empty(begins.size, dtype=np.int64)
    rank[np.argsort(begins)] = np.arange(begins.size)
    return rank[number]


def _complete(
    component: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    cosines: NDArray[np.float32],
) -> NDArray[np.int64]:
    """The components cut where two of one are no pair; the number of a group is that of its first."""
    group = np.arange(component.size)
    size = np.bincount(component)
    pairs = np.bincount(component[first], minlength=size.size)
    whole = pairs == size * (size - 1) // 2
    lowest = np.full(size.size, component.size)
    np.minimum.at(lowest, component, group)
    group = np.where(whole[component], lowest[component], group)
    order = np.argsort(component[first], kind="stable")
    order = order[~whole[component[first[order]]]]
    bounds = np.flatnonzero(np.diff(component[first[order]], prepend=-1, append=-1))
    for begin, end in pairwise(bounds.tolist()):
        some = order[begin:end]
        for joined, into in _joins(first[some].tolist(), second[some].tolist(), cosines[some].tolist()):
            group[joined] = into
    return group


def _joins(first: list[int], second: list[int], cosines: list[float]) -> Iterator[tuple[list[int], int]]:
    """Members and number of each group of one component."""
    links: dict[int, dict[int, float]] = defaultdict(dict)  # of groups by their first members
    for one, other, cosine in zip(first, second, cosines, strict=True):
        links[one][other] = links[other][one] = cosine
    members = {one: [one] for one in links}
    waiting = [(-cosine, min(a, b), max(a, b)) for a, b, cosine in zip(first, second, cosines, strict=True)]
    heapq.heapify(waiting)
    while waiting:
        less, one, other = heapq.heappop(waiting)
        if links.get(one, {}).get(other) != -less:
            continue  # one of them was joined to something else since
        members[one] += members.pop(other)
        theirs, mine = links.pop(other), links[one]
        del theirs[one], mine[other]
        for third in theirs.keys() | mine.keys():
            if third in theirs:
                del links[third][other]
            if third in mine and third in theirs:
                least = min(mine[third], theirs[third])
                if least != mine[third]:
                    mine[third] = links[third][one] = least
                    heapq.heappush(waiting, (-least, min(one, third), max(one, third)))
            elif third in mine:
                del links[third][one], mine[third]
    yield from ((joined, one) for one, joined in members.items())


_PAGE = 500  # members whose texts are read at a time


class By(StrEnum):
    """What is a duplicate."""

    DOCUMENT = "document"  # each passage of either document has a near-duplicate in the other
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class DuplicateGroup(Report):
    """What says nearly the same."""

    REPORT: ClassVar = "duplicate group"

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
    _look: Look = field(repr=False)

    def __len__(self) -> int:
        return int(self.starts.size) - 1

    @property
    def duplicates(self) -> int:
        """How many members could go if one of each group stays."""
        return int(self.members.size) - len(self)

    def __iter__(self) -> Iterator[DuplicateGroup]:
        """Each group in order, without members that are gone since."""
        for groups in self._pages():
            rows = self._look.rows(np.concatenate(groups))
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
            explored, snapshot = self._look.explored, self._look.snapshot
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
        explored, collection = self._look.explored, self._look.snapshot.collection
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
    progress: ProgressListener = unheard,
) -> DuplicateGroups:
    """Groups of documents that say nearly the same, the largest first, with a representative of each.

    threshold: the least cosine of two passages that are near-duplicates
    link:      transitive (a chain of near-duplicates leads from each to each) or complete (every two are)
    by:        document (each passage of either has a near-duplicate in the other; only documents of which
               every passage has a vector and passes the filter) or passage
    exact:     compare every two or not; None = up to some hundred thousand passages
    """
    link, by = chosen(Link, link, "link"), chosen(By, by, "by")
    if not 0.0 < threshold <= 1.0:
        raise BadInputError(f"threshold is {threshold}. Take a cosine above 0 and up to 1, such as 0.95")
    look = explored.look(where)
    points, notes = look.points, look.waiting
    things = np.arange(len(points))  # what each passage belongs to: itself, or its document
    if by is By.DOCUMENT:
        numbers = look.documents()
        with explored.store.database.reading() as connection:
            whole = whole_documents(connection, look.snapshot.collection.id, numbers)
        if not whole.all():
            in_part = np.unique(numbers[~whole & (numbers >= 0)])  # below 0: removed since the snapshot
            notes += (_in_part(in_part.size),) if in_part.size else ()
            points = Points.of(look.snapshot, points.ids[whole])
        things = np.unique(numbers[whole], return_inverse=True)[1].astype(np.int64)
    distinct = Distinct.of(points)
    device = explored.store.device or "cpu"
    try:
        pairs = distinct_pairs(
            points, distinct, threshold=threshold, listener=progress, exact=exact, device=device
        )
    except TooManyPairsError as error:
        raise BadInputError(
            f"{error.pairs:,} pairs or more have a cosine of {threshold:g} and above, and {MOST_PAIRS:,} can "
            "be put into groups. Raise the threshold, or look at a part: nearsay explore duplicates "
            f"{explored.name} --where FILTER"
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
        look,
    )


def grouped(
    points: Points, distinct: Distinct, pairs: ClosestPairs, things: NDArray[np.int64], link: Link
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each group begins (groups + 1,), and the first places of its things, the representative first.

    things: (n,) what each place belongs to, 0, 1, …
    """
    # Of each thing, not of each place: the passage of a document that was changed stands after newer ones'.
    number, count = distinct.number[np.argsort(things)], len(distinct)
    if things.size > int(things.max(initial=-1)) + 1:  # documents of several passages
        number, pairs = document_pairs(things, distinct.number, pairs)
        count = int(number.max(initial=-1)) + 1
    group = linked(count, pairs.first, pairs.second, pairs.cosines, link)[number]
    return by_centrality(points, things, group)


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
