"""Bringing the top of a page back into view, where something new stands that was asked for further below."""

from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

__all__ = ["scroll_to_top"]

# The window remembers it: Streamlit calls this at every run of the page.
_SCRIPT = """
export default function ({ data }) {
  if (window.nearsayScrolledFor === data.number) return
  window.nearsayScrolledFor = data.number
  document.querySelector("[data-testid=stMain]")?.scrollTo({ top: 0 })
}
"""


def scroll_to_top(number: int) -> None:
    """Once for each number, however often the page is run."""
    with st.container(key="ns_top"):  # nothing is seen of it
        _component()(data={"number": number}, key="scroll_to_top")


@cache
def _component() -> "ComponentRenderer":
    return st.components.v2.component("nearsay_scroll_to_top", js=_SCRIPT)
