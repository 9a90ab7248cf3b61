"""What is said of clusters, in plain sentences; plain text, for `as_markdown`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nearsay.data.quantity import counted
from nearsay.indexer.clusters.clustering import Cluster, Clustering
from nearsay.indexer.clusters.matching import Movement
from nearsay.indexer.clusters.options import ClusterMethod

__all__ = ["METHODS", "ORDERS", "beneath", "listed", "members_of", "moved_words", "ordered", "share_words"]

_MOVES = 5  # that are told

METHODS: Final[dict[ClusterMethod, str]] = {
    ClusterMethod.GRAPH: (
        "Communities of passages that are each other's neighbours. Finds by itself how many there are, and "
        "groups of clusters above them."
    ),
    ClusterMethod.KMEANS: "As many round clusters as you say; every passage is in one.",
}

ORDERS: Final = ("size", "cohesion", "silhouette", "name", "number")


def ordered(
    clusters: Sequence[Cluster], *, level: int = 0, order: str = "size", wanted: str = ""
) -> list[Cluster]:
    """The clusters of a level, best first; wanted: only those that have it in their name or terms."""
    low = wanted.strip().casefold()
    shown = [
        each
        for each in clusters
        if each.level == level and (not low or low in " ".join((each.name, *each.terms)).casefold())
    ]
    if order == "name":
        return sorted(shown, key=lambda each: (each.name.casefold(), each.number))
    if order == "number":
        return sorted(shown, key=lambda each: each.number)
    return sorted(shown, key=lambda each: (-_value(each, order), each.number))


def _value(each: Cluster, name: str) -> float:
    found = getattr(each, name)
    return -2.0 if found is None else float(found)


def share_words(each: Cluster, everything: int) -> str:
    """How large a cluster is and how tight: "412 passages (1.6%), cohesion 0.62, silhouette 0.05"."""
    parts = [
        f"{counted(each.size, 'passage')} ({each.size / max(everything, 1):.1%})",
        f"cohesion {each.cohesion:.2f}",
    ]
    if each.silhouette is not None:
        parts.append(f"silhouette {each.silhouette:.2f}")
    return ", ".join(parts)


def beneath(clusters: Sequence[Cluster], number: int) -> list[Cluster]:
    """The clusters that belong to one of a higher level, the largest first."""
    return sorted(
        (each for each in clusters if each.parent == number), key=lambda each: (-each.size, each.number)
    )


def members_of(clusters: Sequence[Cluster], number: int) -> set[int]:
    """The clusters of the lowest level within one: itself, if it is of that level."""
    found, pending = set(), [number]
    level = {each.number: each.level for each in clusters}
    while pending:
        at = pending.pop()
        if level.get(at) == 0:
            found.add(at)
        pending += [each.number for each in beneath(clusters, at)]
    return found


def moved_words(found: Clustering) -> list[str]:
    """What became of the clusters since the clustering before; nothing where there was none."""
    moved = found.movement
    if moved is None:
        return []
    names = {each.number: each.name for each in found.clusters}
    counts = f"{counted(len(moved.kept), 'cluster')} kept, {len(moved.born):,} new, {len(moved.gone):,} gone"
    said = [f"{counts}; {moved.moved:,} of {counted(moved.shared, 'passage')} moved."]
    said += [
        f"{_named(one, names)} split into {listed(_named(part, names) for part in parts)}."
        for one, parts in moved.split.items()
    ]
    said += [
        f"{_named(one, names)} was merged from {listed(_named(part, names) for part in parts)}."
        for one, parts in moved.merged.items()
    ]
    return said + _moves(moved, names)


def _moves(moved: Movement, names: Mapping[int, str]) -> list[str]:
    return [
        f"{counted(each.passages, 'passage')} went from {_named(each.source, names)} "
        f"to {_named(each.target, names)}."
        for each in moved.moves[:_MOVES]
    ]


def _named(number: int | None, names: Mapping[int, str]) -> str:
    if number is None:
        return "no cluster"
    return f"“{names[number]}” ({number})" if number in names else f"cluster {number}"


def listed(names: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
