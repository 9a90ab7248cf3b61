"""Text extraction from Word documents (.docx).

Only the standard library is needed: a document is a ZIP archive with one relevant XML file. Text in content
controls, text boxes and tracked insertions is included, which python-docx 1.2 skips. ECMA-376 part 1,
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Final, NoReturn
from xml.etree import ElementTree as ET

from nearsay.data.document import FileText
from nearsay.data.json_values import UnusableRowError
from nearsay.data.lines import too_long

_WORDS: Final = frozenset(  # the namespaces of the transitional and the strict kind
    {
        "{http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "{http://purl.oclc.org/ooxml/wordprocessingml/main",
    }
)
_FORMULAS: Final = frozenset(  # whose runs of text are formulas'
    {
        "{http://schemas.openxmlformats.org/officeDocument/2006/math",
        "{http://purl.oclc.org/ooxml/officeDocument/math",
    }
)
# Word writes several bytes of XML for one of text, many more where each word is a run of its own.
_MARKUP_FACTOR: Final = 128
_DEPTH: Final = 1000  # of elements; tables in tables in text boxes come to a few dozen
# What zipfile lets through from damaged archives, beside its own error.
_DAMAGE: Final = (
    *(EOFError, KeyError, OSError, OverflowError, RuntimeError, ValueError),
    *(lzma.LZMAError, struct.error, zlib.error),
)
_NO_WORD_FILE: Final = (
    "it is no Word document that can be read ({}); open it and save it as .docx without a password"
)


def word_text(path: Path, max_text_bytes: int) -> FileText:
    """Read a .docx file; UnusableRowError says why it is impossible.

    Paragraphs, including headings, are separated by blank lines; tables have a line per row. The title is
    that of the document's properties, else the first paragraph of style Title. Deleted text, comments, notes,
    headers and footers are left out.
    """
    with path.open("rb") as stream:
        return _read(stream, max_text_bytes)


def _read(stream: BinaryIO, max_text_bytes: int) -> FileText:
    try:
        with zipfile.ZipFile(stream) as archive:
            limit = max_text_bytes * _MARKUP_FACTOR
            relations, body, properties = _Relations(), _Body(), _Properties()
            _parse(archive, "_rels/.rels", limit, relations)
            _parse(archive, relations.document or "word/document.xml", limit, body)
            if relations.properties in archive.namelist():
                _parse(archive, relations.properties, limit, properties)
    except (zipfile.BadZipFile, *_DAMAGE) as error:
        reason = str(error).strip("'\"") or type(error).__name__
        raise UnusableRowError(_NO_WORD_FILE.format(reason)) from error
    except ET.ParseError as error:
        raise UnusableRowError(_NO_WORD_FILE.format(f"XML: {error}")) from error
    text = "".join(body.parts).strip()
    if len(text) > max_text_bytes:  # here, in the reading process: it is not to be handed on first
        raise UnusableRowError(too_long("the text", max_text_bytes))
    return FileText(" ".join((properties.title or body.title).split()), text)


def _parse(archive: zipfile.ZipFile, name: str, limit: int, target: "_Xml") -> None:
    """Parse a part of the archive with `target`; the size that the archive declares may be wrong."""
    with archive.open(name.lstrip("/")) as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise UnusableRowError(too_long(f"{name} in the document", limit))
    parser = ET.XMLParser(target=target)  # noqa: S314 - a document type, and so an entity, is refused
    parser.feed(data)
    parser.close()


class _Xml:
    """Handles elements by name, `{namespace}name`."""

    def doctype(self, *_: object) -> NoReturn:
        raise UnusableRowError("its XML has a document type, which no Word document has; save it again")


class _Relations(_Xml):
    """Finds the main document and its properties."""

    document = properties = ""

    def start(self, _: str, attributes: dict[str, str]) -> None:
        kind, target = attributes.get("Type", ""), attributes.get("Target", "").lstrip("/")
        if kind.endswith("/officeDocument"):
            self.document = target
        elif kind.endswith("/core-properties"):
            self.properties = target


class _Properties(_Xml):
    title = ""
    _inside = False

    def start(self, name: str, _: dict[str, str]) -> None:
        self._inside = name == "{http://purl.org/dc/elements/1.1/}title"

    def end(self, _: str) -> None:
        self._inside = False

    def data(self, text: str) -> None:
        if self._inside:
            self.title += text


class _Body(_Xml):
    # What revisions took away, what says the same again, in AlternateContent, and readings above characters.
    _SKIPPED: Final = frozenset({"moveFrom", "del", "Fallback", "rt"})

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title = ""
        self._in_rows = False  # the part before was a row of a table
        self._paragraphs: list[list[str]] = []  # open ones: a text box stands inside a paragraph
        self._rows: list[list[str]] = []  # open ones: a table may stand in a cell
        self._cells: list[list[str]] = []
        self._depth = self._skipped = 0
        self._in_text = self._is_title = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise UnusableRowError(f"its XML is nested deeper than {_DEPTH:,} levels; save it again")
        space, _, kind = name.rpartition("}")
        if kind in self._SKIPPED:
            self._skipped += 1
        elif kind == "t":
            self._in_text = space in _WORDS or space in _FORMULAS
        elif space not in _WORDS:
            return
        elif kind == "p":
            self._paragraphs.append([])
            self._is_title = False
        elif kind == "pStyle":
            self._is_title = attributes.get(f"{space}}}val") == "Title"
        elif kind == "tbl":
            self._in_rows = self._in_rows and bool(self._cells)  # two tables stand apart
        elif kind == "tr":
            self._rows.append([])
        elif kind == "tc":
            self._cells.append([])
        elif self._paragraphs and not self._skipped:
            self._paragraphs[-1].append(
                {"tab": " ", "ptab": " ", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}.get(kind, "")
            )

    def data(self, text: str) -> None:
        if self._in_text and not self._skipped and self._paragraphs:
            self._paragraphs[-1].append(text)

    def end(self, name: str) -> None:
        self._depth -= 1
        space, _, kind = name.rpartition("}")
        if kind in self._SKIPPED:
            self._skipped -= 1
        elif kind == "t":
            self._in_text = False
        elif space not in _WORDS:
            return
        elif kind == "p" and self._paragraphs:
            text = "".join(self._paragraphs.pop()).strip()
            if self._is_title and not self.title:
                self.title = text
            self._add(text, in_rows=False)
        elif kind == "tc" and self._cells and self._rows:
            self._rows[-1].append(" ".join(self._cells.pop()))
        elif kind == "tr" and self._rows:
            row = self._rows.pop()
            self._add(" | ".join(row).strip() if any(row) else "", in_rows=True)

    def _add(self, text: str, *, in_rows: bool) -> None:
        if not text:
            return
        if self._cells:
            self._cells[-1].append(text)
            return
        self.parts.append(("\n" if in_rows and self._in_rows else "\n\n") + text)
        self._in_rows = in_rows
