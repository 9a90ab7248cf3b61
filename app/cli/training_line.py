"""A run's progress on standard error."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from nearsay.app.cli.progress_record import RunProgress, hearer

if TYPE_CHECKING:
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.training.run.training_progress import TrainingProgress

__all__ = ["TrainingLine"]

_SECONDS_BETWEEN_LINES = 10.0
_SHOWN = ("loss", "mlm_accuracy", "nsp_accuracy", "accuracy")


class TrainingLine:
    """A listener that keeps one line up to date on a terminal, and writes one every ten seconds elsewhere."""

    def __init__(self, before: "ProgressBar | None" = None) -> None:
        """`before`: the bar of what comes before the training, which its first step closes."""
        self._before = before
        self._terminal = sys.stderr.isatty()
        self._hearer = hearer()
        if self._hearer is not None and before is None:
            self._hearer(RunProgress("preparing", "steps", 0, None, None, None, 0.0, None))
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
            click.echo("\r\x1b[K" + self._line(progress), err=True, nl=False)
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

    def _line(self, progress: "TrainingProgress") -> str:
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
        return ", ".join(parts)


def _look(progress: "TrainingProgress") -> RunProgress:
    return RunProgress(
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
