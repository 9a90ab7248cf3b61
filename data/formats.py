"""The kinds of files that nearsay reads, by the ends of their names."""

from enum import StrEnum
from pathlib import PurePath

__all__ = ["Format", "format_of", "readable_suffixes"]


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
    ".json": Format.JSONL,  # JSON lines only
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
