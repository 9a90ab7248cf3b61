"""Download buttons, whose files are generated when clicked."""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath

import streamlit as st

from nearsay.indexer.query.export import write_csv, write_lines

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
    """Draw a button that generates a file when it is clicked, without a rerun of the page.

    If that fails, Streamlit only reports that it did; the cause is in the server's log.

    make: returns the content, in a thread without access to the session
    file_name: ends in .csv or .jsonl
    quiet: drawn as a tertiary button
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


def csv_bytes(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """Return the rows as CSV with a header, as `write_csv` does; lists and objects are written as JSON.

    It begins with a byte order mark, without which Excel does not read it as UTF-8.
    """
    out = io.BytesIO()
    out.write("\ufeff".encode())
    write_csv(({name: _cell(row.get(name)) for name in columns} for row in rows), columns, out)
    return out.getvalue()


def json_lines_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    """Return the rows as JSON lines in UTF-8."""
    out = io.BytesIO()
    write_lines(rows, out)
    return out.getvalue()


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict | bool) else value
