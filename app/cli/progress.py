"""Progress of a command on standard error and for listeners, and an orderly stop at Ctrl-C or SIGTERM.

A background job is such a listener, so that a page can show its progress.
"""

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

ProgressListener: TypeAlias = Callable[["JobProgress"], None]
NoteListener: TypeAlias = Callable[[str], None]

_LISTENER: ContextVar[ProgressListener | None] = ContextVar("nearsay_progress_listener", default=None)
_NOTE_LISTENER: ContextVar[NoteListener | None] = ContextVar("nearsay_note_listener", default=None)


@contextmanager
def reporting_to(listener: ProgressListener, note_listener: NoteListener | None = None) -> Iterator[None]:
    """Report progress of bars and lines created in this block to `listener`, and notes to `note_listener`."""
    before, notes_before = _LISTENER.set(listener), _NOTE_LISTENER.set(note_listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)
        _NOTE_LISTENER.reset(notes_before)


def progress_listener() -> ProgressListener | None:
    """Return the listener for progress, if there is one."""
    return _LISTENER.get()


def note_listener() -> NoteListener | None:
    """Return the listener for notes, if there is one."""
    return _NOTE_LISTENER.get()


_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_DRAWINGS = 0.2
_USUAL_COLUMNS = 80  # of a terminal of unknown width
_BAR = 10  # columns


class _Line:
    """Updates one line on a terminal; writes a line every ten seconds elsewhere."""

    _latest: "JobProgress"  # the last one

    def __init__(self) -> None:
        """Draws nothing yet."""
        self._terminal = sys.stderr.isatty()
        self._listener = progress_listener()
        self._drawn_at = time.monotonic()
        self._drawn = False  # the cursor is at the end of a line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Draw the current state and go to the next line."""
        if self._drawn:
            self._draw()
            click.echo(err=True)
            self._drawn = False

    def _show(self, look: "JobProgress") -> None:
        """Call the listener, if there is one, and redraw if it is time to."""
        self._latest = look
        if self._listener is not None:
            self._listener(look)
        if time.monotonic() - self._drawn_at >= (
            _SECONDS_BETWEEN_DRAWINGS if self._terminal else _SECONDS_BETWEEN_LINES
        ):
            self._draw()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        if not self._terminal:
            click.echo(self._latest.words(), err=True)
            return
        share, room = self._latest.share, _columns() - 1  # a line that wraps cannot be redrawn
        bar = "" if share is None else f"{'█' * round(_BAR * share):░<{_BAR}} "
        click.echo("\r\x1b[K" + (bar + self._latest.words(room - len(bar)))[:room], err=True, nl=False)
        self._drawn = True


class ProgressBar(_Line):
    """Shows the progress of work that is counted."""

    def __init__(self, what: str, *, unit: str = "passages") -> None:
        """`what`: the work in a word; `unit`: what is counted."""
        super().__init__()
        self._made_for = self._what, self._unit = what, unit
        self._begun = self._drawn_at
        self.at(0)

    def __call__(self, progress: "Progress") -> None:
        """Show the progress."""
        self.at(progress.done, progress.total, doing=progress.doing, unit=progress.unit)

    def at(self, done: int, total: int | None = None, *, doing: str = "", unit: str = "") -> None:
        """Show how much is done.

        total:       an estimate, which may be exceeded
        doing, unit: if they differ from those of the bar
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
        """Start another kind of work; shown at once, since its first step may take long."""
        self.close()
        self._what, self._unit = what, unit
        self._begun = self._drawn_at = time.monotonic()
        if self._terminal:
            self._drawn_at -= _SECONDS_BETWEEN_DRAWINGS
        else:
            click.echo(f"{what} …", err=True)


class TrainingLine(_Line):
    """Shows the progress of a training."""

    def __init__(self, before: ProgressBar | None = None) -> None:
        """`before`: progress bar of the preparation, which the first step closes."""
        super().__init__()
        self._before = before
        self._contended = False
        if self._listener is not None and before is None:
            from nearsay.app.jobs import JobProgress

            self._listener(JobProgress("preparing", "steps", 0, None, None, None, 0.0, None))

    def __call__(self, progress: "TrainingProgress") -> None:
        """Show the progress; a warning that other programs use the cores gets its own line."""
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
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C or SIGTERM stop the run after its current step, and a second one at once.

    Yields a function that returns whether a stop was requested.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        click.echo("\nstopping after this step; press again to stop at once", err=True)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interruptible(
    listener: Callable[[int, int | None], None], stop: Callable[[], bool] | None
) -> Callable[[int, int | None], None]:
    """Make a listener raise KeyboardInterrupt once a stop was requested."""

    def listen(done: int, total: int | None) -> None:
        listener(done, total)
        if stop is not None and stop():
            raise KeyboardInterrupt

    return listen
