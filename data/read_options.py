"""Options for reading."""

import codecs
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from nearsay.data.errors import BadInputError


class Format(StrEnum):
    """The format of a file."""

    TXT = "txt"  # a passage a line or a paragraph, or one document
    CSV = "csv"  # a header line, then rows; fields may be quoted, doubled quotes inside
    TSV = "tsv"  # a header line, then rows; tab separated, no quoting
    JSONL = "jsonl"  # one JSON object a line
    PARQUET = "parquet"
    MARKDOWN = "markdown"  # one document, front matter allowed
    HTML = "html"  # one document
    PDF = "pdf"  # one document
    WORD = "docx"  # one document

    @property
    def needs_a_file(self) -> bool:
        """Whether it needs random access, so that it cannot be read from a pipe."""
        return self in {Format.PARQUET, Format.PDF, Format.WORD}

    @property
    def is_table(self) -> bool:
        """Whether its rows have named fields."""
        return self in {Format.CSV, Format.TSV, Format.JSONL, Format.PARQUET}


_SUFFIXES = {
    ".txt": Format.TXT,
    ".text": Format.TXT,
    ".log": Format.TXT,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".tab": Format.TSV,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSONL,  # or one list of objects
    ".parquet": Format.PARQUET,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".pdf": Format.PDF,
    ".docx": Format.WORD,
}
_COMPRESSIBLE = frozenset({Format.TXT, Format.CSV, Format.TSV, Format.JSONL})


def format_of(path: PurePath) -> Format | None:
    """The format by a file's name; None if it is unknown.

    A final `.gz` is ignored for text and row formats.
    """
    suffix = path.suffix.lower()
    if suffix != ".gz":
        return _SUFFIXES.get(suffix)
    inner = _SUFFIXES.get(PurePath(path.stem).suffix.lower())
    return inner if inner in _COMPRESSIBLE else None


def readable_suffixes() -> str:
    """The suffixes, for a message: `.txt, .csv, ...`."""
    return ", ".join(_SUFFIXES)


class Split(StrEnum):
    """How plain text is split into documents."""

    AUTO = "auto"  # the paragraphs of hard-wrapped text; the lines of any other, and of every .log
    LINES = "lines"
    PARAGRAPHS = "paragraphs"  # the lines between blank ones
    FILE = "file"  # all of it


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read: the fields of rows, the format and the encoding.

    Field names are exact; `metadata.year` is the field `year` within the field `metadata`. Raises
    BadInputError for an invalid value.
    """

    text: str | None = None  # field of the text; None = guessed by name, and reported in the notes
    id: str | None = None  # field of the id; None = guessed; a row without it has no id
    title: str | None = None  # field of the title; None = guessed
    metadata: tuple[str, ...] | None = None  # fields to keep as metadata; None = all others, () = none
    format: Format | None = None  # None = by the file's name
    split: Split = Split.AUTO  # of plain text
    whole_page: bool = False  # html: also read menus, banners and footers around a clear main element
    encoding: str | None = None  # of text files; None = UTF-8, or what a BOM, a page or the bytes indicate
    delimiter: str | None = None  # csv: one character; None = from the header line: , ; tab or |
    max_text_bytes: int = 4 * 2**20  # a longer row, or a longer text of a file, is a fault
    relative_to: str | None = None  # folder that file names are made relative to; None: absolute paths

    def __post_init__(self) -> None:
        if isinstance(self.metadata, str):
            raise BadInputError(
                f"metadata is {self.metadata!r}; give a tuple of field names: ({self.metadata!r},)"
            )
        if self.metadata is not None:
            object.__setattr__(self, "metadata", tuple(self.metadata))
        for name in (self.text, self.id, self.title, *(self.metadata or ())):
            if name is not None and not name.strip():
                raise BadInputError("a field name is empty; leave it out, or name a field")
        if self.format is not None:
            if self.format not in list(Format):
                raise BadInputError(f"format is {self.format!r}; take one of {', '.join(Format)}")
            object.__setattr__(self, "format", Format(self.format))
        if self.split not in list(Split):
            raise BadInputError(f"split is {self.split!r}; take one of {', '.join(Split)}")
        object.__setattr__(self, "split", Split(self.split))
        if self.encoding is not None:
            _check_encoding(self.encoding)
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n\0'):
            raise BadInputError(f"the delimiter is {self.delimiter!r}; give one character such as ';'")
        if self.max_text_bytes < 1:
            raise BadInputError(f"max_text_bytes is {self.max_text_bytes}; give 1 or more (4194304 is usual)")


# They decode to half characters, or hold hidden escapes: no file is meant to be in them.
_NO_FILE_ENCODINGS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined", "utf-7"}
)


def field_names(text: str) -> tuple[str, ...]:
    """Split names of fields at commas, as in "anchor, positive"."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def _check_encoding(name: str) -> None:
    try:
        known = codecs.lookup(name).name.replace("_", "-") not in _NO_FILE_ENCODINGS and isinstance(
            "".encode(name), bytes
        )
    except (LookupError, ValueError):
        known = False
    if not known:
        raise BadInputError(
            f"{name!r} is no text encoding known here; take one such as utf-8, cp1252, utf-16 or gb18030"
        )
