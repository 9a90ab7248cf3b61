"""Nothing is removed before somebody has seen its name and said yes."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted

__all__ = ["ask_to_remove", "names_html", "remove_and_say"]

_NAMED = 50  # documents that are named one by one


@st.dialog("Remove documents?", width="medium")
def ask_to_remove(visit: Visit, ids: Sequence[str], why: str = "") -> None:
    """Ask, with the documents named; yes removes them."""
    with telling_errors():
        st.markdown(f"Removed with all passages: **{counted(len(ids), 'document')}**. {why}".strip())
        st.html(names_html(ids))
        with st.container(horizontal=True):
            if st.button("Remove them", type="primary", key="remove_yes", icon=":material/delete:"):
                remove_and_say(visit, ids)
                st.rerun()
            if st.button("Keep them", key="remove_no"):
                st.rerun()


def remove_and_say(visit: Visit, ids: Sequence[str]) -> None:
    """Remove documents that somebody has confirmed."""
    visit.check_writing()
    with st.spinner("Removing …"):
        removed = visit.collection.remove(ids)
    st.toast(f"{counted(removed, 'document')} removed.", icon=":material/delete:")


def names_html(ids: Sequence[str]) -> str:
    """The ids as a list; of many the first, and how many more there are."""
    named = "".join(f"<li>{as_html(id_)}</li>" for id_ in ids[:_NAMED])
    more = f"<li>and {len(ids) - _NAMED:,} more</li>" if len(ids) > _NAMED else ""
    return f'<div class="ns-card"><ul>{named}{more}</ul></div>'
