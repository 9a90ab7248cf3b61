"""What is said of progress where no terminal is."""

import pytest
from naming import Naming

from nearsay.app.cli.progress import ProgressBar
from nearsay.indexer.vectors.progress import Progress


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
        assert line.splitlines() == [Naming("measuring kinds of index", 2, "8 candidates", "10.0 s", "1:00")]
