"""The page Collections: what is in the library, and what is done to it."""

import streamlit as st

from nearsay.app.ui.collections.adding import FILES, FOLDER, SAMPLES, show_adding
from nearsay.app.ui.collections.at_work import NEXT_PART, PART, Part, show_at_work
from nearsay.app.ui.collections.documents_part import show_documents
from nearsay.app.ui.collections.generations_part import show_generations
from nearsay.app.ui.collections.overview_part import show_health, show_overview
from nearsay.app.ui.controls import choose_part
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit

_PARTS = {
    Part.OVERVIEW: show_overview,
    Part.ADD: show_adding,
    Part.DOCUMENTS: show_documents,
    Part.GENERATIONS: show_generations,
    Part.HEALTH: show_health,
}


def show(visit: Visit) -> None:
    """Show the page: what is at work, then one of its parts."""
    if not visit.library.names():
        _offer_first_collection(visit)
        return
    st.title("Collections", anchor=False)
    if visit.may_write and show_at_work(visit):
        _look_for_new(visit, visit.library.names())
    if said := st.session_state.pop("collections-said", None):
        st.toast(as_markdown(said), icon=":material/check:")
    # Health tells of the machine: its programs, and where things lie on it.
    parts = [part for part in Part if visit.may_write or part not in (Part.ADD, Part.HEALTH)]
    wanted = st.session_state.pop(NEXT_PART, None)
    if wanted in parts:
        st.session_state[PART] = wanted
    _PARTS[choose_part("Part of the page", parts, PART, elsewhere=True)](visit)


@st.fragment(run_every=1.0)
def _look_for_new(visit: Visit, names: list[str]) -> None:
    """Draw the page again once what is at work has made a collection: its job may take hours from then on."""
    with telling_errors():
        if visit.library.names() != names:
            st.rerun()


def _offer_first_collection(visit: Visit) -> None:
    """Three ways to the first collection; each ends with a search of it."""
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if not visit.may_write:
        st.info("There is nothing in this library yet, and this page only reads.")
        return
    if show_at_work(visit):
        return
    st.markdown("**There is nothing to search yet. How do you want to begin?**")
    ways = [SAMPLES, FILES, *([FOLDER] if visit.may_name_files else [])]
    show_adding(visit, choose_part("How to begin", ways, "begin"))
