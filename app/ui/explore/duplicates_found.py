"""Groups of near-duplicate documents for the page, by their ids, and what of them can go."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearsay.indexer import Collection

__all__ = ["Groups", "groups_at_once", "groups_from_output", "left_over", "still_there", "superfluous"]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups that were found, the largest first."""

    groups: tuple[tuple[str, ...], ...]  # ids of documents, the representative first
    notes: tuple[str, ...] = ()  # plain sentences


def groups_at_once(collection: Collection, threshold: float, link: str) -> Groups:
    """Compare the documents now."""
    found = collection.explore.duplicates(threshold, link=link)
    return Groups(tuple(found.ids()), found.notes)


def groups_from_output(rows: Iterable[Any]) -> Groups:
    """From what `nearsay explore duplicates --json` printed."""
    return Groups(tuple(_ids(row) for row in rows if isinstance(row, Mapping)))


def still_there(collection: Collection, found: Groups, since: str | None) -> Groups:
    """The groups without documents that are gone or were written since, and without those left alone.

    since: when they were compared (ISO 8601); None = they are about the collection as it is
    """
    if since is None:
        return found
    every = [id_ for group in found.groups for id_ in group]
    there = collection.explore.untouched(every, since)
    kept = (tuple(id_ for id_ in group if id_ in there) for group in found.groups)
    return Groups(tuple(group for group in kept if len(group) > 1), found.notes)


def left_over(found: Groups, apart: Ids[frozenset[str]]) -> list[tuple[str, ...]]:
    """The groups but those that somebody said are no duplicates."""
    return [group for group in found.groups if frozenset(group) not in apart]


def superfluous(groups: Sequence[tuple[str, ...]]) -> list[str]:
    """The documents that go if the representative of each group stays."""
    return [id_ for group in groups for id_ in group[1:]]


def _ids(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(row["representative"]["id"]), *(str(other["id"]) for other in row["others"]))
