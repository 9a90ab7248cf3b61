"""Progress for others to read: what bars and lines show, told to whoever listens.

A run in the background listens, so that a page can show how far it is. Without a listener nothing happens.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["ProgressHearer", "RunProgress", "heard_by", "hearer"]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """One look at a command that is under way."""

    doing: str  # in a word or two: "embedding", "measuring kinds of index", "training"
    unit: str  # what is counted: "passages", "steps"
    done: int
    total: int | None  # known or estimated; None where nobody knows, and of a training limited by time
    share: float | None  # of what is being done now, from 0 to 1
    rate: float | None  # units a second; None before the first
    seconds: float  # that it has been doing this
    seconds_left: float | None  # at the rate so far
    metrics: Mapping[str, float] = field(default_factory=dict)  # of a training, as of the log's last line
    evaluation: Mapping[str, float] = field(default_factory=dict)  # of a training, the last one
    tokens_per_second: float | None = None  # of a training
    at: float = field(default_factory=time.time)  # when this was seen, in seconds since 1970


ProgressHearer: TypeAlias = Callable[[RunProgress], None]

_HEARER: ContextVar[ProgressHearer | None] = ContextVar("nearsay_progress_hearer", default=None)


@contextmanager
def heard_by(hearer: ProgressHearer) -> Iterator[None]:
    """Tell `hearer` of the progress of every bar and line that is made in this block."""
    before = _HEARER.set(hearer)
    try:
        yield
    finally:
        _HEARER.reset(before)


def hearer() -> ProgressHearer | None:
    """Who is to be told of progress, if anyone is."""
    return _HEARER.get()
