"""What an encoder can be measured on: samples, judgements of this library, files that were uploaded."""

from pathlib import Path
from typing import Final

from nearsay.app.ui.escaping import distinct_labels
from nearsay.app.ui.training.choosing import TrainingFiles
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.data.samples import folder, sample_file
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.layout import file_layout

__all__ = ["JUDGED", "KIND_NAMES", "evaluation_sets", "spec_of"]

JUDGED: Final = "judgements"  # stands for a folder that is written when it is wanted
KIND_NAMES: Final = {
    EvaluationKind.STS: "scored pairs",
    EvaluationKind.TRIPLETS: "triplets",
    EvaluationKind.PAIRS: "pairs that are the same or not",
    EvaluationKind.NLI: "premises and hypotheses",
    EvaluationKind.RETRIEVAL: "searches",
    EvaluationKind.RERANKING: "candidates to rank",
    EvaluationKind.CLUSTERING: "labelled texts to cluster",
    EvaluationKind.CLASSIFICATION: "labelled texts",
}
_FEWEST_QUERIES: Final = 5  # judged ones, of which a fifth is measured on


def evaluation_sets(visit: Visit) -> dict[str, str]:
    """`KIND:PATH` as commands take it, and what people call it."""
    sets = {
        f"sts:{sample_file('scored-pairs')}": "sample: scored pairs",
        f"triplets:{sample_file('triplets')}": "sample: triplets",
        f"retrieval:{folder()}": "sample: searches",
    }
    if visit.name is not None and visit.collection.judgements.counts().queries >= _FEWEST_QUERIES:
        sets[JUDGED] = f"judgements of {visit.name}: the fifth of its queries that is not learned from"
    for file in TrainingFiles(visit.library.store.folder).list():
        kind = _kind(file.path)
        if kind is not None:
            sets[f"{kind}:{file.path}"] = f"{file.name}: {KIND_NAMES[kind]}"
    return distinct_labels(sets, lambda spec: Path(spec).parent.name[:6])


def spec_of(visit: Visit, chosen: str) -> str:
    """What the command takes; judgements are written out, and only the judged passages are searched."""
    if chosen != JUDGED:
        return chosen
    visit.check_writing()

    def write(path: Path) -> None:
        visit.collection.judgements.export(path, "evaluation", part="test", judged_only=True)

    place = TrainingFiles(visit.library.store.folder).written(f"judged-{visit.name}", write)
    return f"{EvaluationKind.RETRIEVAL}:{place}"


def _kind(file: Path) -> EvaluationKind | None:
    try:
        layout = file_layout(file)
    except BadInputError:
        return None
    if layout is None or layout.kind is EvaluationKind.NLI:  # a linear layer would need a second file
        return None
    return layout.kind
