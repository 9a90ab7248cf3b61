"""What Streamlit runs, from the top, at every look at the page."""

from nearsay.app.ui.application import run

run()
