"""The parts of the page Collections."""

from enum import StrEnum
from typing import Final

import streamlit as st

from nearsay.app.ui.errors import telling_errors

__all__ = ["NEXT_PART", "PART", "Part", "look_at"]

PART: Final = "see"  # the widget that chooses one, and its name in the address
NEXT_PART: Final = "collections_next"  # in the session: what it is to choose when it is drawn again


class Part(StrEnum):
    """As the page names them, and the address."""

    OVERVIEW = "Overview"
    ADD = "Add"
    DOCUMENTS = "Documents"
    GENERATIONS = "Generations"
    HEALTH = "Health"


def look_at(part: Part, name: str) -> None:
    """Go to a part of the page, of a collection; for a button's callback."""
    with telling_errors():
        st.session_state[PART] = part
        st.session_state["collection"] = name
        st.query_params.pop("doc", None)
        if part is Part.ADD:
            st.session_state["add_into"] = name
