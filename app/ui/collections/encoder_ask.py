"""The choice of an encoder."""

from typing import Final

import streamlit as st

from nearsay.app.ui.collections.encoder_choice import encoder_choices
from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.runs.watching import runs_of
from nearsay.app.ui.visit import Visit

__all__ = ["ask_encoder"]

_OTHER: Final = ""


def ask_encoder(visit: Visit, *, key: str, label: str, without: str | None = None) -> str | None:
    """Ask for one; its name or folder, None while another is not named yet.

    without: the source of one that is not offered
    """
    known = [row.encoder for each in visit.library.collections() for row in each.generations()]
    choices = encoder_choices(known, runs_of(visit).list(limit=None))
    labels = distinct_labels({each.source: each.label for each in choices if each.source != without})
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
