"""A generation's files divided into parts that can be held by different processes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nearsay.indexer.catalogue.generations import SegmentRow
from nearsay.indexer.vectors.segment import SegmentKind

__all__ = ["Part", "part_of", "parted"]


@dataclass(frozen=True, slots=True)
class Part:
    """The passages from a number on, up to the next part's."""

    first: int
    end: int | None  # of the next one; None: the last part, which takes whatever is added

    def has(self, passage: int) -> bool:
        """Whether the passage is one of them."""
        return self.first <= passage and (self.end is None or passage < self.end)


@dataclass(slots=True)
class _Together:
    """Files whose passages overlap: an index and the vectors that it was built over."""

    last: int
    rows: list[SegmentRow]

    @property
    def count(self) -> int:
        return sum(row.count for row in self.rows if row.kind is SegmentKind.VECTORS)


def parted(rows: Iterable[SegmentRow], count: int) -> list[Part]:
    """Up to `count` parts of about as many vectors, cut where no file reaches across."""
    every = _together(rows)
    total, count = sum(each.count for each in every), min(count, len(every))
    firsts: dict[int, int] = {}
    before, at = 0, -1
    for number, each in enumerate(every):
        middle = (2 * before + each.count) * count // (2 * total)
        at = min(max(middle, at, count - (len(every) - number)), at + 1)  # no part stays without any
        firsts.setdefault(at, each.rows[0].first_passage)
        before += each.count
    bounds = sorted(firsts.values())
    bounds[:1] = [1]
    return [Part(first, end) for first, end in zip(bounds, [*bounds[1:], None], strict=True)]


def part_of(rows: Iterable[SegmentRow], part: Part) -> list[SegmentRow]:
    """The files of a part: those that begin in it, with what overlaps them."""
    return [row for each in _together(rows) if part.has(each.rows[0].first_passage) for row in each.rows]


def _together(rows: Iterable[SegmentRow]) -> Sequence[_Together]:
    found: list[_Together] = []
    for row in sorted(rows, key=lambda row: (row.first_passage, row.kind is SegmentKind.VECTORS)):
        if row.kind is SegmentKind.TOKENS or not row.count:
            continue
        if found and row.first_passage <= found[-1].last:
            found[-1].rows.append(row)
            found[-1].last = max(found[-1].last, row.last_passage)
        else:
            found.append(_Together(row.last_passage, [row]))
    return found
