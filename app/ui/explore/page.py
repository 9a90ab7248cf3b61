"""The page Explore: what a collection says of itself, as a map, clusters, duplicates and through time."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Explore")
