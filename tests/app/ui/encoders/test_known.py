"""What evaluations found of an encoder."""

from pathlib import Path

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.encoders.entry_card import figures_of
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import Evaluation
from nearsay.training.sentence.bundled import BUNDLED_NAME


def _run(number: int, library: Path, subject: dict[str, str] | None) -> Run:
    return Run(
        number=number,
        kind=RunKind.EVALUATE,
        title="",
        arguments=(),
        working_folder=str(library),
        collection=None,
        product=None,
        resumes=None,
        state=RunState.DONE,
        pid=None,
        host=None,
        created_at="2026-01-02",
        started_at=None,
        ended_at=None,
        exit_code=0,
        message=None,
        subject=subject,
        library=library,
    )


def test_the_newest_figure_on_a_set_is_told(tmp_path, monkeypatch):
    def output(self, first=None):
        del first
        report = Evaluation(
            encoder="e",
            name="s",
            kind=EvaluationKind.RERANKING,
            details={},
            metrics={"map": self.number / 10},
            main="map",
            interval=(0.0, 1.0),
            interval_level=0.95,
            interval_draws=10,
            seed=0,
            truncated=0,
            seconds=1.0,
        )
        return [report.to_json()]

    monkeypatch.setattr(Run, "output", output)
    runs = [_run(number, tmp_path, {"encoder": "/e"}) for number in (3, 2)]
    runs.append(_run(1, tmp_path, {"encoder": BUNDLED_NAME}))
    runs.append(_run(4, tmp_path, None))  # that an older version started
    assert [row["MAP"] for row in figures_of("/e", runs)] == ["0.3000"]
    assert [row["MAP"] for row in figures_of(BUNDLED_NAME, runs)] == ["0.1000"]
