"""What a job makes."""

import json
from pathlib import Path

from nearsay.app.jobs import JobKind, JobState
from nearsay.app.ui.jobs.page import metrics_of


def test_the_metrics_of_a_training_lie_in_its_folder(record, settings):
    job = record(JobState.RUNNING)
    assert metrics_of(job) == []
    place = Path(settings.library, "mine", "run", "metrics.jsonl")
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"step": 1, "loss": 2.0}) + '\n{"step": 2, "lo', "utf-8")
    assert metrics_of(job) == [{"step": 1, "loss": 2.0}]
    assert metrics_of(record(kind=JobKind.EXPORT)) == []
