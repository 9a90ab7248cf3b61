"""What evaluations found of an encoder."""

from pathlib import Path

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.encoders.entry_card import figures_of
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import Evaluation
from nearsay.training.sentence.bundled import BUNDLED_NAME


def _job(number: int, library: Path, subject: dict[str, str] | None) -> Job:
    return Job(
        number=number,
        kind=JobKind.EVALUATE,
        title="",
        arguments=(),
        working_folder=str(library),
        collection=None,
        product=None,
        resumes=None,
        state=JobState.DONE,
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

    monkeypatch.setattr(Job, "output", output)
    jobs = [_job(number, tmp_path, {"encoder": "/e"}) for number in (3, 2)]
    jobs.append(_job(1, tmp_path, {"encoder": BUNDLED_NAME}))
    jobs.append(_job(4, tmp_path, None))  # that an older version started
    assert [row["MAP"] for row in figures_of("/e", jobs)] == ["0.3000"]
    assert [row["MAP"] for row in figures_of(BUNDLED_NAME, jobs)] == ["0.1000"]
