"""Rows as a file for other programs: CSV, in which nothing is computed, or JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence

from nearsay.data.formulas import defused

__all__ = ["csv_bytes", "json_lines_bytes"]


def csv_bytes(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """A header and a line a row, UTF-8; a text that a spreadsheet would compute gets an apostrophe before it.

    A list or an object is written as JSON, None as nothing.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def json_lines_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    """A JSON object a line, UTF-8."""
    return b"".join(
        json.dumps(dict(row), ensure_ascii=False).encode("utf-8", "replace") + b"\n" for row in rows
    )


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict | bool):
        value = json.dumps(value, ensure_ascii=False)
    return defused(value)
