"""Who listens is told what bars and lines show."""

from dataclasses import replace

import pytest
from naming import Naming

from nearsay.app.cli.progress import ProgressBar, TrainingLine, progress_listener, reporting_to
from nearsay.app.jobs import JobProgress
from nearsay.indexer.vectors.progress import Progress
from nearsay.training.run.training_progress import TrainingProgress


def test_nobody_listens_unless_asked_to_and_only_for_a_block() -> None:
    assert progress_listener() is None
    looks: list[JobProgress] = []
    with reporting_to(looks.append):
        assert progress_listener() == looks.append
    assert progress_listener() is None
    with ProgressBar("embedding") as bar:
        bar(Progress(1, 2))
    assert looks == []


def test_a_bar_tells_where_it_is_how_quick_and_how_long_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    looks: list[JobProgress] = []
    with reporting_to(looks.append), ProgressBar("embedding") as bar:
        now = 104.0
        bar(Progress(10, 30))
        bar(Progress(40, 30))  # a total is an estimate
        bar(Progress(0, 8, "measuring", "candidates"))
        now = 106.0
        bar(Progress(4, None, "measuring", "candidates"))
    assert [replace(look, at=0.0) for look in looks] == [
        JobProgress("embedding", "passages", 0, None, None, None, 0.0, None, at=0.0),
        JobProgress("embedding", "passages", 10, 30, 1 / 3, 2.5, 4.0, 8.0, at=0.0),
        JobProgress("embedding", "passages", 40, 40, 1.0, 10.0, 4.0, 0.0, at=0.0),
        JobProgress("measuring", "candidates", 0, 8, 0.0, None, 0.0, None, at=0.0),
        JobProgress("measuring", "candidates", 4, None, None, 2.0, 2.0, None, at=0.0),
    ]


def test_a_training_tells_its_step_its_share_and_its_figures() -> None:
    looks: list[JobProgress] = []
    seen = TrainingProgress(
        step=20,
        steps=None,
        share=0.25,
        seconds=8.0,
        seconds_left=24.0,
        metrics={"loss": 1.5},
        tokens_per_second=900.0,
        peak_share=None,
        evaluation={"pearson": 0.7},
    )
    with reporting_to(looks.append), TrainingLine() as line:
        line(seen)
    before, look = looks
    assert (before.doing, before.done, before.total, before.share) == ("preparing", 0, None, None)
    assert (look.doing, look.done, look.total, look.unit, look.share) == ("training", 20, None, "steps", 0.25)
    assert (look.rate, look.seconds, look.seconds_left) == (2.5, 8.0, 24.0)
    assert (look.metrics, look.evaluation) == ({"loss": 1.5}, {"pearson": 0.7})
    assert look.tokens_per_second == 900.0


def test_a_training_says_once_that_other_programs_take_its_cores(capsys: pytest.CaptureFixture[str]) -> None:
    seen = TrainingProgress(
        step=7,
        steps=90,
        share=0.1,
        seconds=8.0,
        seconds_left=24.0,
        metrics={},
        tokens_per_second=900.0,
        peak_share=None,
        evaluation={},
    )
    crowded = replace(seen, step=8, contention="the rate fell to 20%")
    with TrainingLine() as line:
        for look in (seen, crowded, replace(crowded, step=9), replace(seen, step=10)):
            line(look)
        assert capsys.readouterr().err.splitlines() == [Naming("step 8", "20%")]
        line(replace(crowded, step=11))
    assert capsys.readouterr().err.splitlines() == [Naming("step 11", "20%")]
