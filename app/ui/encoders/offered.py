"""The choice of an encoder, out of the library's list."""

from typing import Final

import streamlit as st

from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.visit import Visit

__all__ = ["ask_encoder", "offered"]

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
