"""The page Training: forms that start a vocabulary, a pretraining or a fine-tuning."""

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    del visit
    st.title("Training")
