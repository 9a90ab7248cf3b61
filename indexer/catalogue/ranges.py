"""The passages that have a vector in a generation, as a set of ranges of their numbers.

Contiguous ranges from the first passage on are one number, the generation's watermark (`embedded_through`);
each range above it is a row. A range is committed in the same transaction as its segment, so if two processes
embed the same passages, the second is refused and its file is an orphan.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import count_of, highest
from nearsay.indexer.catalogue.generations import GenerationRow, row_of
from nearsay.indexer.catalogue.tables import embedded_ranges, generations, passages
from nearsay.indexer.vectors.errors import LostLockError


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Consecutive passage numbers, both ends included."""

    first: int
    last: int


def embedded(connection: sa.Connection, generation: GenerationRow) -> list[Range]:
    """The ranges whose passages have a vector, ascending; the first one is that of the watermark."""
    rows = connection.execute(
        sa.select(embedded_ranges.c.first_passage, embedded_ranges.c.last_passage)
        .where(_of(generation))
        .order_by(embedded_ranges.c.first_passage)
    )
    above = [Range(first, last) for first, last in rows]
    return [Range(0, _watermark(connection, generation)), *above]


def covered(ranges: Sequence[Range], numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the passages are in one of the ranges; `ranges` ascending, `numbers` of any shape."""
    firsts = np.array([each.first for each in ranges], dtype=np.int64)
    lasts = np.array([each.last for each in ranges], dtype=np.int64)
    at = np.searchsorted(firsts, numbers, side="right") - 1
    inside: NDArray[np.bool_] = (at >= 0) & (numbers <= lasts[np.maximum(at, 0)])
    return inside


def waiting(connection: sa.Connection, generation: GenerationRow, size: int | None = None) -> list[Range]:
    """The gaps between the ranges up to the newest passage, split into ranges of `size` numbers.

    A gap may contain no passage, if its documents were removed.
    """
    last = highest(connection, passages.c.number, passages.c.collection_id == generation.collection_id)
    there = embedded(connection, generation)
    ends = [*(each.first - 1 for each in there[1:]), last]
    gaps = [Range(each.last + 1, end) for each, end in zip(there, ends, strict=True) if each.last < end]
    if size is None:
        return gaps
    return [
        Range(first, min(first + size - 1, gap.last))
        for gap in gaps
        for first in range(gap.first, gap.last + 1, size)
    ]


def enter(connection: sa.Connection, generation: GenerationRow, new: Range, truncated: int) -> None:
    """Record that the passages of a range have vectors, and how many texts were truncated.

    Raises LostLockError if some of them had one already, because they were then embedded twice.
    """
    # Locks the generation's row until the transaction ends: who enters a range at the same time comes later.
    more = {"truncated": generations.c.truncated + truncated}
    connection.execute(generations.update().where(row_of(generation)).values(more))
    before = _watermark(connection, generation)
    overlapping = (embedded_ranges.c.first_passage <= new.last) & (
        embedded_ranges.c.last_passage >= new.first
    )
    taken = sa.select(sa.exists().where(_of(generation), overlapping))
    if new.first <= before or connection.execute(taken).scalar_one():
        raise LostLockError(
            f"passages {new.first:,} to {new.last:,} were embedded by another writer, too, so these vectors "
            "were not kept. Run the same command again"
        )
    if _any_between(connection, generation, before, new.first):
        values = {"first_passage": new.first, "last_passage": new.last}
        connection.execute(embedded_ranges.insert().values(_key(generation) | values))
        return
    _rise(connection, generation, new.last)


def fill(connection: sa.Connection, generation: GenerationRow, through: int) -> None:
    """Record that all passages up to a number have vectors."""
    inside = embedded_ranges.c.first_passage <= through
    connection.execute(embedded_ranges.delete().where(_of(generation), inside))
    _rise(connection, generation, through)


def unembedded(connection: sa.Connection, generation: GenerationRow) -> int:
    """Number of passages without a vector in the generation."""
    inside = sa.exists().where(
        _of(generation),
        passages.c.number.between(embedded_ranges.c.first_passage, embedded_ranges.c.last_passage),
    )
    above = passages.c.number > _watermark(connection, generation)
    of_it = passages.c.collection_id == generation.collection_id
    return count_of(connection, passages, of_it, above, ~inside)


def _rise(connection: sa.Connection, generation: GenerationRow, through: int) -> None:
    """Raise the watermark to a passage and over the next ranges, up to a gap that contains a passage."""
    for each in embedded(connection, generation)[1:]:
        if _any_between(connection, generation, through, each.first):
            break
        through = each.last
        first = embedded_ranges.c.first_passage == each.first
        connection.execute(embedded_ranges.delete().where(_of(generation), first))
    connection.execute(generations.update().where(row_of(generation)).values(embedded_through=through))


def _any_between(connection: sa.Connection, generation: GenerationRow, after: int, before: int) -> bool:
    if before <= after + 1:
        return False
    between = (passages.c.number > after) & (passages.c.number < before)
    found = sa.exists().where(passages.c.collection_id == generation.collection_id, between)
    return bool(connection.execute(sa.select(found)).scalar_one())


def _watermark(connection: sa.Connection, generation: GenerationRow) -> int:
    mark: int = connection.execute(
        sa.select(generations.c.embedded_through).where(row_of(generation))
    ).scalar_one()
    return mark


def _key(generation: GenerationRow) -> dict[str, int]:
    return {"collection_id": generation.collection_id, "generation": generation.number}


def _of(generation: GenerationRow) -> sa.ColumnElement[bool]:
    return sa.and_(*(embedded_ranges.c[name] == value for name, value in _key(generation).items()))
