"""Links from one page to another, which keep the session and the chosen collection."""

import streamlit as st

__all__ = ["NEXT_COLLECTION", "link_to", "open_page"]

NEXT_COLLECTION = "next_collection"  # in the session: what the sidebar is to choose when it is drawn again


def link_to(path: str, label: str, *, icon: str | None = None, **query: str) -> None:
    """A link to a page of the menu, by its address; label: Markdown; query: what stands in the address."""
    st.page_link(_page(path), label=label, icon=icon, query_params=_with_collection(query))


def open_page(path: str, *, collection: str | None = None, **query: str) -> None:
    """Go there now; collection: another than the chosen one.

    What a widget of this page is bound to cannot be said in the address: the sidebar takes the collection.
    """
    if collection is not None:
        st.session_state[NEXT_COLLECTION] = collection
    st.switch_page(_page(path), query_params=query)


def _with_collection(query: dict[str, str]) -> dict[str, str]:
    """The query, with the chosen collection where it names none."""
    chosen = st.session_state.get("collection")
    return query if chosen is None else {"collection": str(chosen)} | query


def _page(path: str) -> "st.Page":
    """Streamlit knows a page by its address alone."""
    return st.Page(_nothing, title=path, url_path=path)


def _nothing() -> None:
    """Never called: the menu's page of that address is."""
