"""Rows of the files that training and evaluation read: all good, or an error that names the line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from nearsay.data.byte_streams import DamagedStreamError, counted, uncompressed
from nearsay.data.delimited import DelimitedRows
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.formats import Format, format_of
from nearsay.data.json_lines import json_rows
from nearsay.data.lines import Lines

__all__ = ["file_lines", "file_rows"]

_MAX_ROW_BYTES: Final = 64 * 2**20


def file_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Read a text file's lines (or its .gz) with their 1-based numbers; UTF-8, or what its mark says.

    BadInputError names the line that cannot be read.
    """
    place = Path(path)
    if not place.is_file():
        raise BadInputError(f"{path} does not exist, or is no file. Check the name")
    try:
        with place.open("rb") as file:
            stream = uncompressed(counted(file, lambda _: None), expected=place.suffix.lower() == ".gz")
            for item in Lines(stream, name=str(path), encoding=None, limit=_MAX_ROW_BYTES):
                if isinstance(item, Fault):
                    raise BadInputError(f"{item}. Mend or remove the line")
                yield item
    except DamagedStreamError as error:
        raise BadInputError(f"{path}: {error}. Get the file again") from error
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}. Check the file") from error


def file_rows(path: str | Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Read the rows of a tsv, csv or jsonl file (or its .gz) as `(line, fields by name)`.

    tsv and csv need a header line; their values are strings. BadInputError for any row that cannot be read.
    """
    kind = format_of(Path(path))
    if kind is Format.JSONL:
        for row in json_rows(file_lines(path), str(path)):
            if isinstance(row, Fault):
                raise BadInputError(f"{row}. Mend or remove the line")
            yield row[0], row[1]
    elif kind in {Format.TSV, Format.CSV}:
        table = DelimitedRows(
            file_lines(path),
            name=str(path),
            quoted=kind is Format.CSV,
            delimiter=None,
            max_row_bytes=_MAX_ROW_BYTES,
        )
        for cells in table:
            if isinstance(cells, Fault):
                raise BadInputError(f"{cells}. Mend or remove the line")
            yield cells[0], dict(zip(table.header, cells[1], strict=True))
    else:
        raise BadInputError(f"{path} is no tsv, csv or jsonl file (or .gz of one); convert it to one")
