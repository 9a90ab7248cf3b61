"""The form that adapts an encoder to a collection without labels."""

import streamlit as st

from nearsay.app.cli.train_adapt import adapt
from nearsay.app.runs import RunKind
from nearsay.app.ui.training.command_options import arguments_of
from nearsay.app.ui.training.shelf import Shelf, new_folder_for
from nearsay.app.ui.training.starting import start_run
from nearsay.app.ui.visit import Visit

__all__ = ["adapt_form"]


def adapt_form(visit: Visit) -> None:
    """Choose a collection, a length and a name."""
    st.markdown(
        "An encoder can learn a collection from its documents alone: the search by meaning *and* words "
        "teaches it how to rank them. It is measured, and kept only if it is better."
    )
    names = visit.library.names()
    if not names:
        st.info("There is no collection yet. Make one on the page Collections.")
        return
    with st.form("ada_form"):
        chosen = visit.name if visit.name in names else names[0]
        collection = st.selectbox(
            "Collection", names, index=names.index(chosen), key="ada_collection", help="What it learns."
        )
        name = st.text_input("Name", key="ada_name", help="What the encoder is called in this library.")
        minutes = st.number_input(
            "Minutes of training",
            min_value=0.1,
            value=None,
            placeholder="as usual",
            format="%g",
            key="ada_minutes",
            help="Encoding before it and measuring after it take some more.",
        )
        asked = st.form_submit_button("Adapt the encoder", type="primary")
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        arguments = ["train", "adapt", str(collection), "--out", str(out)]
        arguments += arguments_of(adapt, {"minutes": minutes})
        title = f"Adapt {out.name} to {collection}"
        start_run(visit, RunKind.SENTENCE, arguments, title=title, product=out)
