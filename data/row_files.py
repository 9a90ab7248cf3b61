"""Rows of the files that training and evaluation read; an unreadable row is an error with its line."""

import logging
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Final

from nearsay.data.byte_streams import DamagedStreamError, counted, uncompressed
from nearsay.data.delimited import DelimitedRows
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.fields import Fields
from nearsay.data.lines import Lines, without_options
from nearsay.data.parquet_rows import ParquetRows
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_documents import Row, json_rows, signs_of_list

logger = logging.getLogger("nearsay")

MAX_ROW_BYTES: Final = 64 * 2**20
SAMPLE_ROWS: Final = 200  # of a file, from which its columns are told
_REST_LOST: Final = "the rest of the file is not read"  # what a fault says when the file ends in damage


def file_lines(path: str | Path, *, longest: int | None = None) -> Iterator[tuple[int, str]]:
    """Read a text file's lines (or its .gz) with their 1-based numbers.

    The encoding is UTF-8, or what a byte order mark or the bytes indicate; the latter logs a warning. Raises
    BadInputError, naming the line, if one cannot be read, for example because it is too long.

    longest: maximum bytes of a line; None: that of a row
    """
    for item in _lines(path, longest):
        if isinstance(item, Fault):
            raise BadInputError(f"{without_options(item)}. Fix or remove the line")
        yield item


def file_rows(path: str | Path) -> Iterator[Row]:
    """Read the rows of a tsv, csv, jsonl (or its .gz) or parquet file as `(line, fields by name)`.

    tsv and csv need a header line; their values are strings. The line of a parquet row is its number. Raises
    BadInputError for any row that cannot be read.
    """
    for item in rows_and_faults(path):
        if isinstance(item, Fault):
            raise BadInputError(f"{item}. Fix or remove the line")
        yield item


def sampled_rows(path: str | Path) -> tuple[list[Mapping[str, object]], Iterator[Row]]:
    """Read rows like `file_rows`. Returns the first ones, to guess columns from, and all of them."""
    rows = file_rows(path)
    sample = list(islice(rows, SAMPLE_ROWS))
    return [row for _, row in sample], chain(sample, rows)


def rows_and_faults(path: str | Path) -> Iterator[Row | Fault]:
    """Read rows like `file_rows`, with a Fault in place of each unreadable row.

    Raises BadInputError if more than a row is affected: no file, no header, a format without rows, or damage
    after which nothing can be read (a truncated .gz), because it is unknown how much is missing.
    """
    for item in _rows(path):
        if not isinstance(item, Fault):
            yield item
        elif item.reason.endswith(_REST_LOST):
            raise BadInputError(f"{item}. Get the file again")
        else:
            yield without_options(item)


def _lines(
    path: str | Path, longest: int | None = None, *, listed: tuple[bytes, ...] = ()
) -> Iterator[tuple[int, str] | Fault]:
    place = _file(path)
    try:
        with place.open("rb") as file:
            stream = uncompressed(counted(file, lambda _: None), expected=place.suffix.lower() == ".gz")
            yield from Lines(
                stream,
                name=str(path),
                encoding=None,
                limit=longest or MAX_ROW_BYTES,
                settled=lambda found: logger.warning(
                    "%s: its bytes are not utf-8; read as %s. Convert it to UTF-8 if that is wrong",
                    path,
                    found,
                ),
                listed=listed,
            )
    except DamagedStreamError as error:
        raise BadInputError(f"{path}: {error}. Get the file again") from error
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}. Check the file") from error


def _rows(path: str | Path) -> Iterator[Row | Fault]:
    kind = format_of(Path(path))
    if kind is Format.JSONL:
        yield from json_rows(_lines(path, listed=signs_of_list(str(path))), str(path))
    elif kind in {Format.TSV, Format.CSV}:
        yield from _delimited(path, quoted=kind is Format.CSV)
    elif kind is Format.PARQUET:
        yield from _parquet(path)
    else:
        raise BadInputError(
            f"{path} is no tsv, csv or jsonl file (or .gz of one), and no parquet file; convert it to one"
        )


def _delimited(path: str | Path, *, quoted: bool) -> Iterator[Row | Fault]:
    table = DelimitedRows(
        _after_a_readable_line(_lines(path)),
        name=str(path),
        quoted=quoted,
        delimiter=None,
        max_row_bytes=MAX_ROW_BYTES,
    )
    yield from table
    if table.line_quoted is not None:
        logger.warning(
            "%s:%d: cells are quoted as in CSV, and the quotes are taken for text. Rename it to .csv if that "
            "is wrong; its tabs are seen",
            path,
            table.line_quoted,
        )


def _after_a_readable_line(lines: Iterator[tuple[int, str] | Fault]) -> Iterator[tuple[int, str] | Fault]:
    first = next(lines, None)
    if isinstance(first, Fault):
        raise BadInputError(f"{without_options(first)}. Fix or remove the line")
    if first is not None:
        yield first
        yield from lines


def _parquet(path: str | Path) -> Iterator[Row | Fault]:
    place = _file(path)
    try:
        file = ParquetRows(place, str(path))
    except DamagedStreamError as error:
        raise BadInputError(f"{path}: {error}. Get the file again") from error
    if file.left_out and not file.survey.names:
        left_out = ", ".join(file.left_out)
        raise BadInputError(
            f"{path}: its columns hold bytes or durations alone: {left_out}. Write texts as strings"
        )
    if file.left_out:
        logger.warning(
            "%s: columns of bytes or durations are left out: %s. Write texts as strings",
            path,
            ", ".join(file.left_out),
        )
    yield from file.rows(Fields("", None, None, None))


def _file(path: str | Path) -> Path:
    place = Path(path)
    if not place.is_file():
        raise BadInputError(f"{path} does not exist, or is no file. Check the name")
    return place
