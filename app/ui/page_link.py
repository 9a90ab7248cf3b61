"""Links between pages that keep the session and the collection, the browser's history, and scrolling."""

import contextlib
from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.filters.choices import read_choices, without, written

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

CHOSEN = "chosen_collection"  # session key: the collection chosen in the sidebar
NEXT_COLLECTION = "next_collection"  # session key: what the sidebar chooses in the next run


def link_to(path: str, label: str, *, icon: str | None = None, **query: str) -> None:
    """Link to a page of the menu, keeping the chosen collection unless the query names one.

    path: of the page
    label: Markdown
    query: parameters of the address
    """
    chosen = st.session_state.get(CHOSEN)
    query = query if chosen is None else {"collection": str(chosen)} | query
    st.page_link(_page(path), label=label, icon=icon, query_params=query)


def open_page(path: str, *, collection: str | None = None, **query: str) -> None:
    """Go to a page now; collection: another than the chosen one.

    An address cannot set parameters that are bound to widgets of this page, so the sidebar sets the
    collection.
    """
    if collection is not None:
        st.session_state[NEXT_COLLECTION] = collection
    st.switch_page(_page(path), query_params=query)


def leave_collection() -> None:
    """Clear parameters that belong to the previous collection, including a filter by cluster number.

    Filters on metadata are kept.
    """
    for name in ("doc", "after", "before", "like", "unlike"):
        st.query_params.pop(name, None)
    st.session_state["at"] = ""
    with contextlib.suppress(BadInputError):  # an invalid address: the page reports it
        choices = read_choices(st.session_state.get("filter") or st.query_params.get("filter", ""))
        if "cluster" in choices:
            st.session_state["filter"] = written(without(choices, "cluster"))


# Streamlit changes the address in several steps, each a history entry: parameters removed when a page is
# left, those that the next page adds, the page itself. For a link within a page it does not change it. This
# script keeps one entry per click. It runs after the first run's entries, so it adds the collection itself.
_HISTORY = """
export default function ({ data }) {
  const address = new URL(location)
  if (data.collection && !address.searchParams.has("collection")) {
    address.searchParams.set("collection", data.collection)
    history.replaceState(history.state, "", address)
  }
  if (window.nearsayHistory) return
  window.nearsayHistory = true
  const push = history.pushState.bind(history)
  let pressed = false
  history.pushState = (...entry) => {
    pressed ? push(...entry) : history.replaceState(...entry)
    pressed = false
  }
  for (const kind of ["pointerdown", "keydown", "click"])
    addEventListener(kind, () => { pressed = true }, true)
  addEventListener("popstate", () => { pressed = false }, true)
  addEventListener("click", event => {
    const link = event.target.closest?.("[data-testid=stPageLink-NavLink]")
    const elsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey
    if (link && !elsewhere && link.pathname === location.pathname && link.search !== location.search)
      history.pushState({}, "", link.href)
  }, true)
}
"""


def keep_history() -> None:
    """Make each click one entry of the browser's history, so that one click on Back undoes it."""
    with st.container(key="ns_history"):  # invisible
        data = {"collection": st.session_state.get(CHOSEN)}
        _component("nearsay_history", _HISTORY)(data=data, key="history")


def _page(path: str) -> "st.Page":
    """Streamlit identifies a page by its address alone."""
    return st.Page(_nothing, title=path, url_path=path)


def _nothing() -> None:
    """Never called: Streamlit calls the menu's page of this address."""


_SECONDS = 5  # how long the script waits for the element
# Remembered in the window, because Streamlit calls this in every run of the page.
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
    """Scroll to the top, once for each number, however often the page is rerun."""
    bring_into_view("[data-testid=stMainBlockContainer]", str(number), key="ns_top_page")


def bring_into_view(selector: str, when: str, *, centre: bool = False, key: str = "ns_top") -> None:
    """Scroll to the first element of the selector, once for each `when`; centre: to its middle."""
    with st.container(key=key):  # invisible
        data = {
            "selector": selector,
            "when": when,
            "block": "center" if centre else "start",
            "seconds": _SECONDS,
        }
        _component("nearsay_bring_into_view", _SCRIPT)(data=data, key=f"bring_{key}")


@cache
def _component(name: str, script: str) -> "ComponentRenderer":
    return st.components.v2.component(name, js=script)
