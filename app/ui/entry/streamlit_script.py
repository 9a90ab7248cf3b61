"""The script that Streamlit executes for every rerun."""

from nearsay.app.ui.application import run

run()
