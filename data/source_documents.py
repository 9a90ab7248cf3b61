"""Documents from one file, whatever its format."""

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, groupby, pairwise
from pathlib import PurePath
from typing import BinaryIO, Final, TypeAlias

from nearsay.data.byte_streams import DamagedStreamError, counted, uncompressed
from nearsay.data.delimited import DelimitedRows, cell_value
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.fields import Fields, FieldSurvey, choose_fields
from nearsay.data.json_values import UnusableRowError, check_string, is_blank
from nearsay.data.lines import Lines, too_long
from nearsay.data.parquet_rows import ParquetRows
from nearsay.data.read_options import Format, ReadOptions, Split
from nearsay.data.row_documents import (
    Row,
    RowDocuments,
    first_rows,
    json_rows,
    signs_of_list,
    survey_header,
    survey_rows,
)
from nearsay.data.sources import Source
from nearsay.data.whole_files import packed_document, text_file_document

NumberedLine: TypeAlias = tuple[int, str] | Fault

_SAMPLE_LINES: Final = 400
_SAMPLE_CHARACTERS: Final = 200_000
# Lines are cut by editors and mail programs at 60 to 100 columns; a longer line is a paragraph by itself.
_WIDEST: Final = 130
_NARROWEST: Final = 30
_LEAST_PAIRS: Final = 3  # of lines that follow each other within a block: of fewer nothing is certain
# How many of them were ended because the next word did not fit, and how many go on in lower case. A program
# fills nearly every line, and German nouns begin many; people who wrap by hand leave a third of them short.
_FULL_AND_LOWER: Final = ((0.8, 0.25), (0.5, 0.6))
_MID_SENTENCE: Final = 0.5  # of them do not end a sentence
# Scripts without spaces between words: Thai, Lao, Burmese and Khmer, and Chinese and Japanese, whose lines
# are cut between any two characters.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u3190-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_UNSPACED_WORD: Final = 6  # characters of them that are kept together
_ENDS: Final = frozenset(".!?:;…。！？")
_CLOSING: Final = "\"'”’»)]*_"


def take_sample(lines: Iterator[NumberedLine]) -> list[NumberedLine]:
    """Take the lines from which the kind of text is guessed."""
    taken: list[NumberedLine] = []
    characters = 0
    for item in lines:
        taken.append(item)
        characters += 0 if isinstance(item, Fault) else len(item[1])
        if len(taken) == _SAMPLE_LINES or characters >= _SAMPLE_CHARACTERS:
            break
    return taken


def is_hard_wrapped(sample: Iterable[NumberedLine]) -> bool | None:
    """Whether lines are wrapped at a margin, not ends of sentences or records; None if it is unclear.

    They are if blank lines separate blocks in which most lines end only because the next word would have
    exceeded the margin (the width that nine in ten lines keep), many in mid-sentence. Standalone lines (a
    sentence, a title, a record each) end anywhere, and records have no blank lines: a single block, or one of
    a few lines, is unclear.
    """
    lines = [item[1].strip() for item in sample if not isinstance(item, Fault)]
    blocks = [list(block) for filled, block in groupby(lines, bool) if filled]
    pairs = [pair for block in blocks for pair in pairwise(block)]
    if not pairs:
        return False
    widths = sorted(len(line) for line, _ in pairs)
    margin = widths[min(len(widths) - 1, len(widths) * 9 // 10)]
    if not _NARROWEST <= margin <= _WIDEST:
        return False
    full = sum(len(line) + 1 + _first_word(after) > margin for line, after in pairs)
    in_sentence = sum(not _ends_sentence(line) for line, _ in pairs)
    cased = [after[0] for _, after in pairs if after[0].lower() != after[0].upper()]
    lower = sum(letter.islower() for letter in cased)
    is_filled = any(
        full >= filled * len(pairs) and lower >= lower_case * len(cased)
        for filled, lower_case in _FULL_AND_LOWER
    )
    if not is_filled or in_sentence < _MID_SENTENCE * len(pairs):
        return False
    if len(blocks) > 1 and len(pairs) >= _LEAST_PAIRS:
        return True
    return None if 2 * lower > len(pairs) else False


def _first_word(line: str) -> int:
    """Number of characters at the start of a line that a margin does not break."""
    word = line.split(maxsplit=1)[0]
    return min(len(word), _UNSPACED_WORD) if _UNSPACED.match(word) else len(word)


def _ends_sentence(line: str) -> bool:
    return line.rstrip(_CLOSING)[-1:] in _ENDS


def paragraphs(lines: Iterable[NumberedLine], name: str, limit: int) -> Iterator[NumberedLine]:
    """Join the lines between blank lines; a paragraph has the number of its first line.

    limit: maximum bytes of a paragraph; a longer one is a fault of the file `name`, like an unreadable line,
           which ends the paragraph before it
    """
    held: list[str] = []
    first = size = 0
    for item in chain(lines, [(0, "")]):
        line = "" if isinstance(item, Fault) else item[1].strip()
        if line:
            number = 0 if isinstance(item, Fault) else item[0]
            first = first if held or size else number
            size += len(line.encode("utf-8", "surrogatepass")) + 1
            if size <= limit + 1:
                held.append(line)
            else:
                held.clear()  # skipped to its end, never held
            continue
        if size > limit + 1:
            yield Fault(name, first, too_long("the paragraph", limit))
        elif held:
            yield first, _joined(held)
        held, size = [], 0
        if isinstance(item, Fault):
            yield item


def _joined(lines: list[str]) -> str:
    parts = [lines[0]]
    for before, after in pairwise(lines):
        hyphenated = before.endswith("-") and not before.endswith("--") and before[-2:-1].isalpha()
        joined = (hyphenated and after[0].isalpha()) or (
            _UNSPACED.match(before[-1]) and _UNSPACED.match(after)
        )
        parts.append(after if joined else f" {after}")
    return "".join(parts)


class SourceDocuments:
    """Reads sources one after another with the same options."""

    def __init__(
        self,
        options: ReadOptions,
        stdin: BinaryIO | None,
        *,
        count: Callable[[int], None],
        note: Callable[[str], None],
    ) -> None:
        """`count` gets the number of bytes read; `note` what was guessed, once per kind of file."""
        self.encodings: dict[str, str] = {}
        """Of the files, by name, that are not in the encoding that was expected."""
        self.surveys: dict[str, FieldSurvey] = {}
        """Of the files with named fields, by name."""
        self._options = options
        self._stdin = stdin
        self._count = count
        self._note = note
        self._noted: set[object] = set()

    def documents(self, source: Source) -> Iterator[Document | Fault]:
        """Read one source. BadInputError: its fields do not match the options; OSError: reading fails."""
        try:
            check_string(source.document_source or "", "the file's path")
        except UnusableRowError:
            yield Fault(source.name, None, "the file's path is not UTF-8; rename it")
            return
        if source.format in {Format.PDF, Format.WORD}:
            yield packed_document(source, self._options)
            self._count(source.size or 0)
        elif source.format is Format.PARQUET:
            yield from self._parquet(source)
        elif source.format in {Format.HTML, Format.MARKDOWN} or (
            source.format is Format.TXT and self._options.split is Split.FILE
        ):
            yield self._whole_file(source, source.format)
        else:
            yield from self._from_lines(source)

    def lines(self, source: Source) -> Iterator[NumberedLine]:
        """Read the lines of a text source; OSError if reading fails."""
        try:
            with self._opened(source) as stream:
                yield from Lines(
                    stream,
                    name=source.name,
                    encoding=self._options.encoding,
                    limit=self._options.max_text_bytes,
                    settled=lambda encoding: self._read_as(source, encoding),
                    listed=signs_of_list(source.name) if source.format in {None, Format.JSONL} else (),
                )
        except DamagedStreamError as error:
            yield Fault(source.name, None, str(error))

    @contextmanager
    def _opened(self, source: Source) -> Iterator[io.BufferedReader]:
        """The bytes of a source, decompressed; DamagedStreamError if its name says gzip and it is not."""
        with ExitStack() as stack:
            file: BinaryIO
            if source.path is None:
                file = self._stdin or sys.stdin.buffer
            else:
                file = stack.enter_context(source.path.open("rb"))
            yield uncompressed(counted(file, self._count), expected=source.name.lower().endswith(".gz"))

    def _whole_file(self, source: Source, kind: Format) -> Document | Fault:
        try:
            with self._opened(source) as stream:
                return text_file_document(
                    source,
                    kind,
                    stream,
                    self._options,
                    settled=lambda encoding: self._read_as(source, encoding),
                    shortened=lambda: self._note_once(
                        "shortened",
                        f"{source.name}: the main part of the page is taken, without the menus, asides and "
                        f"banners around it{self._whole_page}",
                    ),
                )
        except DamagedStreamError as error:
            return Fault(source.name, None, str(error))

    @property
    def _whole_page(self) -> str:
        # Commands that want texts alone have no such option.
        return "" if self._options.metadata == () else " (--whole-page takes all)"

    def _from_lines(self, source: Source) -> Iterator[Document | Fault]:
        kind, numbered = source.format, self.lines(source)
        if kind is None:
            kind, numbered = _told_by_first_line(numbered)
            if kind is Format.TXT:
                self._note_once(
                    (kind, source.name),
                    f"{source.name}: read as plain text (--input-format names another format, such as csv)",
                )
        if kind is Format.TXT:
            yield from _passages(self._split(numbered, source), source)
        elif kind is Format.JSONL:
            yield from self._json(numbered, source)
        else:
            yield from self._delimited(numbered, source, kind)

    def _split(self, lines: Iterator[NumberedLine], source: Source) -> Iterator[NumberedLine]:
        """Keep lines, or join them to paragraphs, as requested or as the first ones indicate."""
        split = self._options.split
        if split is Split.AUTO and PurePath(source.name.lower().removesuffix(".gz")).suffix != ".log":
            sample = take_sample(lines)
            lines = chain(sample, lines)
            wrapped = is_hard_wrapped(sample)
            if wrapped is None:
                self._note_once(
                    Split.LINES,
                    f"{source.name}: each line is taken by itself, though lines look hard-wrapped "
                    "(--split paragraphs joins them, --split file takes the whole file)",
                )
            elif wrapped:
                self._note_once(
                    Split.PARAGRAPHS,
                    f"{source.name}: read as paragraphs: lines are hard-wrapped (--split lines takes each "
                    "line by itself)",
                )
                split = Split.PARAGRAPHS
        if split is Split.PARAGRAPHS:
            return paragraphs(lines, source.name, self._options.max_text_bytes)
        return lines

    def _read_as(self, source: Source, encoding: str) -> None:
        asked = self._options.encoding or "utf-8"
        self.encodings[source.name] = encoding
        self._note_once(
            (source.name, encoding),
            f"{source.name}: read as {encoding}: its bytes are not {asked}"
            if encoding != "utf-8"
            else f"{source.name}: read as utf-8, which its bytes are, not as {asked}",
        )

    def _json(self, lines: Iterator[NumberedLine], source: Source) -> Iterator[Document | Fault]:
        rows = json_rows(lines, source.name)
        asked = self._options
        first = first_rows(rows, (asked.text, asked.id, asked.title, *(asked.metadata or ())))
        good = [row[1] for row in first if not isinstance(row, Fault)]
        if not good:  # the file is at its end: nothing to guess from
            yield from (row for row in first if isinstance(row, Fault))
            return
        fields = self._fields(survey_rows(good), source, Format.JSONL)
        yield from self._row_documents(fields, source).documents(chain(first, rows))

    def _delimited(
        self, lines: Iterator[NumberedLine], source: Source, kind: Format
    ) -> Iterator[Document | Fault]:
        table = DelimitedRows(
            lines,
            name=source.name,
            quoted=kind is Format.CSV,
            delimiter=self._options.delimiter,
            max_row_bytes=self._options.max_text_bytes,
        )
        if kind is Format.CSV and self._options.delimiter is None and table.delimiter != ",":
            self._note_once(
                (kind, table.delimiter), f"{source.name}: delimiter = {table.delimiter!r} (guessed)"
            )
        if "" in table.header:
            self._note_once((kind, table.header), f"{source.name}: columns without a name are left out")
        rows = iter(table)
        first = first_rows(rows)
        good = [row[1] for row in first if not isinstance(row, Fault)]
        fields = self._fields(survey_header(table.header, good), source, kind)
        typed = _typed_rows(chain(first, rows), fields)
        yield from self._row_documents(fields, source).documents(typed)
        if table.line_quoted is not None:
            self._note_once(
                (kind, source.name),
                f"{source.name}:{table.line_quoted}: cells are quoted as in CSV, and the quotes are taken "
                "for text (--input-format csv reads them)",
            )

    def _parquet(self, source: Source) -> Iterator[Document | Fault]:
        if source.path is None:
            raise BadInputError("Parquet cannot be read from standard input; name a file")
        try:
            table = ParquetRows(source.path, source.name, max_row_bytes=2 * self._options.max_text_bytes)
        except DamagedStreamError as error:
            yield Fault(source.name, None, str(error))
            return
        if table.left_out:
            note = f"{source.name}: columns of bytes or durations are left out: {', '.join(table.left_out)}"
            self._note_once((Format.PARQUET, table.left_out), note)
        fields = self._fields(table.survey, source, Format.PARQUET)
        size, counted_bytes = source.size or 0, 0
        for item in self._row_documents(fields, source, nan_is_missing=True).documents(table.rows(fields)):
            yield item
            if table.rows_read % 512 == 0:
                so_far = size * table.rows_read // max(table.rows_total, 1)
                self._count(so_far - counted_bytes)
                counted_bytes = so_far
        self._count(size - counted_bytes)

    def _fields(self, survey: FieldSurvey, source: Source, kind: Format) -> Fields:
        self.surveys[source.name] = survey
        fields, note = choose_fields(survey, self._options, source.name)
        if note is not None:
            self._note_once((kind, fields, survey.names), note)
        return fields

    def _row_documents(self, fields: Fields, source: Source, *, nan_is_missing: bool = False) -> RowDocuments:
        return RowDocuments(
            fields,
            name=source.name,
            source=source.document_source,
            max_text_bytes=self._options.max_text_bytes,
            nan_is_missing=nan_is_missing,
        )

    def _note_once(self, key: object, note: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            self._note(note)


def _passages(lines: Iterator[NumberedLine], source: Source) -> Iterator[Document | Fault]:
    for item in lines:
        if isinstance(item, Fault):
            yield item
            continue
        number, line = item
        line = line.strip()
        if "\0" in line:
            yield Fault(source.name, number, "the line holds a NUL character")
        elif not is_blank(line):
            yield Document(line, source=source.document_source, line=number)


def _told_by_first_line(
    lines: Iterator[NumberedLine],
) -> tuple[Format, Iterator[NumberedLine]]:
    """Distinguish JSON lines from plain text; leading blank lines are insignificant in both."""
    before: list[NumberedLine] = []
    for item in lines:
        if not isinstance(item, Fault) and not item[1].strip():
            continue
        before.append(item)
        if not isinstance(item, Fault):
            is_json = item[1].lstrip().startswith("{")
            return Format.JSONL if is_json else Format.TXT, chain(before, lines)
    return Format.TXT, iter(before)


def _typed_rows(rows: Iterator[Row | Fault], fields: Fields) -> Iterator[Row | Fault]:
    """Convert metadata cells to their types; drop empty ones and columns without a name."""
    as_text = {fields.text, fields.id, fields.title}
    for row in rows:
        if isinstance(row, Fault):
            yield row
            continue
        number, cells = row
        typed: dict[str, object] = {}
        for name, cell in cells.items():
            if name in as_text:
                typed[name] = cell
            elif name:
                value = cell_value(str(cell))
                if value is not None:
                    typed[name] = value
        yield number, typed
