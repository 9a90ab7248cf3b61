"""Removing documents on a page, after a confirmation."""

from collections.abc import Sequence
from typing import Final

import streamlit as st

from nearsay.app.ui.controls import confirmed
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import start_job
from nearsay.data.quantity import counted

_AT_ONCE: Final = 2_000  # documents that match a filter; more are removed by a job
_NAMED: Final = 50  # ids that are listed


@st.dialog("Remove documents?", width="medium", icon=":material/delete:")
def ask_to_remove(visit: Visit, ids: Sequence[str] = (), why: str = "", *, where: str | None = None) -> None:
    """Ask for confirmation, showing the documents or the filter, and remove them."""
    with showing_errors():
        collection = visit.collection
        count = len(ids) if where is None else collection.browser.count(where)
        st.markdown(f"Removed with all passages: **{counted(count, 'document')}**. {why}".strip())
        if where is None:
            st.html(names_html(ids))
        else:
            st.code(where, language=None, wrap_lines=True)
        st.caption("Searches no longer find them. To undo this, you would have to add them again.")
        if not confirmed("Remove", "Cancel", "remove", ":material/delete:", disabled=not count):
            return
        visit.check_writing()
        st.query_params.pop("doc", None)
        if where is not None and count > _AT_ONCE:
            arguments = ["documents", "remove", "--yes", "--where", where, "--", collection.name]
            job = start_job(visit, arguments, f"Remove {count:,} documents of {collection.name}")
            st.query_params["job"] = str(job.number)  # this is already the page Collections
            st.rerun()
        with st.spinner("Removing …"):
            removed = collection.remove(ids, where=where)
        st.toast(f"{counted(removed, 'document')} removed.", icon=":material/delete:")
        st.rerun()


def names_html(ids: Sequence[str]) -> str:
    """Return the ids as a list; of many only the first, and the number of the others."""
    named = "".join(f"<li>{as_html(id_)}</li>" for id_ in ids[:_NAMED])
    more = f"<li>and {len(ids) - _NAMED:,} more</li>" if len(ids) > _NAMED else ""
    return f'<div class="ns-card ns-names"><ul>{named}{more}</ul></div>'
