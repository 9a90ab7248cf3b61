"""The page Collections: what is in the library, and what is done to it."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Collections")
