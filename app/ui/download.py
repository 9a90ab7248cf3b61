"""Files to take away, made when somebody asks for them."""

from collections.abc import Callable
from pathlib import PurePath

import streamlit as st

__all__ = ["offer_download"]

_MEDIA_TYPES = {".csv": "text/csv", ".jsonl": "application/x-ndjson"}


def offer_download(
    label: str,
    make: Callable[[], bytes],
    file_name: str,
    *,
    key: str,
    tip: str | None = None,
    quiet: bool = False,
) -> None:
    """A button that makes a file when it is pressed; nothing of the page is run again.

    Where that fails, Streamlit says only that it did, and the server's log why.

    make: gives its content, in a thread that knows nothing of the session; file_name: ends in .csv or .jsonl
    quiet: as other presses of a card are
    """
    st.download_button(
        label,
        make,
        file_name=file_name,
        mime=_MEDIA_TYPES[PurePath(file_name).suffix],
        icon=":material/download:",
        key=key,
        type="tertiary" if quiet else "secondary",
        on_click="ignore",
        help=tip,
    )
