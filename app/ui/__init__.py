"""nearsay in the browser: thin Streamlit pages over the library."""
