"""What may be chosen: encoders out of the library's list, and what one can be measured on."""

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
    """What loads each encoder that is there, and what people call it; no two are called the same.

    berts: also the BERTs that were made here, unless the page only reads; without: the source of one to omit
    """
    labels: dict[str, str] = {}
    places: dict[str, str] = {}
    for each in visit.library.encoders.list(berts=berts and visit.may_write):
        if each.there and each.source != without:
            what = f"a BERT made here ({each.told})" if each.bert else str(each.origin)
            labels[each.source] = f"{each.name}, {what}"
            places[each.source] = each.source if visit.may_write else ""
    return distinct_labels(labels, lambda source: places[source] or "another")


def ask_encoder(visit: Visit, *, key: str, label: str, without: str | None = None) -> str | None:
    """Ask for one; what loads it, None while another is not named yet.

    without: the source of one that is not offered
    """
    other = {_OTHER: "another: its folder or name"} if visit.may_name_files else {}
    chosen = pick(
        label,
        offered(visit, without=without) | other,
        key,
        "It turns a text into numbers, so that texts which say the same come to lie close together. All of a "
        "collection is embedded by the same one.",
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
        kind = _kind(file)
        if kind is not None:
            sets[f"{kind}:{file}"] = f"{file.name}: {KIND_NAMES[kind]}"
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
