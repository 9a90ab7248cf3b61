"""Progress on standard error: done, rate, time left."""

import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from nearsay.app.cli.progress_record import RunProgress, hearer

if TYPE_CHECKING:
    from nearsay.indexer.vectors.progress import Progress

__all__ = ["ProgressBar"]

_SECONDS_BETWEEN_LINES = 10.0


class ProgressBar:
    """A listener that draws a bar with tqdm on a terminal, and writes a line every ten seconds elsewhere."""

    def __init__(self, what: str, *, unit: str = "passages") -> None:
        """`what`: the work, in a word; `unit`: what is counted. Nothing is drawn before the first is done."""
        from tqdm import tqdm

        self._made_for = self._what, self._unit = what, unit
        self._terminal = sys.stderr.isatty()
        self._hearer = hearer()
        self._make: Callable[..., Any] = partial(
            tqdm, dynamic_ncols=True, delay=0.5, disable=not self._terminal
        )
        self._bar = self._make(desc=what, unit=f" {unit}")
        self._begun = self._said = time.monotonic()
        self._tell(0, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Draw it no more; what stands there stays."""
        self._bar.close()

    def __call__(self, progress: "Progress") -> None:
        """Show one look at the work."""
        wanted = (progress.doing, progress.unit) if progress.doing else self._made_for
        if wanted != (self._what, self._unit):
            self._turn_to(*wanted)
        total = None if progress.total is None else max(progress.done, progress.total)
        self._tell(progress.done, total)
        if self._terminal:
            self._bar.total = total
            self._bar.update(progress.done - self._bar.n)
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            click.echo(self._line(progress.done, total), err=True)

    def _turn_to(self, what: str, unit: str) -> None:
        """From now on something else is done: said at once, since its first step may take long."""
        self._what, self._unit = what, unit
        self._bar.close()
        self._bar = self._make(desc=what, unit=f" {unit}")
        self._begun = self._said = time.monotonic()
        if not self._terminal:
            click.echo(f"{what} …", err=True)

    def _tell(self, done: int, total: int | None) -> None:
        """Tell who listens, if anyone does."""
        if self._hearer is None:
            return
        seconds = time.monotonic() - self._begun
        rate = done / seconds if done and seconds else None
        self._hearer(
            RunProgress(
                doing=self._what,
                unit=self._unit,
                done=done,
                total=total,
                share=done / total if total else None,
                rate=rate,
                seconds=seconds,
                seconds_left=(total - done) / rate if total and rate else None,
            )
        )

    def _line(self, done: int, total: int | None) -> str:
        if not done:
            return f"{self._what} …"
        rate = done / (time.monotonic() - self._begun)
        if not total:
            return f"{self._what}: {done:,} {self._unit}, {rate:,.0f} a second"
        left = (total - done) / rate if rate else 0.0
        pace = f"{1 / rate:,.1f} s each" if 0.0 < rate < 1.0 else f"{rate:,.0f} a second"
        return (
            f"{self._what}: {done:,} of about {total:,} {self._unit}, {pace}, "
            f"{int(left) // 60}:{int(left) % 60:02} left"
        )
