"""Deleting documents, once it was said how many."""

from collections.abc import Sequence
from typing import Final

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer import Collection

__all__ = ["ask_to_delete"]

_AT_ONCE: Final = 2_000  # documents: more are deleted by a run


@st.dialog("Delete documents", icon=":material/delete:")
def ask_to_delete(
    visit: Visit, collection: Collection, *, ids: Sequence[str] = (), where: str | None = None
) -> None:
    """Ask once more, and delete documents by id or by a filter."""
    with telling_errors():
        count = len(ids) if where is None else collection.browser.count(where)
        what = counted(count, "document")
        name = as_markdown(collection.name)
        if where is None:
            shown = ", ".join(as_markdown(id_) for id_ in ids[:5]) + (" …" if len(ids) > 5 else "")
            st.markdown(f"Delete **{what}** of {name}: {shown}?")
        else:
            st.markdown(f"Delete the **{what}** of {name} for which this holds?")
            st.code(where, language=None, wrap_lines=True)
        st.caption("Searches miss them at once. There is no way back but to add them again.")
        with st.container(horizontal=True):
            sure = st.button(f"Delete {what}", type="primary", key="delete-sure", disabled=not count)
            if st.button("Keep them", key="delete-not"):
                st.rerun()
        if not sure:
            return
        visit.check_writing()
        if where is not None and count > _AT_ONCE:
            start(
                visit,
                RunKind.REMOVE,
                ["documents", "remove", "--yes", "--where", where, "--", collection.name],
                title=f"Delete {what} of {collection.name}",
                collection=collection.name,
            )
        removed = collection.remove(ids, where=where)
        st.session_state["collections-said"] = f"{counted(removed, 'document')} deleted."
        st.query_params.pop("doc", None)
        st.rerun()
