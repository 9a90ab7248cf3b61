"""Clusters: how they are to be found, how they are shown, and which old ones new ones are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report, of_json
from nearsay.indexer.catalogue.clusterings import Members

_ONLY = {"clusters": "kmeans", "resolution": "graph"}


class ClusterMethod(StrEnum):
    """The ways to find clusters."""

    GRAPH = "graph"  # communities of the neighbour graph, by modularity; nothing needs to be chosen
    KMEANS = "kmeans"  # so many round clusters; every passage is in one


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How clusters are to be found; None = the method's own, chosen or default."""

    method: ClusterMethod = ClusterMethod.GRAPH
    clusters: int | None = None  # how many (kmeans); None: chosen by a criterion
    resolution: float | None = None  # of modularity (graph): higher: more, smaller clusters; None: chosen
    # Passages; those of a smaller cluster are outliers. None: 5, of fewer than 50 passages a tenth but at
    # least 2 (graph), else 1
    least_size: int | None = None
    assign_outliers: bool = False  # put each outlier into the cluster whose centre is nearest

    def __post_init__(self) -> None:
        """BadInputError for what no method can use; names are converted."""
        if self.method not in list(ClusterMethod):
            raise BadInputError(
                f"method = {self.method!r} is none of {', '.join(ClusterMethod)}. Give one of them"
            )
        object.__setattr__(self, "method", ClusterMethod(self.method))
        for name, method in _ONLY.items():
            if getattr(self, name) is not None and self.method != method:
                raise BadInputError(
                    f"{name} = {getattr(self, name)} means nothing to the method {self.method}. "
                    f"Leave it out, or take the method {method}"
                )
        if self.clusters is not None and self.clusters < 1:
            raise BadInputError(f"clusters = {self.clusters}, but there is at least 1. Give a number from 1")
        if self.resolution is not None and not 0 < self.resolution <= 1000:
            raise BadInputError(f"resolution = {self.resolution}. Give a number over 0, up to 1000")
        if self.least_size is not None and self.least_size < 1:
            raise BadInputError(f"least_size = {self.least_size}. Give a number of passages from 1")


LEAST_OVERLAP = 0.2  # Jaccard: below it a new cluster is another one, whatever it took over
_PART = 0.2  # of a cluster's passages: so many in another cluster make it a part of a split or a merger
_MOST_MOVES = 10


@dataclass(frozen=True, slots=True)
class Match:
    """A new cluster that is an old one."""

    before: int  # place among the old clusters
    after: int  # place among the new clusters
    overlap: float  # Jaccard: passages in both of those in either


@dataclass(frozen=True, slots=True)
class Move:
    """Passages that went from one cluster to another."""

    source: int | None  # the old cluster's number; None: outliers
    target: int | None
    passages: int


@dataclass(frozen=True, slots=True)
class Movement:
    """What became of the clusters that were there before."""

    shared: int  # passages that both clusterings looked at
    moved: int  # of these, how many are in a cluster of another number
    kept: Mapping[int, float]  # numbers that stayed, and their overlap
    born: tuple[int, ...]
    gone: tuple[int, ...]
    split: Mapping[int, tuple[int, ...]]  # an old cluster, and the new ones that it is in large parts in
    merged: Mapping[int, tuple[int, ...]]  # a new cluster, and the old ones that are large parts of it
    moves: tuple[Move, ...]  # the largest, ten at most

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "shared": self.shared,
            "moved": self.moved,
            "kept": [{"cluster": number, "overlap": overlap} for number, overlap in self.kept.items()],
            "born": list(self.born),
            "gone": list(self.gone),
            "split": [{"cluster": one, "into": list(others)} for one, others in self.split.items()],
            "merged": [{"cluster": one, "of": list(others)} for one, others in self.merged.items()],
            "moves": [
                {"from": move.source, "to": move.target, "passages": move.passages} for move in self.moves
            ],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Movement":
        """From what `to_json` made."""
        return cls(
            shared=row["shared"],
            moved=row["moved"],
            kept={each["cluster"]: each["overlap"] for each in row["kept"]},
            born=tuple(row["born"]),
            gone=tuple(row["gone"]),
            split={each["cluster"]: tuple(each["into"]) for each in row["split"]},
            merged={each["cluster"]: tuple(each["of"]) for each in row["merged"]},
            moves=tuple(Move(each["from"], each["to"], each["passages"]) for each in row["moves"]),
        )

    def lines(self, names: Mapping[int, str]) -> list[str]:
        """The same in sentences; names: of the new clusters, by number."""

        def called(number: int | None) -> str:
            if number is None:
                return "no cluster"
            return f"“{names[number]}” ({number})" if number in names else f"cluster {number}"

        def all_of(numbers: Iterable[int]) -> str:
            return " and ".join(map(called, numbers))

        counts = f"{counted(len(self.kept), 'cluster')} kept, {len(self.born):,} new, {len(self.gone):,} gone"
        said = [f"{counts}; {self.moved:,} of {counted(self.shared, 'passage')} moved"]
        said += [f"{called(one)} split into {all_of(parts)}" for one, parts in self.split.items()]
        said += [f"{called(one)} was merged from {all_of(parts)}" for one, parts in self.merged.items()]
        said += [
            f"{counted(each.passages, 'passage')} went from {called(each.source)} to {called(each.target)}"
            for each in self.moves[:5]
        ]
        return said


def match(before: NDArray[np.int32], after: NDArray[np.int32]) -> tuple[Match, ...]:
    """Pair old with new clusters so that the pairs' overlaps add up to the most; by place of the new ones.

    before, after: (n,) each passage's place among the old and among the new clusters, -1 = in none

    Only clusters that share a passage can be paired, so each group of those that are linked by pairs is
    solved by itself (Kuhn's assignment problem: `scipy.optimize.linear_sum_assignment`).
    """
    from scipy import sparse
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse.csgraph import connected_components

    old, new, overlap = _overlaps(before, after)
    worth = overlap >= LEAST_OVERLAP
    old, new, overlap = old[worth], new[worth], overlap[worth]
    if not old.size:
        return ()
    olds = int(old.max()) + 1
    size = olds + int(new.max()) + 1
    links = sparse.csr_array((np.ones(old.size), (old, olds + new)), shape=(size, size))
    _, group = connected_components(links, directed=False)
    found: list[Match] = []
    order = np.argsort(group[old], kind="stable")
    for some in np.split(order, np.flatnonzero(np.diff(group[old][order])) + 1):
        rows, row = np.unique(old[some], return_inverse=True)
        columns, column = np.unique(new[some], return_inverse=True)
        table = np.zeros((rows.size, columns.size))
        table[row, column] = overlap[some]
        for at, to in zip(*linear_sum_assignment(table, maximize=True), strict=True):
            if table[at, to] > 0:
                found.append(Match(int(rows[at]), int(columns[to]), float(table[at, to])))
    return tuple(sorted(found, key=lambda each: each.after))


def movement(
    before: NDArray[np.int32],
    after: NDArray[np.int32],
    numbers_before: Sequence[int],
    numbers_after: Sequence[int],
    matches: Sequence[Match],
) -> Movement:
    """What became of the old clusters, by their numbers.

    before, after: as in `match`; numbers_before, numbers_after: the numbers of the clusters by their places
    """
    old, new, counts = _counts(before, after)
    was = np.array([*numbers_before, 0])[old]  # place -1 takes the last: outliers
    became = np.array([*numbers_after, 0])[new]
    there_before, there_after = set(numbers_before), set(numbers_after)
    moves = sorted(
        (
            Move(int(source) or None, int(target) or None, int(count))
            for source, target, count in zip(was, became, counts, strict=True)
            if source != target
        ),
        key=lambda move: (-move.passages, move.source or 0, move.target or 0),
    )
    return Movement(
        shared=int(counts.sum()),
        moved=sum(move.passages for move in moves),
        kept={numbers_before[each.before]: round(each.overlap, 4) for each in matches},
        born=tuple(number for number in numbers_after if number not in there_before),
        gone=tuple(number for number in numbers_before if number not in there_after),
        split=_parts(was, became, counts),
        merged=_parts(became, was, counts),
        moves=tuple(moves[:_MOST_MOVES]),
    )


def _counts(
    before: NDArray[np.int32], after: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of an old and a new place that share passages, and how many."""
    width = int(after.max(initial=-1)) + 2
    pairs, counts = np.unique((before.astype(np.int64) + 1) * width + after + 1, return_counts=True)
    return pairs // width - 1, pairs % width - 1, counts


def _overlaps(
    before: NDArray[np.int32], after: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    old, new, both = _counts(before, after)
    of_old = np.bincount(before + 1, minlength=int(old.max(initial=0)) + 2)
    of_new = np.bincount(after + 1, minlength=int(new.max(initial=0)) + 2)
    inside = (old >= 0) & (new >= 0)
    old, new, both = old[inside], new[inside], both[inside]
    return old, new, both / (of_old[old + 1] + of_new[new + 1] - both)


def _parts(
    whole: NDArray[np.int64], part: NDArray[np.int64], counts: NDArray[np.int64]
) -> dict[int, tuple[int, ...]]:
    at = np.unique(whole, return_inverse=True)[1]
    sizes = np.bincount(at, weights=counts)
    large = np.flatnonzero((whole > 0) & (part > 0) & (counts >= _PART * sizes[at]))
    order = large[np.lexsort((part[large], -counts[large], at[large]))]
    parts = np.split(part[order], np.flatnonzero(np.diff(at[order])) + 1)
    begins = np.flatnonzero(np.diff(at[order], prepend=-1))
    return {
        int(whole[order[begin]]): tuple(some.tolist())
        for begin, some in zip(begins, parts, strict=False)
        if some.size > 1
    }


@dataclass(frozen=True, slots=True)
class CentralPassage:
    """One of the passages nearest to a cluster's centre."""

    number: int
    id: str  # its document's
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Cluster(Report):
    """Passages that say similar things."""

    REPORT: ClassVar = "cluster"

    number: int  # kept from clustering to clustering
    name: str
    named_by_user: bool
    size: int  # passages that are there
    cohesion: float  # mean cosine to its centre
    silhouette: float | None  # between -1 and 1, by centres; None where there is no other cluster
    parent: int | None  # the cluster of the level above
    level: int  # 0: holds passages itself; 1…: holds clusters
    terms: tuple[str, ...]  # that tell it from the others, best first
    central: tuple[CentralPassage, ...]  # the most central passages, no two of them alike


def clusters_as_tree(clusters: Sequence[Cluster]) -> list[tuple[Cluster, int]]:
    """Each cluster with its depth, after the one that it belongs to; those that hold one are left out."""
    below: dict[int | None, list[Cluster]] = {}
    numbers = {each.number for each in clusters}
    for each in clusters:
        below.setdefault(each.parent if each.parent in numbers else None, []).append(each)
    rows: list[tuple[Cluster, int]] = []
    pending = [(each, 0) for each in reversed(below.get(None, []))]
    while pending:
        each, depth = pending.pop()
        children = below.get(each.number, [])
        if len(children) != 1:
            rows.append((each, depth))
            depth += 1
        pending += [(child, depth) for child in reversed(children)]
    return rows


@dataclass(frozen=True, slots=True)
class Clustering:
    """The clusters of a collection's live generation."""

    collection: str
    generation: int
    method: str
    parameters: Mapping[str, JsonValue]  # what was used, and chosen by which criterion
    clusters: tuple[Cluster, ...]  # by level and falling size
    passages: int  # that were looked at and are still there
    outliers: int  # of these, those in no cluster
    newer: int  # passages that came since: in no cluster yet
    movement: Movement | None  # what became of the clusters before; None: there were none
    created_at: str
    saved: bool
    members: Members = field(repr=False, compare=False)  # of level 0
    notes: tuple[str, ...] = ()

    def report(self) -> "ClusteringReport":
        """What there is to say beside the clusters."""
        same = {each.name: getattr(self, each.name) for each in fields(ClusteringReport)}
        return ClusteringReport(**{**same, "clusters": sum(each.level == 0 for each in self.clusters)})


@dataclass(frozen=True, slots=True)
class ClusteringReport(Report):
    """A clustering without its clusters, which are reports of their own."""

    REPORT: ClassVar = "clustering"

    collection: str
    generation: int
    method: str
    parameters: Mapping[str, JsonValue]
    clusters: int  # of level 0
    passages: int  # the rest as in `Clustering`
    outliers: int
    newer: int
    movement: Movement | None
    created_at: str
    saved: bool
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """See `Report`."""
        moved = None if self.movement is None else self.movement.to_json()
        return {**Report.to_json(self), "movement": moved}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "ClusteringReport":
        """See `Report`."""
        moved = None if row["movement"] is None else Movement.from_json(row["movement"])
        return replace(cast("ClusteringReport", of_json(cls, {**row, "movement": None})), movement=moved)
