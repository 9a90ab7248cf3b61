"""A page with nothing but a map, for the browser's test: as many points as its address asks for."""

import pickle
import sys
from pathlib import Path

import streamlit as st

from nearsay.app.ui.map_component.show_map import packed_map, show_map

count = st.text_input("Points", st.query_params["count"])
if not count.isdigit():
    st.stop()
drawn = pickle.loads((Path(sys.argv[1]) / count).read_bytes())  # noqa: S301 - the test's own
lit = st.text_input("Highlight")
found = show_map(packed_map(drawn), key="map", height=500, highlight=[int(lit)] if lit else None)
st.text(f"chosen: {found.chosen}; selected: {' '.join(map(str, found.passages))}")
