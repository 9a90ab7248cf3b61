"""The page Search: a question, and the passages that answer it."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Search")
