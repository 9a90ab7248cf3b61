"""The clusters that a collection had before: new ones keep their numbers, and what moved is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import ClusteringRow, ClusterRow
from nearsay.indexer.clusters.matching import Match, match, movement
from nearsay.indexer.neighbours.points import Points

__all__ = ["Compared", "Earlier", "compare", "numbered", "read_earlier", "report_of"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The clustering that new clusters are compared with."""

    row: ClusteringRow
    clusters: list[ClusterRow]
    ids: NDArray[np.int64]
    numbers: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two clusterings over the passages that both looked at."""

    old: NDArray[np.int32]  # (n,) each passage's place among the old clusters of level 0, -1 = in none
    new: NDArray[np.int32]  # (n,) the same among the new ones
    numbers: list[list[int]]  # of the old clusters by place, of each level
    matches: list[tuple[Match, ...]]


def read_earlier(connection: sa.Connection, collection_id: int) -> Earlier | None:
    """The live generation's clustering, else the one that was made last; None if there was none.

    After a rollback the live one's is not the last, but it is the one that is seen and renamed.
    """
    row = clusterings.of_live(connection, collection_id) or clusterings.latest(connection, collection_id)
    if row is None:
        return None
    ids, numbers = clusterings.members(connection, row.id)
    return Earlier(row, clusterings.clusters_of(connection, row.id), ids, numbers)


def compare(before: Earlier, points: Points, levels: Sequence[NDArray[np.int32]]) -> Compared:
    """Pair the clusters of each level with the earlier ones, by passages that both clusterings looked at.

    levels: (n,) the new labels of the points, by level
    """
    shared = points.ids <= before.row.through
    ids = points.ids[shared]
    at = np.minimum(np.searchsorted(before.ids, ids), max(before.ids.size - 1, 0))
    had = before.ids[at] == ids if before.ids.size else np.zeros(ids.size, dtype=np.bool_)
    own = np.where(had, before.numbers[at], 0) if before.ids.size else np.zeros(ids.size, dtype=np.int32)
    parents = {each.number: each.parent or 0 for each in before.clusters}
    numbers: list[list[int]] = []
    matches: list[tuple[Match, ...]] = []
    lowest = _places(own, [each.number for each in before.clusters if each.level == 0])
    for level, labels in enumerate(levels):
        of_level = [each.number for each in before.clusters if each.level == level]
        numbers.append(of_level)
        matches.append(match(_places(own, of_level), labels[shared]))
        own = _mapped(own, parents)
    return Compared(lowest, levels[0][shared], numbers, matches)


def _places(numbers: NDArray[np.int32], of_level: list[int]) -> NDArray[np.int32]:
    table = np.full(max([0, *of_level, int(numbers.max(initial=0))]) + 1, -1, dtype=np.int32)
    table[of_level] = np.arange(len(of_level), dtype=np.int32)
    return table[numbers]


def _mapped(numbers: NDArray[np.int32], parents: dict[int, int]) -> NDArray[np.int32]:
    table = np.zeros(max([0, *parents, int(numbers.max(initial=0))]) + 1, dtype=np.int32)
    for number, parent in parents.items():
        table[number] = parent
    return table[numbers]


def numbered(
    connection: sa.Connection, collection_id: int, sizes: Sequence[int], compared: Compared | None
) -> list[list[int]]:
    """The numbers of so many clusters a level: matched ones keep theirs, the others get some never used."""
    numbers: list[list[int]] = []
    for level, size in enumerate(sizes):
        kept: dict[int, int] = {}
        if compared is not None:
            known = compared.numbers[level]
            kept = {each.after: known[each.before] for each in compared.matches[level]}
        lacking = size - len(kept)
        first = clusterings.take_cluster_numbers(connection, collection_id, lacking)
        fresh = iter(range(first, first + lacking))
        numbers.append([kept[place] if place in kept else next(fresh) for place in range(size)])
    return numbers


def report_of(before: Earlier | None, compared: Compared | None, numbers: Sequence[int]) -> dict[str, Any]:
    """What became of the earlier clusters of level 0, as JSON; numbers: of the new ones by place."""
    if before is None or compared is None:
        return {}
    of_level = compared.numbers[0]
    moved = movement(compared.old, compared.new, of_level, numbers, compared.matches[0])
    told: dict[str, Any] = {"method": before.row.method, "generation": before.row.generation}
    told["created_at"] = before.row.created_at
    names = {str(each.number): each.name for each in before.clusters if each.number in moved.gone}
    return {"before": told, "movement": moved.to_json(), "gone": names}
