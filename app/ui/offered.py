"""Choices for forms: encoders of the library, and evaluation sets."""

from pathlib import Path
from typing import Final

import streamlit as st

from nearsay.app.ui.controls import pick
from nearsay.app.ui.escaping import distinct_labels
from nearsay.app.ui.uploads import TrainingFiles
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.data.samples import folder, sample_file
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.layout import file_layout

_OTHER: Final = ""


def offered(visit: Visit, *, berts: bool = False, without: str | None = None) -> dict[str, str]:
    """Return a unique label for each encoder that exists, by the source that loads it.

    berts: include BERTs trained here, unless nothing may be changed
    without: the source of one to omit
    """
    labels: dict[str, str] = {}
    places: dict[str, str] = {}
    for each in visit.library.encoders.list(berts=berts and visit.may_write):
        if each.there and each.source != without:
            what = f"a BERT trained here ({each.told})" if each.bert else str(each.origin)
            labels[each.source] = f"{each.name}, {what}"
            places[each.source] = each.source if visit.may_write else ""
    return distinct_labels(labels, lambda source: places[source] or "another")


def ask_encoder(visit: Visit, *, key: str, label: str, without: str | None = None) -> str | None:
    """Ask for an encoder and return its source; None while another one has to be entered.

    without: the source of one that is not offered
    """
    other = {_OTHER: "another: its folder or name"} if visit.may_name_files else {}
    chosen = pick(
        label,
        offered(visit, without=without) | other,
        key,
        "Turns a text into a vector, so that texts with similar meaning have similar vectors. A collection "
        "is embedded by one encoder.",
    )
    if chosen != _OTHER:
        return chosen
    visit.check_naming_files()
    typed = st.text_input(
        "Folder or name of the encoder",
        key=f"{key}_other",
        help="A sentence-transformers folder on the machine where nearsay runs, or a name on the hub.",
    )
    return (typed or "").strip() or None


JUDGED: Final = "judgements"  # placeholder for a folder that `spec_of` writes
KIND_NAMES: Final = {
    EvaluationKind.STS: "scored pairs",
    EvaluationKind.TRIPLETS: "triplets",
    EvaluationKind.PAIRS: "pairs labelled same or different",
    EvaluationKind.NLI: "premises and hypotheses",
    EvaluationKind.RETRIEVAL: "searches",
    EvaluationKind.RERANKING: "candidates to rank",
    EvaluationKind.CLUSTERING: "labelled texts to cluster",
    EvaluationKind.CLASSIFICATION: "labelled texts",
}
_FEWEST_QUERIES: Final = 5  # judged queries; a fifth of them is the test part


def evaluation_sets(visit: Visit) -> dict[str, str]:
    """Return a unique label for each evaluation set, by `KIND:PATH` as commands take it."""
    sets = {
        f"sts:{sample_file('scored-pairs')}": "sample: scored pairs",
        f"triplets:{sample_file('triplets')}": "sample: triplets",
        f"retrieval:{folder()}": "sample: searches",
    }
    if visit.name is not None and visit.collection.judgements.counts().queries >= _FEWEST_QUERIES:
        sets[JUDGED] = f"judgements of {visit.name}: the held-out fifth of its queries"
    for file in TrainingFiles(visit.library.store.folder).list():
        kind = _kind(file)
        if kind is not None:
            sets[f"{kind}:{file}"] = f"{file.name}: {KIND_NAMES[kind]}"
    return distinct_labels(sets, lambda spec: Path(spec).parent.name[:6])


def spec_of(visit: Visit, chosen: str) -> str:
    """Return the set as commands take it; judgements are exported first, with only the judged passages."""
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
    if layout is None or layout.kind is EvaluationKind.NLI:  # would need a second file
        return None
    return layout.kind
