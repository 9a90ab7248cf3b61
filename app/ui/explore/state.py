"""What a page remembers of a collection, and for how long: until something is committed to it."""

from collections.abc import Callable
from typing import TypeVar, cast

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["remembered", "remembered_map", "state_of"]

_Found = TypeVar("_Found")
_MOST = 24  # findings of everybody who looks at the page
_MOST_MAPS = 3  # one of 30,000 short passages takes some 30 MB
_SECONDS = 3600.0


def state_of(visit: Visit) -> str:
    """Names the collection as it is now: another text once documents, vectors or clusters are others."""
    snapshot = visit.collection.snapshot()
    row = snapshot.collection
    parts = (visit.library.store.folder, row.id, row.version, row.compactions, snapshot.generation.number)
    return "|".join(str(part) for part in parts)


def remembered(key: str, make: Callable[[], _Found]) -> _Found:
    """What `make` gives, found once for a key; it is shared by all who look, so it must not be changed."""
    return cast("_Found", _remembered(key, make))


def remembered_map(key: str, make: Callable[[], _Found]) -> _Found:
    """The same for maps, of which few are kept: they are large, and another is made with each change.

    Also for threads in which no page runs: it shows nothing of its own.
    """
    return cast("_Found", _remembered_map(key, make))


@st.cache_resource(max_entries=_MOST_MAPS, show_spinner=False)
def _remembered_map(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()


@st.cache_resource(max_entries=_MOST, ttl=_SECONDS, show_spinner="Looking …")
def _remembered(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()
