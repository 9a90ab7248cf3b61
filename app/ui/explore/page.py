"""The page Explore: what a collection says of itself, as a map, clusters, duplicates and through time."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from nearsay.app.ui.explore.clusters_view import show_clusters_view
from nearsay.app.ui.explore.duplicates_view import show_duplicates_view
from nearsay.app.ui.explore.map_view import show_map_view
from nearsay.app.ui.explore.time_view import show_time_view
from nearsay.app.ui.explore.unusual_view import show_unusual_view
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError

# A word that goes is struck through and one that comes is underlined: colour is never the only sign.
STYLE = """<style>
.st-key-view button p { text-transform: capitalize; }
.ns-card del { background: rgba(225, 87, 89, .18); text-decoration: line-through; border-radius: .2rem; }
.ns-card ins { background: rgba(89, 161, 79, .22); text-decoration: underline; border-radius: .2rem; }
.ns-card ul { margin: 0; padding-left: 1.2rem; }
</style>"""


VIEWS: Final[dict[str, Callable[[Visit], None]]] = {  # by their names in the address
    "map": show_map_view,
    "clusters": show_clusters_view,
    "duplicates": show_duplicates_view,
    "time": show_time_view,
    "unusual": show_unusual_view,
}


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Explore")
    st.html(STYLE)
    if visit.name is None:
        st.info("There is no collection yet. Make one on the page Collections.")
        return
    view = st.segmented_control(
        "View",
        list(VIEWS),
        default="map",
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    try:
        visit.collection.snapshot()
    except BadInputError:
        st.info("The collection holds nothing yet. Add documents on the page Collections.")
        return
    VIEWS[view](visit)
