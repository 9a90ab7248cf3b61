"""The folder that Streamlit puts first on sys.path; it holds only its script, so that it shadows nothing."""
