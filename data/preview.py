"""Previews of files: their first rows, and the roles of their fields."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault, of_whole_file
from nearsay.data.fields import Fields, FieldSurvey, choose_fields
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading import read
from nearsay.data.reading_process import ReadingStoppedError, read_apart
from nearsay.data.sources import Source, find_sources

_FILES: Final = 8  # that are opened
_ROWS: Final = 8  # documents read of each; of all together twice as many are shown
_CHARACTERS: Final = 2000  # kept of each
_SECONDS: Final = 10.0  # for one file; usual ones take tenths
_SECONDS_OF_ALL: Final = 20.0
_LEAST_SECONDS: Final = 1.0
_LARGEST_PAGE: Final = 5_000_000  # bytes of a PDF that is opened: a longer one would be waited for


@dataclass(frozen=True, slots=True)
class Table:
    """The named fields in the first rows of files, if these agree."""

    names: tuple[str, ...]
    text_names: tuple[str, ...]  # fields that hold text
    id_names: tuple[str, ...]
    fields: Fields | None  # the roles of fields, as far as they can be guessed; None: the text cannot be


@dataclass(frozen=True, slots=True)
class FilesSeen:
    """A preview of some files."""

    files: int
    bytes: int
    formats: tuple[tuple[Format, int], ...]  # number of files of each format, most common first
    documents: tuple[Document, ...]  # the first ones
    faults: tuple[Fault, ...]  # among them
    notes: tuple[str, ...]  # what was skipped or guessed
    table: Table | None  # None: no file has named fields, or they differ between files
    tables_differ: bool
    encodings: Mapping[str, str] = field(default_factory=dict)  # detected, if not as given
    stopped: tuple[Fault, ...] = ()  # files whose preview took too much time or memory, or was not started


def look_at(sources: Sequence[str | Path], options: ReadOptions) -> FilesSeen:
    """Read the first rows of the first files. Raises BadInputError if nothing can be read.

    If the text field cannot be guessed, `table.fields` is None and there are no documents of that file. The
    files are read in a separate process, which is stopped if a file takes too much time or memory; the result
    says which.
    """
    try:
        found, notes = read_apart(find_sources, _SECONDS, sources, None)
    except ReadingStoppedError as error:
        raise BadInputError(
            f"{', '.join(map(str, sources))} cannot be searched: {error}. Name a folder with fewer files"
        ) from None
    folder = None if options.relative_to is None else Path(options.relative_to)
    opened = _some(found)
    seen: list[_FileSeen] = []
    stopped: list[Fault] = []
    until = time.monotonic() + _SECONDS_OF_ALL
    for source in opened:
        name = source.name if folder is None else source.relative_to(folder).name
        left = until - time.monotonic()
        if left < _LEAST_SECONDS:
            stopped.append(Fault(name, None, "not read, because earlier files took too long"))
            continue
        try:
            seen.append(read_apart(_look_into, min(_SECONDS, left), source, options, name))
        except ReadingStoppedError as error:
            reason = (
                f"its preview was stopped: {error}. Check that it is the file you mean; "
                "what is usable in it can be added all the same"
            )
            stopped.append(Fault(name, None, reason))
    table, differ = _common_table([each.table for each in seen if each.table is not None])
    counts = Counter(source.format for source in found if source.format is not None)
    return FilesSeen(
        files=len(found),
        bytes=sum(source.size or 0 for source in found),
        formats=tuple(counts.most_common()),
        documents=_first_of_each([each.documents for each in seen]),
        faults=tuple(
            fault
            for each in seen
            for fault in each.faults
            if each.refused is None or table is None or table.fields is not None or fault != each.refused
        ),
        notes=tuple(dict.fromkeys([*notes, *(note for each in seen for note in each.notes)])),
        table=table,
        tables_differ=differ,
        encodings={name: encoding for each in seen for name, encoding in each.encodings.items()},
        stopped=tuple(stopped),
    )


@dataclass(frozen=True, slots=True)
class _FileSeen:
    """A preview of one file."""

    documents: tuple[Document, ...]
    faults: tuple[Fault, ...]
    refused: Fault | None  # the fault that prevents reading the whole file
    notes: tuple[str, ...]
    encodings: dict[str, str]
    table: Table | None


def _look_into(source: Source, options: ReadOptions, name: str) -> _FileSeen:
    """Read a file's first rows; runs in the reading process."""
    documents: list[Document] = []
    faults: list[Fault] = []
    refused = None
    place, folder = source.path, options.relative_to
    if place is not None and folder is not None and not place.is_relative_to(Path(folder).resolve()):
        place = None  # a link in the folder to a file elsewhere: the link has a name in it
    reading = read([place or source.name], options)
    large = source.format is Format.PDF and (source.size or 0) > _LARGEST_PAGE
    try:
        for item in () if large else islice(reading, _ROWS):
            if isinstance(item, Document):
                documents.append(replace(item, text=item.text[:_CHARACTERS]))
            else:
                faults.append(item)
    except BadInputError as error:
        refused = of_whole_file(str(error), name, str(source.path))
        faults.append(refused)
    return _FileSeen(
        documents=tuple(documents),
        faults=tuple(faults),
        refused=refused,
        notes=tuple(reading.notes),
        encodings=dict(reading.encodings),
        table=next((_table(survey, name) for survey in reading.surveys.values()), None),
    )


def _first_of_each(files: Sequence[tuple[Document, ...]]) -> tuple[Document, ...]:
    """As many as are shown, evenly from each file, by file."""
    rows = sorted((row, at) for at, documents in enumerate(files) for row in range(len(documents)))
    return tuple(files[at][row] for at, row in sorted((at, row) for row, at in rows[: 2 * _ROWS]))


def _some(found: Sequence[Source]) -> list[Source]:
    """A few files, at least one of each format."""
    first = {source.format: source for source in reversed(found)}
    chosen = list(first.values())[::-1]
    chosen += [source for source in found if source not in chosen][: max(0, _FILES - len(chosen))]
    return [source for source in found if source in chosen]


def _table(survey: FieldSurvey, name: str) -> Table:
    try:
        fields = choose_fields(survey, ReadOptions(), name)[0]
    except BadInputError:
        fields = None
    return Table(survey.names, survey.text_names, survey.id_names, fields)


def _common_table(tables: Sequence[Table]) -> tuple[Table | None, bool]:
    """What all tables have in common, and whether their text, id or title differ."""
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
