"""Queries from a file or standard input."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.lines import without_options
from nearsay.data.read_options import Format, ReadOptions, Split, format_of
from nearsay.data.reading import read
from nearsay.data.row_files import rows_and_faults
from nearsay.data.sources import STDIN_NAME

_LONGEST = 100_000  # bytes of a line: what is longer is no question, and often a file of another kind


def iterate_queries(source: str | Path, stdin: BinaryIO | None = None) -> Iterator[Document | Fault]:
    """Yield queries one by one, each a `Document` with its line, in constant memory.

    source: a file with a query per line, where blank lines are skipped; a table (.jsonl, .csv, .tsv,
            .parquet) with a field `query`, or else its text field; or - for standard input, one per line
    stdin:  what - reads; None = the process's

    An unusable line is a Fault. Raises BadInputError if the file cannot be read.
    """
    path = Path(source)
    kind = None if str(source) == "-" else format_of(path)
    if kind is None or not kind.is_table:
        kind = Format.TXT
    field = _field_of_queries(path) if kind.is_table else None
    options = ReadOptions(text=field, metadata=(), format=kind, split=Split.LINES, max_text_bytes=_LONGEST)
    try:
        for item in read([str(source)], options, stdin=stdin):
            yield without_options(item) if isinstance(item, Fault) else item
    except BadInputError as error:
        said, nameless, _ = str(error).partition("Name it: --text")
        if not nameless:
            raise
        raise BadInputError(f"{said}Rename it to query") from error


def read_queries(path: Path) -> list[str]:
    """Read all queries of a file; BadInputError for an unusable row, and for a file without queries."""
    queries = []
    for item in iterate_queries(path):
        if isinstance(item, Fault):
            raise BadInputError(f"{item}. Fix the row, or leave it out")
        queries.append(item.text)
    if not queries:
        name = STDIN_NAME if str(path) == "-" else path
        raise BadInputError(f"{name} holds no queries. Name a file with one a line")
    return queries


def _field_of_queries(path: Path) -> str | None:
    """The field `query` of a table, ignoring case; None if its first row has none."""
    try:
        first = next((row for row in rows_and_faults(path) if not isinstance(row, Fault)), None)
    except BadInputError:  # the reader says what is wrong, and reads pipes, too
        return None
    return None if first is None else next((name for name in first[1] if name.lower() == "query"), None)
