"""Progress of a command on standard error and for listeners, and an orderly stop at Ctrl-C or SIGTERM.

A job in the background listens, so that a page can show its progress."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import click

if TYPE_CHECKING:
    from nearsay.app.jobs import JobProgress
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.run.training_progress import TrainingProgress

__all__ = [
    "ProgressBar",
    "ProgressHearer",
    "TrainingLine",
    "heard_by",
    "hearer",
    "interruptible",
    "stoppable",
]


ProgressHearer: TypeAlias = Callable[["JobProgress"], None]

_HEARER: ContextVar[ProgressHearer | None] = ContextVar("nearsay_progress_hearer", default=None)


@contextmanager
def heard_by(hearer: ProgressHearer) -> Iterator[None]:
    """Report the progress of every bar and line that is made in this block to `hearer`."""
    before = _HEARER.set(hearer)
    try:
        yield
    finally:
        _HEARER.reset(before)


def hearer() -> ProgressHearer | None:
    """The listener that progress is reported to, if there is one."""
    return _HEARER.get()


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
        """Stop drawing the bar; what was drawn stays."""
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
            click.echo(self._look(progress.done, total).words(), err=True)

    def at(self, done: int, total: int | None = None) -> None:
        """Show how much is done."""
        from nearsay.indexer.vectors.progress import Progress

        self(Progress(done, total))

    def _turn_to(self, what: str, unit: str) -> None:
        """From now on something else is done: said at once, since its first step may take long."""
        self._what, self._unit = what, unit
        self._bar.close()
        self._bar = self._make(desc=what, unit=f" {unit}")
        self._begun = self._said = time.monotonic()
        if not self._terminal:
            click.echo(f"{what} …", err=True)

    def _tell(self, done: int, total: int | None) -> None:
        """Report to the listener, if there is one."""
        if self._hearer is not None:
            self._hearer(self._look(done, total))

    def _look(self, done: int, total: int | None) -> "JobProgress":
        from nearsay.app.jobs import JobProgress

        seconds = time.monotonic() - self._begun
        rate = done / seconds if done and seconds else None
        return JobProgress(
            doing=self._what,
            unit=self._unit,
            done=done,
            total=total,
            share=done / total if total else None,
            rate=rate,
            seconds=seconds,
            seconds_left=(total - done) / rate if total and rate else None,
        )


_USUAL_COLUMNS = 80  # of a terminal that does not say
_SHOWN = ("loss", "mlm_accuracy", "nsp_accuracy", "accuracy")


class TrainingLine:
    """A listener that keeps one line up to date on a terminal, and writes one every ten seconds elsewhere."""

    def __init__(self, before: "ProgressBar | None" = None) -> None:
        """`before`: the bar of what comes before the training, which its first step closes."""
        self._before = before
        self._terminal = sys.stderr.isatty()
        self._hearer = hearer()
        if self._hearer is not None and before is None:
            from nearsay.app.jobs import JobProgress

            self._hearer(JobProgress("preparing", "steps", 0, None, None, None, 0.0, None))
        self._said = time.monotonic()
        self._pending = False
        self._contended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pending:
            click.echo(err=True)

    def __call__(self, progress: "TrainingProgress") -> None:
        """Show one look at the run."""
        if self._before is not None:
            self._before.close()
        if self._hearer is not None:
            self._hearer(_look(progress))
        self._tell_contention(progress)
        since = time.monotonic() - self._said
        if self._terminal and since >= 0.2:
            click.echo("\r\x1b[K" + self._line(progress, _columns() - 1), err=True, nl=False)
            self._pending, self._said = True, time.monotonic()
        elif since >= _SECONDS_BETWEEN_LINES:
            click.echo(self._line(progress), err=True)
            self._said = time.monotonic()

    def _tell_contention(self, progress: "TrainingProgress") -> None:
        """Say on a line of its own that other programs begin to take the cores."""
        began = progress.contention is not None and not self._contended
        self._contended = progress.contention is not None
        if not began:
            return
        if self._pending:
            click.echo(err=True)
            self._pending = False
        click.echo(f"step {progress.step:,}: {progress.contention}", err=True)

    def _line(self, progress: "TrainingProgress", room: int | None = None) -> str:
        """room: characters; what matters least is left out, since a line that wraps cannot be drawn over."""
        of = f" of {progress.steps:,}" if progress.steps else ""
        parts = [f"step {progress.step:,}{of} ({progress.share:.0%})"]
        parts += [
            f"{name.replace('_', ' ')} {progress.metrics[name]:.3f}"
            for name in _SHOWN
            if name in progress.metrics
        ]
        measured = list(progress.evaluation.items())[:1]
        parts += [f"dev {name.replace('_', ' ')} {value:.3f}" for name, value in measured]
        parts.append(f"{progress.tokens_per_second:,.0f} tokens/s")
        if progress.peak_share is not None:
            parts.append(f"{progress.peak_share:.0%} of peak")
        minutes, seconds = divmod(int(progress.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02} left")
        while room is not None and len(parts) > 1 and len(", ".join(parts)) > room:
            del parts[-2 if len(parts) > 2 else -1]  # how far it is, and how long it takes, go last
        return ", ".join(parts)[:room]


def _columns() -> int:
    """How wide the terminal is; standard output may be another place."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _look(progress: "TrainingProgress") -> "JobProgress":
    from nearsay.app.jobs import JobProgress

    return JobProgress(
        doing="training",
        unit="steps",
        done=progress.step,
        total=progress.steps,
        share=progress.share,
        rate=progress.step / progress.seconds if progress.seconds else None,
        seconds=progress.seconds,
        seconds_left=progress.seconds_left,
        metrics=dict(progress.metrics),
        evaluation=dict(progress.evaluation),
        tokens_per_second=progress.tokens_per_second,
    )


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
    listener: Callable[[int, int | None], None], stop: Callable[[], bool] | None
) -> Callable[[int, int | None], None]:
    """Make a listener end what it listens to, with KeyboardInterrupt, once stopping was asked for."""

    def listen(done: int, total: int | None) -> None:
        listener(done, total)
        if stop is not None and stop():
            raise KeyboardInterrupt

    return listen
