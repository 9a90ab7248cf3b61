"""Progress on standard error: done, rate, time left."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from nearsay.indexer.progress import Progress

__all__ = ["ProgressBar"]

_SECONDS_BETWEEN_LINES = 10.0


class ProgressBar:
    """A listener that draws a bar with tqdm on a terminal, and writes a line every ten seconds elsewhere."""

    def __init__(self, what: str, *, unit: str = "passages") -> None:
        """`what`: the work, in a word; `unit`: what is counted. Nothing is drawn before the first is done."""
        from tqdm import tqdm

        self._what = what
        self._unit = unit
        self._terminal = sys.stderr.isatty()
        self._bar = tqdm(
            desc=what, unit=f" {unit}", dynamic_ncols=True, delay=0.5, disable=not self._terminal
        )
        self._begun = self._said = time.monotonic()

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
        total = None if progress.total is None else max(progress.done, progress.total)
        if self._terminal:
            self._bar.total = total
            self._bar.update(progress.done - self._bar.n)
        elif time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            click.echo(self._line(progress.done, total), err=True)

    def _line(self, done: int, total: int | None) -> str:
        rate = done / (time.monotonic() - self._begun)
        if not total:
            return f"{self._what}: {done:,} {self._unit}, {rate:,.0f} a second"
        left = (total - done) / rate if rate else 0.0
        return (
            f"{self._what}: {done:,} of about {total:,} {self._unit}, {rate:,.0f} a second, "
            f"{int(left) // 60}:{int(left) % 60:02} left"
        )
