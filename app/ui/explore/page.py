"""The page Explore: a collection as a map, clusters, duplicates, trends over time, outliers and a sample."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from nearsay.app.ui.asked import is_empty
from nearsay.app.ui.controls import choose_part
from nearsay.app.ui.explore.clusters_view import show_clusters_view
from nearsay.app.ui.explore.duplicates_view import show_duplicates_view
from nearsay.app.ui.explore.map_view import show_map_view
from nearsay.app.ui.explore.time_view import show_time_view
from nearsay.app.ui.explore.unusual_view import show_unusual_view
from nearsay.app.ui.visit import Visit

VIEWS: Final[dict[str, Callable[[Visit], None]]] = {  # by name in the address
    "map": show_map_view,
    "clusters": show_clusters_view,
    "duplicates": show_duplicates_view,
    "time": show_time_view,
    "unusual": show_unusual_view,
}


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Explore")
    if visit.name is None:
        st.info("There is no collection yet." + visit.remedy("Create one on the page Collections."))
        return
    view = choose_part("View", list(VIEWS), "view")
    if not is_empty(visit):
        VIEWS[view](visit)
