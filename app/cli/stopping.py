"""Stopping a run without losing it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

__all__ = ["stoppable"]


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C or SIGTERM ask the run to end after its step; a second one ends it at once.

    Gives a function that says whether that was asked.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        click.echo("\nstopping after this step, with a checkpoint; once more stops at once", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
