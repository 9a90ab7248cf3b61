"""The form that adapts an encoder to a collection without labels."""

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.training.starting import start_run
from nearsay.app.ui.visit import Visit
from nearsay.indexer.encoders import Shelf, new_folder_for

__all__ = ["adapt_form"]


def adapt_form(visit: Visit) -> None:
    """Choose a collection and a name."""
    st.markdown(
        "An encoder can be fitted to a collection from its documents alone: what all of them share counts "
        "less, what tells them apart counts more. It takes about a minute, is measured, and is kept only if "
        "it is better."
    )
    names = visit.library.names()
    if not names:
        st.info("There is no collection yet. Make one on the page Collections.")
        return
    with st.form("ada_form"):
        chosen = visit.name if visit.name in names else names[0]
        collection = st.selectbox(
            "Collection", names, index=names.index(chosen), key="ada_collection", help="What it is fitted to."
        )
        name = st.text_input("Name", key="ada_name", help="What the encoder is called in this library.")
        asked = st.form_submit_button("Adapt the encoder", type="primary")
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        arguments = ["train", "adapt", str(collection), "--out", str(out)]
        title = f"Adapt {out.name} to {collection}"
        start_run(visit, RunKind.SENTENCE, arguments, title=title, product=out)
