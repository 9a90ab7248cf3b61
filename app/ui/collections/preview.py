"""What files hold, as the readers understand them: their first rows, and which field is what."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from nearsay.app.ui.collections.odd_encoding import odd_encoding
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.field_survey import survey_header, survey_rows
from nearsay.data.fields import Fields, FieldSurvey, choose_fields
from nearsay.data.formats import Format
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read
from nearsay.data.row_files import rows_and_faults
from nearsay.data.sources import Source, find_sources

__all__ = ["FilesSeen", "Table", "look_at"]

_FILES: Final = 8  # that are opened
_ROWS: Final = 8  # documents shown of each
_SURVEYED: Final = 100
_LARGEST_PAGE: Final = 5_000_000  # bytes of a PDF that is opened: a longer one would be waited for


@dataclass(frozen=True, slots=True)
class Table:
    """What the first rows of the files with named fields say, where all of them say the same."""

    names: tuple[str, ...]
    text_names: tuple[str, ...]  # fields that hold text
    id_names: tuple[str, ...]
    fields: Fields | None  # which is what, as far as it can be told; None: the text cannot be


@dataclass(frozen=True, slots=True)
class FilesSeen:
    """A look at some files."""

    files: int
    bytes: int
    formats: tuple[tuple[Format, int], ...]  # and how many files of each, the commonest first
    documents: tuple[Document, ...]  # the first ones
    faults: tuple[Fault, ...]  # among them
    notes: tuple[str, ...]  # what was passed over or guessed
    table: Table | None  # None: no file has named fields, or they differ from file to file
    tables_differ: bool
    encoding: str | None = None  # that a file seems to be in which is not UTF-8


def look_at(sources: Sequence[str | Path], options: ReadOptions) -> FilesSeen:
    """Open the first of the files and read their first rows; BadInputError if nothing can be read at all.

    What the text is need not be known: where it cannot be told, `table.fields` is None and there are no
    documents of that file.
    """
    found, notes = find_sources(sources, None)
    folder = None if options.relative_to is None else Path(options.relative_to)
    named = found if folder is None else [source.relative_to(folder) for source in found]
    opened = _some(found)
    table, differ = _table(opened, options.encoding)
    paths = [source.path for source in opened if source.path is not None]
    documents: list[Document] = []
    faults: list[Fault] = []
    said = dict.fromkeys(notes)
    for source in opened:
        if source.format is Format.PDF and (source.size or 0) > _LARGEST_PAGE:
            continue
        try:
            reading = read([source.path or source.name], options)
            for item in islice(reading, _ROWS):
                if isinstance(item, Document):
                    documents.append(item)
                else:
                    faults.append(item)
            said |= dict.fromkeys(reading.notes)
        except BadInputError as error:
            if table is None or table.fields is not None:
                name = source.name if folder is None else source.relative_to(folder).name
                faults.append(_as_fault(name, str(error)))
    counts = Counter(source.format for source in found if source.format is not None)
    return FilesSeen(
        files=len(named),
        bytes=sum(source.size or 0 for source in found),
        formats=tuple(counts.most_common()),
        documents=tuple(documents[: 2 * _ROWS]),
        faults=tuple(faults),
        notes=tuple(said),
        table=table,
        tables_differ=differ,
        encoding=next(filter(None, map(odd_encoding, paths)), None),
    )


def _as_fault(name: str, said: str) -> Fault:
    """What keeps a whole file from being read; it may begin with the file's name and a line."""
    place = re.match(rf"{re.escape(name)}(?::(\d+))?: ", said)
    if place is None:
        return Fault(name, None, said)
    return Fault(name, int(place[1]) if place[1] else None, said[place.end() :])


def _some(found: Sequence[Source]) -> list[Source]:
    """A few files, of every kind one at least."""
    first = {source.format: source for source in reversed(found)}
    chosen = list(first.values())[::-1]
    chosen += [source for source in found if source not in chosen][: max(0, _FILES - len(chosen))]
    return [source for source in found if source in chosen]


def _table(opened: Sequence[Source], encoding: str | None) -> tuple[Table | None, bool]:
    tables: list[Table] = []
    for source in opened:
        if source.format is None or not source.format.is_table or source.path is None:
            continue
        try:
            survey = _survey(source.path, source.format, encoding)
        except BadInputError:
            continue
        if survey is None:
            continue
        try:
            fields = choose_fields(survey, ReadOptions(), source.name)[0]
        except BadInputError:
            fields = None
        tables.append(Table(survey.names, survey.text_names, survey.id_names, fields))
    if not tables or any(table.fields != tables[0].fields for table in tables):
        return None, len(tables) > 1
    names = set(tables[0].names).intersection(*(table.names for table in tables))
    first = tables[0]
    return (
        Table(
            tuple(name for name in first.names if name in names),
            tuple(name for name in first.text_names if name in names),
            tuple(name for name in first.id_names if name in names),
            first.fields,
        ),
        False,
    )


def _survey(path: Path, kind: Format, encoding: str | None) -> FieldSurvey | None:
    first = islice(rows_and_faults(path, encoding), _SURVEYED)
    rows = [row[1] for row in first if not isinstance(row, Fault)]
    if not rows:
        return None
    if kind in (Format.CSV, Format.TSV):
        return survey_header(list(rows[0]), rows)
    return survey_rows(rows)
