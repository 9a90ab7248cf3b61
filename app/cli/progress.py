"""Progress of a command on standard error and for listeners, and an orderly stop at Ctrl-C or SIGTERM.

A job in the background listens, so that a page can show its progress."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Self, TypeAlias

import click

if TYPE_CHECKING:
    from nearsay.app.jobs import JobProgress
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.run.training_progress import TrainingProgress

ProgressHearer: TypeAlias = Callable[["JobProgress"], None]
NoteHearer: TypeAlias = Callable[[str], None]

_HEARER: ContextVar[ProgressHearer | None] = ContextVar("nearsay_progress_hearer", default=None)
_NOTED: ContextVar[NoteHearer | None] = ContextVar("nearsay_note_hearer", default=None)


@contextmanager
def heard_by(hearer: ProgressHearer, noted: NoteHearer | None = None) -> Iterator[None]:
    """Report the progress of every bar and line that is made in this block to `hearer`, notes to `noted`."""
    before, noted_before = _HEARER.set(hearer), _NOTED.set(noted)
    try:
        yield
    finally:
        _HEARER.reset(before)
        _NOTED.reset(noted_before)


def hearer() -> ProgressHearer | None:
    """The listener that progress is reported to, if there is one."""
    return _HEARER.get()


def note_hearer() -> NoteHearer | None:
    """The listener that notes are reported to, if there is one."""
    return _NOTED.get()


_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_DRAWINGS = 0.2
_USUAL_COLUMNS = 80  # of a terminal that does not say
_BAR = 10  # columns


class _Line:
    """Keeps one line up to date on a terminal, and writes one every ten seconds elsewhere."""

    _look: "JobProgress"  # the last one

    def __init__(self) -> None:
        """Nothing is drawn yet."""
        self._terminal = sys.stderr.isatty()
        self._hearer = hearer()
        self._said = time.monotonic()
        self._drawn = False  # the cursor stands behind a line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Go to the next line; what was drawn stays, as it is now."""
        if self._drawn:
            self._draw()
            click.echo(err=True)
            self._drawn = False

    def _show(self, look: "JobProgress") -> None:
        """Tell the listener, if there is one, and draw where it is time to."""
        self._look = look
        if self._hearer is not None:
            self._hearer(look)
        if time.monotonic() - self._said >= (
            _SECONDS_BETWEEN_DRAWINGS if self._terminal else _SECONDS_BETWEEN_LINES
        ):
            self._draw()

    def _draw(self) -> None:
        self._said = time.monotonic()
        if not self._terminal:
            click.echo(self._look.words(), err=True)
            return
        share, room = self._look.share, _columns() - 1  # a line that wraps cannot be drawn over
        bar = "" if share is None else f"{'█' * round(_BAR * share):░<{_BAR}} "
        click.echo("\r\x1b[K" + (bar + self._look.words(room - len(bar)))[:room], err=True, nl=False)
        self._drawn = True


class ProgressBar(_Line):
    """A listener to work that is counted."""

    def __init__(self, what: str, *, unit: str = "passages") -> None:
        """`what`: the work, in a word; `unit`: what is counted."""
        super().__init__()
        self._made_for = self._what, self._unit = what, unit
        self._begun = self._said
        self.at(0)

    def __call__(self, progress: "Progress") -> None:
        """Show one look at the work."""
        self.at(progress.done, progress.total, doing=progress.doing, unit=progress.unit)

    def at(self, done: int, total: int | None = None, *, doing: str = "", unit: str = "") -> None:
        """Show how much is done.

        total:       an estimate, which more may be done than
        doing, unit: where it is other work, or counts something else, than the bar was made for
        """
        from nearsay.app.jobs import JobProgress

        wanted = (doing or self._made_for[0], unit or self._made_for[1])
        if wanted != (self._what, self._unit):
            self._turn_to(*wanted)
        total = None if total is None else max(done, total)
        seconds = time.monotonic() - self._begun
        rate = done / seconds if done and seconds else None
        self._show(
            JobProgress(
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

    def _turn_to(self, what: str, unit: str) -> None:
        """From now on something else is done: said at once, since its first step may take long."""
        self.close()
        self._what, self._unit = what, unit
        self._begun = self._said = time.monotonic()
        if self._terminal:
            self._said -= _SECONDS_BETWEEN_DRAWINGS
        else:
            click.echo(f"{what} …", err=True)


class TrainingLine(_Line):
    """A listener to a training."""

    def __init__(self, before: ProgressBar | None = None) -> None:
        """`before`: the bar of what comes before the training, which its first step closes."""
        super().__init__()
        self._before = before
        self._contended = False
        if self._hearer is not None and before is None:
            from nearsay.app.jobs import JobProgress

            self._hearer(JobProgress("preparing", "steps", 0, None, None, None, 0.0, None))

    def __call__(self, progress: "TrainingProgress") -> None:
        """Show one look at the run; that other programs begin to take the cores is a line of its own."""
        from nearsay.app.jobs import JobProgress

        if self._before is not None:
            self._before.close()
        if progress.contention is not None and not self._contended:
            self.close()
            click.echo(f"step {progress.step:,}: {progress.contention}", err=True)
        self._contended = progress.contention is not None
        self._show(
            JobProgress(
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
                peak_share=progress.peak_share,
            )
        )


def _columns() -> int:
    """How wide the terminal is; standard output may be another place."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


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
