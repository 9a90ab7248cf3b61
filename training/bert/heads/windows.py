"""Long texts in overlapping pieces that the model can take."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

__all__ = ["Window", "sliding_windows"]


@dataclass(frozen=True, slots=True)
class Window:
    """A run of units (tokens or words), and those of them that it sees in more context than others do."""

    start: int
    end: int  # one past its last unit
    own_start: int
    own_end: int  # one past; own_start == own_end: another window sees every unit in more context

    def owns(self, unit: int) -> bool:
        """Whether a unit is seen here in more context than in any other window."""
        return self.own_start <= unit < self.own_end


def sliding_windows(sizes: Sequence[int], *, room: int, step: int) -> list[Window]:
    """Cut a row of units into windows that overlap, so that every unit is in one.

    sizes: the tokens of each unit, none larger than `room`
    room:  most tokens of a window
    step:  tokens from the start of one window to the start of the next; a window begins earlier, where that
           would pass units over
    returns: one window at least (an empty one for no units); each unit is owned by exactly one of them, the
             one in which the smaller of the units before it and after it is largest, longer windows being
             preferred by a hundredth of a unit for each unit, and earlier ones after that

    Devlin et al. 2019, run_squad.py (doc_stride and _check_is_max_context),
    https://github.com/google-research/bert/blob/master/run_squad.py
    """
    if room < 1 or step < 1 or any(not 0 <= size <= room for size in sizes):
        raise ValueError(f"room {room} and step {step} must be positive, and no unit larger than the room")
    offsets = [0, *accumulate(sizes)]
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        end = bisect_right(offsets, offsets[start] + room) - 1
        spans.append((start, end))
        if end >= len(sizes):
            break
        following = bisect_right(offsets, offsets[start] + step) - 1
        start = min(max(following, start + 1), end)
    return _owned(spans, len(sizes))


def _owned(spans: Sequence[tuple[int, int]], units: int) -> list[Window]:
    owner = [0] * units
    most = [float("-inf")] * units
    for number, (start, end) in enumerate(spans):
        for unit in range(start, end):
            context = min(unit - start, end - 1 - unit) + 0.01 * (end - start)
            if context > most[unit]:
                owner[unit], most[unit] = number, context
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for unit, number in enumerate(owner):
        first.setdefault(number, unit)
        last[number] = unit + 1
    return [
        Window(start, end, first.get(number, start), last.get(number, start))
        for number, (start, end) in enumerate(spans)
    ]
