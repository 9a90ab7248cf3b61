"""Groups of near-duplicates with a representative of each, and an export that keeps one of each group."""

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
    """Number documents by their distinct vectors, and pair the near-duplicates among these contents.

    Two documents are near-duplicates if each passage of either has a near-duplicate in the other; the pair's
    cosine is the mean, over the passages of both, of the cosine to the nearest in the other.

    document: (n,) the document of each passage, 0, 1, …
    vector:   (n,) the passage's number in a Distinct
    pairs:    near-duplicate distinct vectors
    returns:  (documents,) content numbers, equal for copies; and the pairs of these
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
    order = sorted(known)  # by content, so that ties do not depend on the order of addition
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
        # A matching document matches every passage, so the rarest one gives all candidates.
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
    """The mean cosine of each passage to its nearest on the other side; None if one has no match there."""
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


_DIGITS = 6  # of a cosine; smaller differences are ties
_BLOCK = 16_384  # vectors in memory at a time


def by_centrality(
    points: Vectors, things: NDArray[np.int64], group: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Groups of at least two items, the largest first, each sorted by descending centrality.

    things:  (n,) the item of each place, 0, 1, …
    group:   (items,) the group of each
    returns: where each group begins (groups + 1,), and for each item of a group its first place

    An item is represented by its mean vector; its centrality is the cosine to the mean of the group's items.
    Ties, and groups of equal size, are in the order of addition.
    """
    size = np.bincount(group, minlength=1)
    wanted = np.flatnonzero(size[group] > 1)
    if not wanted.size:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    wanted = wanted[np.argsort(group[wanted], kind="stable")]  # sorted by group
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
    """The cosine (m,) of each wanted item to the mean of its group, rounded.

    wanted: (m,) items, sorted by group
    number: (m,) the group of each, ascending
    places: sorted by item; bounds: (items + 1,) where each item's begin
    """
    central = np.empty(wanted.size)
    first = np.flatnonzero(np.diff(number, prepend=-1, append=-1))  # of each group
    begin = 0
    while begin < first.size - 1:  # complete groups, as many as fit, or one that does not
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
    """The wanted items in blocks, with the unit-length mean of each one's vectors."""
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
    """The rule by which pairs form groups."""

    TRANSITIVE = "transitive"  # connected components of the pairs
    COMPLETE = "complete"  # every two are a pair: complete linkage, cut at the threshold


def linked(
    count: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    cosines: NDArray[np.float32],
    link: Link,
) -> NDArray[np.int64]:
    """The group number (count,) of each of `count` items; 0, 1, … by the first item of each.

    first, second, cosines: (m,) the pairs over the threshold, each once

    Complete linkage repeatedly joins the two groups with the highest minimum similarity, as long as every two
    items of both are a pair (Sørensen 1948); of ties, the groups with lower numbers are joined first.
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
    """Split components in which some two items are not a pair; a group's number is that of its first item."""
    group = np.arange(component.size)
    size = np.bincount(component)
    pairs = np.bincount(component[first], minlength=size.size)
    complete = pairs == size * (size - 1) // 2
    lowest = np.full(size.size, component.size)
    np.minimum.at(lowest, component, group)
    group = np.where(complete[component], lowest[component], group)
    order = np.argsort(component[first], kind="stable")
    order = order[~complete[component[first[order]]]]
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
            continue  # one of them has been joined to another group since
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
    """The unit of duplicates."""

    DOCUMENT = "document"  # each passage of either document has a near-duplicate in the other
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class DuplicateGroup(Report):
    """A group of near-duplicates."""

    REPORT: ClassVar = "duplicate group"

    representative: PairedPassage  # the most central one; for a document its first passage
    others: tuple[PairedPassage, ...]  # by descending centrality, ties in the order of addition
    size: int  # the representative included


@dataclass(frozen=True, slots=True)
class KeptReport:
    """The numbers of exported and omitted documents."""

    kept: int  # documents written
    left_out: int  # documents that are represented by a written one


@dataclass(frozen=True, slots=True)
class DuplicateGroups:
    """Groups of near-duplicates, the largest first. Texts are read on access, while the library is open."""

    by: By
    link: Link
    threshold: float
    starts: NDArray[np.int64]  # (groups + 1,) where each begins in `members`
    members: NDArray[np.int64]  # (m,) passage numbers, each group's representative first
    looked_at: int  # compared documents or passages
    exact: bool  # False: pairs were found through inverted lists, which may miss some
    notes: tuple[str, ...]  # plain sentences
    _where: Where | None = field(repr=False)
    _look: Look = field(repr=False)

    def __len__(self) -> int:
        return int(self.starts.size) - 1

    @property
    def duplicates(self) -> int:
        """The number of members besides the representatives."""
        return int(self.members.size) - len(self)

    def __iter__(self) -> Iterator[DuplicateGroup]:
        """Each group in order, without members that have been removed since."""
        for groups in self._pages():
            rows = self._look.rows(np.concatenate(groups))
            for numbers in groups:
                there = [PairedPassage.of(rows[number]) for number in numbers.tolist() if number in rows]
                if len(there) > 1:
                    yield DuplicateGroup(there[0], tuple(there[1:]), len(there))

    def ids(self) -> list[tuple[str, ...]]:
        """The document ids of each group in order, its representative first, without those removed since.

        Raises BadInputError for groups of passages.
        """
        self._require_documents("listed as documents")
        return [of_group for of_group in self._ids() if len(of_group) > 1]

    def keep_one(self, out: Path | BinaryIO) -> KeptReport:
        """Write all documents, of each group only its representative, as JSON lines for `documents add`.

        Documents added since are written, too. Raises BadInputError for groups of passages.
        """
        self._require_documents("written as documents")
        omitted = {id_ for of_group in self._ids() for id_ in of_group[1:]}
        left_out = 0

        def kept() -> Iterator[dict[str, object]]:
            nonlocal left_out
            explored, snapshot = self._look.explored, self._look.snapshot
            for document in export_documents(explored.store, snapshot.collection.id, self._where):
                if document["id"] in omitted:
                    left_out += 1
                else:
                    yield document

        written = write_lines(kept(), out)
        return KeptReport(written, left_out)

    def _pages(self) -> Iterator[list[NDArray[np.int64]]]:
        """The members of each group, in pages of groups that are read together."""
        begin = 0
        while begin < len(self):
            full = np.searchsorted(self.starts, self.starts[begin] + _PAGE, side="right") - 1
            end = min(len(self), max(begin + 1, int(full)))
            yield [self.members[self.starts[at] : self.starts[at + 1]] for at in range(begin, end)]
            begin = end

    def _ids(self) -> Iterator[tuple[str, ...]]:
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
    """Group near-duplicate documents, the largest group first, with a representative of each.

    threshold: the least cosine of two near-duplicate passages
    link:      transitive (members are connected by a chain of near-duplicates) or complete (every two are
               near-duplicates)
    by:        document (each passage of either has a near-duplicate in the other; only documents whose
               passages all have a vector and match the filter) or passage
    exact:     compare all pairs; None = up to some hundred thousand passages
    """
    link, by = chosen(Link, link, "link"), chosen(By, by, "by")
    if not 0.0 < threshold <= 1.0:
        raise BadInputError(f"threshold is {threshold}. Give a cosine above 0 and at most 1, such as 0.95")
    look = explored.look(where)
    points, notes = look.points, look.waiting
    things = np.arange(len(points))  # each passage's item: itself, or its document
    if by is By.DOCUMENT:
        numbers = look.documents()
        with explored.store.database.reading() as connection:
            complete = whole_documents(connection, look.snapshot.collection.id, numbers)
        if not complete.all():
            in_part = np.unique(numbers[~complete & (numbers >= 0)])  # below 0: removed since the snapshot
            notes += (_in_part(in_part.size),) if in_part.size else ()
            points = Points.of(look.snapshot, points.ids[complete])
        things = np.unique(numbers[complete], return_inverse=True)[1].astype(np.int64)
    distinct = Distinct.of(points)
    device = explored.store.device or "cpu"
    try:
        pairs = distinct_pairs(
            points, distinct, threshold=threshold, listener=progress, exact=exact, device=device
        )
    except TooManyPairsError as error:
        raise BadInputError(
            f"at least {error.pairs:,} pairs have a cosine of {threshold:g} or more, and at most "
            f"{MOST_PAIRS:,} can be grouped. Raise the threshold, or give a filter: "
            f"nearsay explore duplicates {explored.name} --where FILTER"
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
    """Where each group begins (groups + 1,), and the first places of its items, the representative first.

    things: (n,) the item of each place, 0, 1, …
    """
    # Sorted by item: the passages of a changed document come after those of newer ones.
    number, count = distinct.number[np.argsort(things)], len(distinct)
    if things.size > int(things.max(initial=-1)) + 1:  # documents of several passages
        number, pairs = document_pairs(things, distinct.number, pairs)
        count = int(number.max(initial=-1)) + 1
    group = linked(count, pairs.first, pairs.second, pairs.cosines, link)[number]
    return by_centrality(points, things, group)


def _in_part(documents: int) -> str:
    return (
        f"not compared: {counted(documents, 'document')} with passages that have no vector yet or do not "
        "match the filter"
    )


def _missed(recall: float) -> str:
    return (
        f"passages were compared within their nearest lists only, which hold {recall:.1%} of the ten nearest "
        "neighbours: some duplicates may be missing"
    )
