"""Bringing a part of a page into view, where something new stands or is marked."""

from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

__all__ = ["bring_into_view", "scroll_to_top"]

_SECONDS = 5  # in which what is to be seen may come
# The window remembers it: Streamlit calls this at every run of the page.
_SCRIPT = """
export default function ({ data }) {
  const done = window.nearsayBroughtIntoView ??= {}
  if (done[data.selector] === data.when) return
  const until = Date.now() + 1000 * data.seconds
  const look = () => {
    const found = document.querySelector(data.selector)
    if (!found && Date.now() < until) return
    clearInterval(looking)
    done[data.selector] = data.when
    found?.scrollIntoView({ block: data.block })
  }
  const looking = setInterval(look, 100)
  return () => clearInterval(looking)
}
"""


def scroll_to_top(number: int) -> None:
    """Once for each number, however often the page is run."""
    bring_into_view("[data-testid=stMainBlockContainer]", str(number))


def bring_into_view(selector: str, when: str, *, centre: bool = False) -> None:
    """Scroll to the first that the selector finds, once for each `when`; centre: to its middle."""
    with st.container(key="ns_top"):  # nothing is seen of it
        data = {
            "selector": selector,
            "when": when,
            "block": "center" if centre else "start",
            "seconds": _SECONDS,
        }
        _component()(data=data, key="bring_into_view")


@cache
def _component() -> "ComponentRenderer":
    return st.components.v2.component("nearsay_bring_into_view", js=_SCRIPT)
