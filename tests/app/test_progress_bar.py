"""What is said of progress, at a terminal and where there is none."""

import os
import sys

import pytest
from naming import Naming

from nearsay.app.cli.progress import ProgressBar, TrainingLine
from nearsay.indexer.vectors.progress import Progress
from nearsay.training.run.training_progress import TrainingProgress


def test_nothing_is_counted_before_the_first_is_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with ProgressBar("mapping") as bar:
        now = 120.0
        bar(Progress(0, None))
        assert capsys.readouterr().err == "mapping …\n"


def test_another_piece_of_work_is_said_at_once_and_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with ProgressBar("embedding") as bar:
        bar(Progress(10, 20))
        assert capsys.readouterr().err == ""
        bar(Progress(0, 8, "measuring kinds of index", "candidates"))
        bar(Progress(1, 8, "measuring kinds of index", "candidates"))
        assert capsys.readouterr().err == "measuring kinds of index …\n"
        now = 120.0
        bar(Progress(2, 8, "measuring kinds of index", "candidates"))
        line = capsys.readouterr().err
        assert line.splitlines() == [Naming("measuring kinds of index", 2, "8 candidates", "10.0 s", "1 min")]


_BAR, _STEP, _LOSS = "█░░░░░░░░░", "training: 1,234 of 10,000 steps (12%)", "loss 2.345, mlm accuracy 0.345"
_REST = "nsp accuracy 0.567, dev f1 0.800, 12,346 tokens/s, 34% of peak, 21 a second, 7 min 19 s left"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (250, f"{_BAR} {_STEP}, {_LOSS}, {_REST}"),
        (100, f"{_BAR} {_STEP}, {_LOSS}, 7 min 19 s left"),
        (60, f"{_BAR} {_STEP}"),
        (8, _BAR[:7]),
    ],
)
def test_the_line_of_a_training_is_never_wider_than_the_terminal(
    columns: int, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    at_a_terminal(monkeypatch, columns)
    metrics = {"loss": 2.345, "mlm_accuracy": 0.345, "nsp_accuracy": 0.567}
    with TrainingLine() as line:
        now = 1.0
        line(TrainingProgress(1234, 10_000, 0.12, 60.0, 439.0, metrics, 12_345.6, 0.34, {"f1": 0.8}))
        drawn = capsys.readouterr().err
    assert drawn == f"\r\x1b[K{shown}"  # one that wraps would be drawn anew below itself at each step
    assert len(shown) < columns


def test_a_bar_at_a_terminal_stays_as_its_work_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    at_a_terminal(monkeypatch, 80)
    with ProgressBar("embedding") as bar:
        bar(Progress(1, 4))
        assert capsys.readouterr().err == ""  # what is quick is not worth a line
        now = 1.0
        bar(Progress(2, 4))
        bar(Progress(4, 4))
    *before, last = capsys.readouterr().err.removesuffix("\n").split("\r\x1b[K")
    assert before == ["", Naming("█████░░░░░", "2 of about 4", "50%", "1 s left")]
    assert last == Naming("██████████", "4 of about 4", "100%")


def test_another_piece_of_work_is_drawn_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    at_a_terminal(monkeypatch, 80)
    with ProgressBar("embedding") as bar:
        bar(Progress(0, 8, "measuring", "candidates"))  # whose first step may take long
        assert capsys.readouterr().err == Naming("measuring …")


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Let standard error be a terminal of so many columns."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
