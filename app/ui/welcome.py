"""The first start: there is no library yet, or nothing in it."""

import streamlit as st

from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import make_library
from nearsay.app.ui.settings import Settings

__all__ = ["offer_library"]


def offer_library(settings: Settings) -> None:
    """Offer to make the library, once its folder was looked at: a name that was mistyped makes none."""
    st.title("Welcome to nearsay")
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    place = as_markdown(settings.library)
    if settings.read_only:
        st.info(f"There is no library in {place}, and this page only reads.")
        return
    st.markdown(f"There is no library in **{place}** yet.")
    if st.button("Make a library here", type="primary"):
        make_library(settings)
        st.rerun()
