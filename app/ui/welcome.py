"""The first start: there is no library yet, or nothing in it."""

import streamlit as st

from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import make_library
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit

__all__ = ["offer_first_collection", "offer_library"]


def offer_library(settings: Settings) -> None:
    """Offer to make the library, once its folder was looked at: a name that was mistyped makes none."""
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if settings.read_only:
        st.info("There is no library here, and this page only reads.")
        return
    place = as_markdown(settings.library)
    st.markdown(f"There is no library in **{place}** yet.")
    st.caption(
        "A library is a folder in which everything lives: your texts, what was made of them, and what you "
        "say about them. Nothing leaves this machine."
    )
    if st.button("Make a library here", type="primary", icon=":material/create_new_folder:"):
        make_library(settings)
        st.rerun()


def offer_first_collection(visit: Visit) -> None:
    """Three ways to the first collection; each ends with a search of it."""
    from nearsay.app.ui.collections.adding import FILES, FOLDER, SAMPLES, show_adding
    from nearsay.app.ui.collections.at_work import show_at_work

    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if not visit.may_write:
        st.info("There is nothing in this library yet, and this page only reads.")
        return
    if show_at_work(visit):
        return
    st.markdown("**There is nothing to search yet. How do you want to begin?**")
    way = st.segmented_control(
        "How to begin",
        [SAMPLES, FILES, *([FOLDER] if visit.may_name_files else [])],
        default=SAMPLES,
        required=True,
        key="begin",
        bind="query-params",
        label_visibility="collapsed",
    )
    show_adding(visit, way)
