"""Links from one page to another, which keep the session and the chosen collection, the browser's history,
and scrolling on one page."""

import contextlib
from functools import cache
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.filters.choices import read_choices, without, written

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

CHOSEN = "chosen_collection"  # in the session: the one that the sidebar names
NEXT_COLLECTION = "next_collection"  # in the session: what the sidebar is to choose when it is drawn again


def link_to(path: str, label: str, *, icon: str | None = None, **query: str) -> None:
    """A link to a page of the menu, by its address, with the chosen collection where the query names none.

    label: Markdown; query: what stands in the address
    """
    chosen = st.session_state.get(CHOSEN)
    query = query if chosen is None else {"collection": str(chosen)} | query
    st.page_link(_page(path), label=label, icon=icon, query_params=query)


def open_page(path: str, *, collection: str | None = None, **query: str) -> None:
    """Go there now; collection: another than the chosen one.

    What a widget of this page is bound to cannot be said in the address: the sidebar takes the collection.
    """
    if collection is not None:
        st.session_state[NEXT_COLLECTION] = collection
    st.switch_page(_page(path), query_params=query)


def leave_collection() -> None:
    """Forget what the page is at, of a collection that is left for another: it is of no other.

    So are the clusters that a filter names by their numbers; what it asks of the metadata stays.
    """
    for name in ("doc", "after", "before", "like", "unlike"):
        st.query_params.pop(name, None)
    st.session_state["at"] = ""
    with contextlib.suppress(BadInputError):  # of an address that makes no sense: the page tells it
        choices = read_choices(st.session_state.get("filter") or st.query_params.get("filter", ""))
        if "cluster" in choices:
            st.session_state["filter"] = written(without(choices, "cluster"))


# Streamlit writes the address in several steps, each an entry of the history: what it takes away when a page
# is left, what the next page's run adds, the page itself. For a link within a page it does not write it. And
# the first run's entries are made before this is heard, so that it adds the collection to the address itself.
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
    """Make what is pressed one entry of the browser's history: one press of Back leads before it."""
    with st.container(key="ns_history"):  # nothing is seen of it
        data = {"collection": st.session_state.get(CHOSEN)}
        _component("nearsay_history", _HISTORY)(data=data, key="history")


def _page(path: str) -> "st.Page":
    """Streamlit knows a page by its address alone."""
    return st.Page(_nothing, title=path, url_path=path)


def _nothing() -> None:
    """Never called: the menu's page of that address is."""


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
    bring_into_view("[data-testid=stMainBlockContainer]", str(number), key="ns_top_page")


def bring_into_view(selector: str, when: str, *, centre: bool = False, key: str = "ns_top") -> None:
    """Scroll to the first that the selector finds, once for each `when`; centre: to its middle."""
    with st.container(key=key):  # nothing is seen of it
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
