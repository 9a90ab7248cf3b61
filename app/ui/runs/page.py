"""The page Runs: the long work of the library, live and done."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Runs")
