"""The choice of an encoder, out of the library's list."""

from collections.abc import Sequence
from typing import Final

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.runs.results import Row, read_results
from nearsay.app.ui.escaping import distinct_labels
from nearsay.app.ui.visit import Visit
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = [
    "ask_encoder",
    "figures_of",
    "layer_scores",
    "offered",
]


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
    labels = offered(visit, without=without)
    chosen = st.selectbox(
        label,
        [*labels, *([_OTHER] if visit.may_name_files else [])],
        key=key,
        format_func=lambda source: labels.get(source, "another: its folder or name"),
        help="It turns a text into numbers, so that texts which say the same come to lie close together. All "
        "of a collection is embedded by the same one.",
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
