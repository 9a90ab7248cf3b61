"""What a run makes."""

import json
from pathlib import Path

from nearsay.app.runs import RunKind, RunState
from nearsay.app.ui.runs.page import metrics_of


def test_the_metrics_of_a_training_lie_in_its_folder(record, settings):
    run = record(RunState.RUNNING)
    assert metrics_of(run) == []
    place = Path(settings.library, "mine", "run", "metrics.jsonl")
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"step": 1, "loss": 2.0}) + '\n{"step": 2, "lo', "utf-8")
    assert metrics_of(run) == [{"step": 1, "loss": 2.0}]
    assert metrics_of(record(kind=RunKind.EXPORT)) == []
