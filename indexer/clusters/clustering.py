"""The options of a clustering, its result, and the movement since an earlier one."""

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
    """The clustering algorithm."""

    GRAPH = "graph"  # communities of the neighbour graph, by modularity
    KMEANS = "kmeans"  # a given number of round clusters; without outliers


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a clustering; None = the method's default or choice."""

    method: ClusterMethod = ClusterMethod.GRAPH
    clusters: int | None = None  # number of clusters (kmeans); None: chosen by a criterion
    resolution: float | None = None  # of modularity (graph): higher gives more clusters; None: chosen
    # Passages; those of a smaller cluster are outliers. None: 5 (graph; for fewer than 50 passages a tenth of
    # them, at least 2), 1 (kmeans)
    least_size: int | None = None
    assign_outliers: bool = False  # assign each outlier to the cluster with the nearest centre

    def __post_init__(self) -> None:
        """Raise BadInputError for an invalid value; convert names."""
        if self.method not in list(ClusterMethod):
            raise BadInputError(
                f"method = {self.method!r} is not one of {', '.join(ClusterMethod)}. Give one of them"
            )
        object.__setattr__(self, "method", ClusterMethod(self.method))
        for name, method in _ONLY.items():
            if getattr(self, name) is not None and self.method != method:
                raise BadInputError(
                    f"{name} = {getattr(self, name)} is not an option of the method {self.method}. "
                    f"Omit it, or choose the method {method}"
                )
        if self.clusters is not None and self.clusters < 1:
            raise BadInputError(f"clusters = {self.clusters}. Give a number of at least 1")
        if self.resolution is not None and not 0 < self.resolution <= 1000:
            raise BadInputError(f"resolution = {self.resolution}. Give a number above 0 and at most 1000")
        if self.least_size is not None and self.least_size < 1:
            raise BadInputError(f"least_size = {self.least_size}. Give a number of passages, at least 1")


LEAST_OVERLAP = 0.2  # Jaccard; below it a cluster counts as new
_PART = 0.2  # share of a cluster's passages that counts as a part in a split or a merger
_MOST_MOVES = 10


@dataclass(frozen=True, slots=True)
class Match:
    """A new cluster that continues an old one."""

    before: int  # index among the old clusters
    after: int  # index among the new clusters
    overlap: float  # Jaccard index of their passages


@dataclass(frozen=True, slots=True)
class Move:
    """Passages that moved from one cluster to another."""

    source: int | None  # the old cluster's number; None: outliers
    target: int | None
    passages: int


@dataclass(frozen=True, slots=True)
class Movement:
    """The changes since the previous clustering."""

    shared: int  # passages in both clusterings
    moved: int  # of these, how many are in a cluster with another number
    kept: Mapping[int, float]  # numbers that stayed, and the Jaccard overlap
    born: tuple[int, ...]
    gone: tuple[int, ...]
    split: Mapping[int, tuple[int, ...]]  # old clusters, and the new ones that hold large parts of them
    merged: Mapping[int, tuple[int, ...]]  # new clusters, and the old ones that are large parts of them
    moves: tuple[Move, ...]  # the largest, at most ten

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
        """The inverse of `to_json`."""
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
        """As sentences.

        names: of the new clusters, by number
        """

        def called(number: int | None) -> str:
            if number is None:
                return "no cluster"
            return f"“{names[number]}” ({number})" if number in names else f"cluster {number}"

        def all_of(numbers: Iterable[int]) -> str:
            return " and ".join(map(called, numbers))

        counts = f"{counted(len(self.kept), 'cluster')} kept, {len(self.born):,} new, {len(self.gone):,} gone"
        lines = [f"{counts}; {self.moved:,} of {counted(self.shared, 'passage')} moved"]
        lines += [f"{called(one)} was split into {all_of(parts)}" for one, parts in self.split.items()]
        lines += [f"{called(one)} was merged from {all_of(parts)}" for one, parts in self.merged.items()]
        lines += [
            f"{counted(each.passages, 'passage')} moved from {called(each.source)} to {called(each.target)}"
            for each in self.moves[:5]
        ]
        return lines


def match(before: NDArray[np.int32], after: NDArray[np.int32]) -> tuple[Match, ...]:
    """Match new to old clusters one to one with the highest total Jaccard overlap; by index of the new ones.

    before, after: (n,) each passage's index among the old and the new clusters, -1 = outlier

    Each connected group of overlapping clusters is an assignment problem of its own (Kuhn;
    `scipy.optimize.linear_sum_assignment`). Overlaps below LEAST_OVERLAP are not matched.
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
        for i, j in zip(*linear_sum_assignment(table, maximize=True), strict=True):
            if table[i, j] > 0:
                found.append(Match(int(rows[i]), int(columns[j]), float(table[i, j])))
    return tuple(sorted(found, key=lambda each: each.after))


def movement(
    before: NDArray[np.int32],
    after: NDArray[np.int32],
    numbers_before: Sequence[int],
    numbers_after: Sequence[int],
    matches: Sequence[Match],
) -> Movement:
    """The changes from the old clusters to the new ones, by their numbers.

    before, after: as in `match`
    numbers_before, numbers_after: the clusters' numbers by index
    """
    old, new, counts = _counts(before, after)
    was = np.array([*numbers_before, 0])[old]  # index -1 is the last: outliers
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
    """The pairs of old and new indices that share passages, and the number of these."""
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
    id: str  # of its document
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Cluster(Report):
    """A cluster of similar passages."""

    REPORT: ClassVar = "cluster"

    number: int  # stable across clusterings
    name: str
    named_by_user: bool
    size: int  # current passages
    cohesion: float  # mean cosine to the centre
    silhouette: float | None  # simplified, between -1 and 1; None if there is no other cluster
    parent: int | None  # the cluster's number in the level above
    level: int  # 0: a cluster of passages; 1 and above: a cluster of clusters
    terms: tuple[str, ...]  # that distinguish it from the others, best first
    central: tuple[CentralPassage, ...]  # the passages nearest to the centre, without near-duplicates


def clusters_as_tree(clusters: Sequence[Cluster]) -> list[tuple[Cluster, int]]:
    """Each cluster with its depth, after its parent; parents of a single cluster are omitted."""
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
    parameters: Mapping[str, JsonValue]  # those used, and the criterion that chose them
    clusters: tuple[Cluster, ...]  # by level and descending size
    passages: int  # existing passages that were clustered, outliers included
    outliers: int  # of these, those in no cluster
    newer: int  # passages added after the clustering
    movement: Movement | None  # changes since the previous clustering; None if there was none
    created_at: str
    saved: bool
    members: Members = field(repr=False, compare=False)  # of level 0
    notes: tuple[str, ...] = ()

    def report(self) -> "ClusteringReport":
        """The clustering without its clusters."""
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
    passages: int  # this and the rest as in `Clustering`
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
