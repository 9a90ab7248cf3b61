"""The folder that Streamlit puts first on the path: it holds the script alone, so that it shadows nothing."""
