"""Stopping a run without losing it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

__all__ = ["interruptible", "stoppable"]


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C or SIGTERM ask the run to end after what it is at; a second one ends it at once.

    Gives a function that says whether that was asked.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        click.echo("\nstopping after this step; once more stops at once", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruptible(
    listener: Callable[[int, int | None], None], stop: Callable[[], bool]
) -> Callable[[int, int | None], None]:
    """Make a listener end what it listens to, with KeyboardInterrupt, once stopping was asked for."""

    def listen(done: int, total: int | None) -> None:
        listener(done, total)
        if stop():
            raise KeyboardInterrupt

    return listen
