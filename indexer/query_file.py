"""A user's own queries, from a file."""

import json
from pathlib import Path

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read

__all__ = ["read_queries"]


def read_queries(path: Path) -> list[str]:
    """The queries in a file: of .txt a line each, of .jsonl the field `query`, or the field that holds text.

    BadInputError for a row that cannot be used, and for a file without any.
    """
    options = ReadOptions(text="query" if _names_queries(path) else None, split=Split.LINES)
    queries = []
    for item in read([str(path)], options):
        if not isinstance(item, Document):
            raise BadInputError(f"{item}. Mend the row, or leave it out")
        queries.append(item.text)
    if not queries:
        raise BadInputError(f"{path} holds no queries. Name a file with one a line")
    return queries


def _names_queries(path: Path) -> bool:
    if path.suffix.lower() != ".jsonl":
        return False
    with path.open("rb") as stream:
        first = stream.readline(1_000_000)
    try:
        row = json.loads(first)
    except ValueError:  # the reader names the line and says why
        return False
    return isinstance(row, dict) and "query" in row
