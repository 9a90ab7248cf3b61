"""What evaluations of an encoder found, by the jobs that measured it."""

from collections.abc import Sequence

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.runs.results import Row, read_results
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["figures_of", "layer_scores"]


def figures_of(source: str, runs: Sequence[Run]) -> list[Row]:
    """What evaluations of an encoder found; of several on one set the newest. runs: the newest first."""
    newest: dict[str, Row] = {}
    for run in runs:
        if run.kind is not RunKind.EVALUATE or run.state is not RunState.DONE:
            continue
        if _encoder_of(run) != source:
            continue
        for row in read_results(run.output(100)).figures:
            kept = {name: value for name, value in row.items() if name != "encoder"}
            newest.setdefault(str(kept["set"]), kept)
    return list(newest.values())


def layer_scores(source: str, runs: Sequence[Run]) -> list[Row]:
    """What the newest `evaluate layers` of an encoder found: a row a layer, a column a pooling."""
    for run in runs:
        layers = run.arguments[:2] == ("evaluate", "layers") and run.state is RunState.DONE
        if not layers or _encoder_of(run) != source:
            continue
        found: dict[str, Row] = {}
        for row in read_results(run.output(200)).rows:
            figures = [value for name, value in row.items() if name in ("Spearman", "nDCG@10")]
            if figures and "pooling" in row:
                found.setdefault(str(row["layers"]), {"layer": row["layers"]})[str(row["pooling"])] = figures[
                    0
                ]
        if found:
            return list(found.values())
    return []


def _encoder_of(run: Run) -> str:
    arguments = run.arguments
    place = arguments.index("--encoder") if "--encoder" in arguments else -1
    return arguments[place + 1] if 0 <= place < len(arguments) - 1 else BUNDLED_NAME
