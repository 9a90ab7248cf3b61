"""Files to take away, made when somebody asks for them."""

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


def csv_bytes(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """A header and a line a row, as `write_csv` has it. A list or an object is written as JSON.

    It begins with a byte order mark: without it Excel takes UTF-8 for something else.
    """
    out = io.BytesIO()
    out.write("\ufeff".encode())
    write_csv(({name: _cell(row.get(name)) for name in columns} for row in rows), columns, out)
    return out.getvalue()


def json_lines_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    """A JSON object a line, UTF-8."""
    out = io.BytesIO()
    write_lines(rows, out)
    return out.getvalue()


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | dict | bool) else value
