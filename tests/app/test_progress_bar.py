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


_STEP, _LOSS = "step 1,234 of 10,000 (12%)", "loss 2.345, mlm accuracy 0.345"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (200, f"{_STEP}, {_LOSS}, nsp accuracy 0.567, dev f1 0.800, 12,346 tokens/s, 34% of peak, 7:19 left"),
        (80, f"{_STEP}, {_LOSS}, 7:19 left"),
        (30, _STEP),
        (8, "step 1,"),
    ],
)
def test_the_line_of_a_training_is_never_wider_than_the_terminal(
    columns: int, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((columns, 24)))
    metrics = {"loss": 2.345, "mlm_accuracy": 0.345, "nsp_accuracy": 0.567}
    with TrainingLine() as line:
        now = 1.0
        line(TrainingProgress(1234, 10_000, 0.12, 60.0, 439.0, metrics, 12_345.6, 0.34, {"f1": 0.8}))
        drawn = capsys.readouterr().err
    assert drawn == f"\r\x1b[K{shown}"  # one that wraps would be drawn anew below itself at each step
    assert len(shown) < columns
