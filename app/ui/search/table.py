"""Results as files: a table for spreadsheets, and JSON lines."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from nearsay.data.formulas import defused
from nearsay.indexer.query.hit import Hit

__all__ = ["COLUMNS", "csv_of", "json_lines_of"]

COLUMNS = ("rank", "score", "cosine", "bm25", "id", "passage", "title", "text")
_MARK = "\ufeff"  # a byte order mark: without it Excel takes UTF-8 for something else
_MOST_FIELDS = 100


def csv_of(hits: Sequence[Hit]) -> bytes:
    """A header and a line a hit, RFC 4180, UTF-8; each metadata field is a column.

    A text that a spreadsheet would compute gets an apostrophe before it, in the header, too. Of more than a
    hundred fields the commonest are columns.
    """
    fields = _fields(hits)
    out = io.StringIO(newline="")
    out.write(_MARK)
    writer = csv.writer(out)
    writer.writerow([defused(name) for name in (*COLUMNS, *(f"metadata.{name}" for name in fields))])
    for hit in hits:
        own = (
            hit.rank,
            hit.score,
            hit.scores.dense,
            hit.scores.lexical,
            hit.id,
            hit.passage,
            hit.title,
            hit.text,
        )
        writer.writerow(
            [defused(cell) for cell in (*own, *(_cell(hit.metadata.get(name)) for name in fields))]
        )
    return out.getvalue().encode("utf-8", "surrogatepass")


def json_lines_of(hits: Iterable[Hit]) -> bytes:
    """A JSON object a hit, as `nearsay search --json` prints it."""
    return b"".join(json.dumps(hit.to_json(), ensure_ascii=False).encode() + b"\n" for hit in hits)


def _fields(hits: Sequence[Hit]) -> list[str]:
    """The metadata's fields in the order in which they first come."""
    counts: dict[str, int] = {}
    for hit in hits:
        for name in hit.metadata:
            counts[name] = counts.get(name, 0) + 1
    kept = sorted(counts, key=lambda name: -counts[name])[:_MOST_FIELDS]
    return [name for name in counts if name in set(kept)]


def _cell(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
