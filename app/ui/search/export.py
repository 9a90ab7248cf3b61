"""Results taken away as a file."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from nearsay.app.ui.download import offer_download
from nearsay.app.ui.search.table import csv_of, json_lines_of
from nearsay.indexer import Hits

__all__ = ["offer_export"]

_MOST = 10_000


def offer_export(search: Callable[[int], Hits], name: str, k: int) -> None:
    """Two buttons that make a file when they are pressed.

    search: gives the k best; name: of the file, without its ending
    """
    with st.popover("Export", icon=":material/download:", help="The results as a file."):
        count = st.number_input("Results", 1, _MOST, k, key=f"export {k}", help="The best so many.")
        with st.container(horizontal=True):
            offer_download(
                "CSV",
                partial(_csv, search, int(count)),
                f"{name}.csv",
                key="export_csv",
                tip="For spreadsheets. A text that one would compute gets an apostrophe before it.",
            )
            offer_download(
                "JSON lines",
                partial(_json_lines, search, int(count)),
                f"{name}.jsonl",
                key="export_json_lines",
                tip="As nearsay search --json prints them.",
            )


def _csv(search: Callable[[int], Hits], count: int) -> bytes:
    return csv_of(search(count))


def _json_lines(search: Callable[[int], Hits], count: int) -> bytes:
    return json_lines_of(search(count))
