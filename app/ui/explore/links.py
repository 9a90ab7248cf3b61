"""Ways from a finding to the page Search; the collection, which the address names, stays the same."""

import streamlit as st

__all__ = ["cluster_link", "like_link"]


def like_link(document: str, label: str = "More like this") -> None:
    """A link to the passages nearest to a document."""
    _link(label, ":material/hub:", like=document)


def cluster_link(number: int) -> None:
    """A link to the search in one cluster."""
    _link("Search in it", ":material/search:", where=f"cluster = {number}")


def _link(label: str, icon: str, **query: str) -> None:
    page = st.Page(_search, title="Search", url_path="search", default=True)
    st.page_link(page, label=label, icon=icon, query_params=query)


def _search() -> None:
    """Streamlit finds the page by its address; this is never called."""
