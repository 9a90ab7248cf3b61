"""The page Encoders: which there are, where they come from, and what they do with a text."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Encoders")
