"""A long list on the page, so many at a time."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st

__all__ = ["show_paged"]

_Item = TypeVar("_Item")


def show_paged(items: Sequence[_Item], size: int, key: str, show: Callable[[Sequence[_Item]], None]) -> None:
    """Show the page of the list that is chosen under it; a list of one page has no choice."""
    pages = max(1, -(-len(items) // size))
    place = st.container()
    at = st.pagination(pages, key=key) if pages > 1 else 1
    with place:
        show(items[(at - 1) * size : at * size])
