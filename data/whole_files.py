"""Files that are one document each: plain text, Markdown, HTML, PDF, Word."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nearsay.data.byte_streams import text_stream
from nearsay.data.document import Document, JsonValue
from nearsay.data.encoding_guess import encoding_hint, settled_encoding
from nearsay.data.faults import Fault
from nearsay.data.formats import Format
from nearsay.data.html_text import html_encoding, html_text
from nearsay.data.json_values import UnusableRowError, check_string
from nearsay.data.lines import too_long
from nearsay.data.markdown_text import markdown_text
from nearsay.data.pdf_text import pdf_text
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading_process import ReadingStoppedError, read_apart, seconds_for
from nearsay.data.row_documents import checked_text, row_id
from nearsay.data.sources import Source
from nearsay.data.word_text import word_text

__all__ = ["STOPPED", "packed_document", "text_file_document"]

_MARKUP_FACTOR: Final = 8  # a page may be that much longer than the text in it
_SAMPLE_BYTES: Final = 256 * 2**10
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")
STOPPED: Final = "{}, as no usual file does, and was not read; look at it, save it anew, or leave it out"

_Parts = tuple[str, str, dict[str, JsonValue], bool]  # title, text, metadata, whether parts were left out


def packed_document(source: Source, options: ReadOptions) -> Document | Fault:
    """Read a PDF or Word file; a PDF's metadata is `{"pages": n}`."""
    if source.path is None:
        return Fault(source.name, None, f"{source.format} is read from a file only")
    read = _pdf_parts if source.format is Format.PDF else _word_parts
    try:
        title, text, metadata, _ = read_apart(
            read, seconds_for(source.size), source.path, options.max_text_bytes
        )
        return _document(source, options, title, text, metadata)
    except UnusableRowError as error:
        return Fault(source.name, None, str(error))
    except ReadingStoppedError as error:
        return Fault(source.name, None, STOPPED.format(error))


def text_file_document(
    source: Source,
    kind: Format,
    stream: io.BufferedReader,
    options: ReadOptions,
    *,
    settled: Callable[[str], None],
    shortened: Callable[[], None],
) -> Document | Fault:
    """Read a plain text, Markdown or HTML file as one document.

    settled:   told the encoding, where the bytes say another than the options or the page itself
    shortened: called where a page has a main element, and the menus and banners around it are left out
    """
    limit = options.max_text_bytes * (_MARKUP_FACTOR if kind is Format.HTML else 1)
    stream, encoding, marked = text_stream(stream, options.encoding)
    data = stream.read(limit + 1)
    if len(data) > limit:
        return Fault(source.name, None, too_long("the file", limit))
    if not marked:
        asked = (
            html_encoding(data) if kind is Format.HTML and options.encoding is None else None
        ) or encoding
        encoding = settled_encoding(_sample(data), asked)
        if encoding != asked:
            settled(encoding)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        hint = encoding_hint(data[line_start:], encoding)
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"byte {error.start - line_start + 1} of the line is not {encoding}{hint}"
        return Fault(source.name, line, reason)
    if "\0" in text:
        return Fault(source.name, text.count("\n", 0, text.index("\0")) + 1, "the line holds a NUL character")
    text = text.replace("\r\n", "\n")
    try:
        if kind is Format.TXT:
            return _document(source, options, "", text.strip(), {})
        read = _page_parts if kind is Format.HTML else _note_parts
        parts = read_apart(read, seconds_for(len(data)), text, options.whole_page)
        if parts[3]:
            shortened()
        return _document(source, options, *parts[:3])
    except UnusableRowError as error:
        return Fault(source.name, None, str(error))
    except ReadingStoppedError as error:
        return Fault(source.name, None, STOPPED.format(error))


def _sample(data: bytes) -> bytes:
    """Some whole lines from the first that is not ASCII."""
    first = _BEYOND_ASCII.search(data)
    begin = 0 if first is None else data.rfind(b"\n", 0, first.start()) + 1
    sample = data[begin : begin + _SAMPLE_BYTES]
    whole = begin + len(sample) == len(data) or b"\n" not in sample
    return sample if whole else sample[: sample.rfind(b"\n")]


# In the reading process, where it is read.


def _pdf_parts(path: Path, limit: int) -> _Parts:
    pdf = pdf_text(path, limit)
    return pdf.title, pdf.text, {"pages": pdf.pages}, False


def _word_parts(path: Path, limit: int) -> _Parts:
    word = word_text(path, limit)
    return word.title, word.text, {}, False


def _page_parts(text: str, whole_page: bool) -> _Parts:
    page = html_text(text, main_content=not whole_page)
    return page.title, page.text, {}, page.shortened


def _note_parts(text: str, _: bool) -> _Parts:
    note = markdown_text(text)
    return note.title, note.text, dict(note.metadata), False


def _document(
    source: Source, options: ReadOptions, title: str, text: str, metadata: dict[str, JsonValue]
) -> Document:
    if not text:
        raise UnusableRowError("the file has no text")
    path = source.document_source
    if options.metadata is not None:
        metadata = {name: metadata[name] for name in options.metadata if name in metadata}
    check_string(title, "the title")
    return Document(
        checked_text(text, "text", options.max_text_bytes, clean=False),
        None if path is None else row_id(path, "path", clean=False),
        title,
        metadata,
        path,
    )
