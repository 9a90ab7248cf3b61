"""Rows of the files that training and evaluation read; what cannot be read is named by its line."""

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

    They are UTF-8, or what the file's mark or its bytes speak for; of the bytes a log warning tells.
    BadInputError names the line that cannot be read, such as one that is too long.

    longest: bytes of a line; None: as many as a row may have
    """
    for item in _lines(path, longest):
        if isinstance(item, Fault):
            raise BadInputError(f"{without_options(item)}. Mend or remove the line")
        yield item


def file_rows(path: str | Path) -> Iterator[Row]:
    """Read the rows of a tsv, csv, jsonl (or its .gz) or parquet file as `(line, fields by name)`.

    tsv and csv need a header line; their values are strings. A parquet file's line is the row's number.
    BadInputError for any row that cannot be read.
    """
    for item in rows_and_faults(path):
        if isinstance(item, Fault):
            raise BadInputError(f"{item}. Mend or remove the line")
        yield item


def sampled_rows(path: str | Path) -> tuple[list[Mapping[str, object]], Iterator[Row]]:
    """Read rows as `file_rows` does; gives the first ones, from which columns are told, and all of them."""
    rows = file_rows(path)
    sample = list(islice(rows, SAMPLE_ROWS))
    return [row for _, row in sample], chain(sample, rows)


def rows_and_faults(path: str | Path) -> Iterator[Row | Fault]:
    """Read rows as `file_rows` does, with a Fault in the place of each row that cannot be read.

    BadInputError for what spoils more than a row: no file, no header, a kind of file that has no rows, and
    damage after which nothing can be read (a cut .gz), because nobody knows how much is missing.
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
        raise BadInputError(f"{without_options(first)}. Mend or remove the line")
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
