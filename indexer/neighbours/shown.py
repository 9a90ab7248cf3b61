"""The passages that an exploration shows, with what has to be said of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.snapshots.snapshot import Snapshot

__all__ = ["Near", "Shown", "ShownPassage", "checked_count", "nothing_there", "removed_meanwhile", "rows_of"]

_MOST = 10_000  # passages that can be asked for

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """A passage with its document, without a query that it answers."""

    rank: int  # from 1
    score: float  # what it was ranked by
    id: str  # of the document
    title: str
    text: str  # of the passage
    metadata: Mapping[str, JsonValue]
    passage: int  # 0-based place of the passage in its document

    @classmethod
    def of(cls, row: PassageRow, rank: int, score: float, **more: Any) -> Self:  # noqa: ANN401
        """A row of the catalogue as it is shown; more: the fields that a kind of its own has."""
        return cls(rank, score, row.document_id, row.title, row.text, row.metadata, row.ordinal, **more)


@dataclass(frozen=True, slots=True)
class Near:
    """The passage that is nearest to another."""

    id: str  # of its document
    title: str
    text: str
    cosine: float  # between the two


@dataclass(frozen=True, slots=True)
class Shown(Sequence[_Item], Generic[_Item]):
    """What was found, in order, and what has to be said about it."""

    items: tuple[_Item, ...]
    looked_at: int  # passages
    notes: tuple[str, ...] = ()  # plain sentences

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        return self.items[at]

    def __len__(self) -> int:
        return len(self.items)


def checked_count(count: int) -> int:
    """How many are asked for; BadInputError for none, or too many."""
    if not 1 <= count <= _MOST:
        raise BadInputError(f"count is {count}. Ask for 1 to {_MOST} passages")
    return count


def nothing_there(explored: Explored, where: Where | None) -> str:
    """Why there is no passage to look at: the filter, or that the collection holds none."""
    if where is not None:
        return "nothing found: no passage passes the filter"
    name = explored.name
    return f"nothing found: '{name}' holds no passages. Add some: nearsay documents add {name} FILE"


def removed_meanwhile(found: int, shown: int) -> tuple[str, ...]:
    """What has to be said where passages that were found are no longer there to be shown."""
    return (f"{found - shown} of the {found} found were removed meanwhile",) if shown < found else ()


def rows_of(
    explored: Explored, snapshot: Snapshot, numbers: Iterable[int] | NDArray[np.int64]
) -> dict[int, PassageRow]:
    """The passages of these numbers that are still there."""
    wanted = [int(number) for number in numbers]
    with explored.store.database.reading() as connection:
        return passages.read_passages(connection, snapshot.collection.id, wanted)
