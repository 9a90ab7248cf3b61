"""The page Training: forms that start a vocabulary, a pretraining, a fine-tuning or an adaptation."""

from collections.abc import Callable
from pkgutil import resolve_name

import streamlit as st

from nearsay.app.ui.training.starting import watch_started
from nearsay.app.ui.visit import Visit

__all__ = ["show"]

_FORMS = {  # the names stand in the address, too
    "Sentence encoder": "sentence_form:sentence_form",
    "Adapt to a collection": "sentence_form:adapt_form",
    "BERT": "pretraining_form:pretraining_form",
    "Vocabulary": "pretraining_form:vocabulary_form",
}


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Training", anchor=False)
    watch_started(visit)
    if not visit.may_write:
        st.info("This page only reads, so nothing can be trained here.", icon=":material/lock:")
        return
    chosen = st.segmented_control(
        "What to train",
        list(_FORMS),
        default="Sentence encoder",
        key="train",
        bind="query-params",
    )
    name = _FORMS[chosen or "Sentence encoder"]
    # Each form is imported when it is looked at: the models' libraries take seconds.
    form: Callable[[Visit], None] = resolve_name(f"nearsay.app.ui.training.{name}")
    form(visit)
