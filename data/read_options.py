"""How texts are read: the choices a caller has."""

import codecs
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from nearsay.data.errors import BadInputError


class Format(StrEnum):
    """What is in a file."""

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
        """Whether it is read here and there, and so from no pipe."""
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
    """Say what a file holds by its name; None: not a name that nearsay knows.

    `.gz` after the suffix of a text or row format is looked through.
    """
    suffix = path.suffix.lower()
    if suffix != ".gz":
        return _SUFFIXES.get(suffix)
    inner = _SUFFIXES.get(PurePath(path.stem).suffix.lower())
    return inner if inner in _COMPRESSIBLE else None


def readable_suffixes() -> str:
    """List the suffixes for a message: `.txt, .csv, ...`."""
    return ", ".join(_SUFFIXES)


class Split(StrEnum):
    """What of a plain text file is one document."""

    AUTO = "auto"  # the paragraphs of hard-wrapped text; the lines of any other, and of every .log
    LINES = "lines"
    PARAGRAPHS = "paragraphs"  # the lines between blank ones
    FILE = "file"  # all of it


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which fields of a row mean what, and how the bytes are read.

    Field names are exact; `metadata.year` reaches the field `year` inside the field `metadata`. BadInputError
    for a value that cannot be.
    """

    text: str | None = None  # the field with the text; None = guessed by name, and said in the notes
    id: str | None = None  # the field with the id; None = guessed; a row without one has no id
    title: str | None = None  # the field with the title; None = guessed
    metadata: tuple[str, ...] | None = None  # the fields to keep beside; None = all the others, () = none
    format: Format | None = None  # None = by the file's name
    split: Split = Split.AUTO  # txt
    whole_page: bool = False  # html: also what stands around a clear main element: menus, banners, footers
    encoding: str | None = None  # of files of text; None = UTF-8, or what a BOM, a page or the bytes say
    delimiter: str | None = None  # csv: one character; None = seen in the header line: , ; tab or |
    max_text_bytes: int = 4 * 2**20  # a longer row, or a longer text of a file, is a fault
    relative_to: str | None = None  # a folder: files are called by their place in it, not by their whole path

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
    """The names of fields in a text that has commas between them, as in "anchor, positive"."""
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
