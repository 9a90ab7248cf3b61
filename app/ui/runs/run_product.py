"""What a run makes, and the metrics that a training writes beside it."""

from collections.abc import Sequence
from pathlib import Path

from nearsay.app.runs import Run, RunKind
from nearsay.data.document import JsonValue

__all__ = ["TRAININGS", "metrics_of", "out_folder"]

TRAININGS = (RunKind.PRETRAIN, RunKind.SENTENCE, RunKind.DISTIL, RunKind.HEAD, RunKind.TRAIN)


def out_folder(run: Run) -> Path | None:
    """The file or folder that the run's --out names, whole; None where there is none."""
    named = _option(run.arguments, "--out")
    return None if named is None else Path(run.working_folder, Path(named).expanduser())


def metrics_of(run: Run) -> list[dict[str, JsonValue]]:
    """The lines of metrics that a training has written by now; none for other runs."""
    out = out_folder(run)
    if run.kind not in TRAININGS or out is None:
        return []
    from nearsay.training.run.metrics_log import read_metrics

    return read_metrics(out / "run" / "metrics.jsonl")


def _option(arguments: Sequence[str], name: str) -> str | None:
    for place, argument in enumerate(arguments):
        if argument == name and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2]
    return None
