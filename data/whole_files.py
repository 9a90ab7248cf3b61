"""Files that are one document each: plain text, Markdown, HTML, PDF."""

import io
from typing import Final

from nearsay.data.byte_streams import text_stream
from nearsay.data.document import Document, JsonValue
from nearsay.data.encoding_guess import encoding_hint
from nearsay.data.faults import Fault
from nearsay.data.formats import Format
from nearsay.data.html_text import html_encoding, html_text
from nearsay.data.json_values import UnusableRowError, check_string
from nearsay.data.lines import too_long
from nearsay.data.markdown_text import markdown_text
from nearsay.data.pdf_text import pdf_text
from nearsay.data.read_options import ReadOptions
from nearsay.data.row_documents import checked_text, row_id
from nearsay.data.sources import Source

__all__ = ["pdf_document", "text_file_document"]

_MARKUP_FACTOR: Final = 8  # a page may be that much longer than the text in it


def pdf_document(source: Source, options: ReadOptions) -> Document | Fault:
    """Read a PDF file; its metadata is `{"pages": n}`."""
    if source.path is None:
        return Fault(source.name, None, "a PDF is read from a file only")
    try:
        pdf = pdf_text(source.path, options.max_text_bytes)
        return _document(source, options, pdf.title, pdf.text, {"pages": pdf.pages})
    except UnusableRowError as error:
        return Fault(source.name, None, str(error))


def text_file_document(
    source: Source, kind: Format, stream: io.BufferedReader, options: ReadOptions
) -> Document | Fault:
    """Read a plain text, Markdown or HTML file as one document."""
    limit = options.max_text_bytes * (_MARKUP_FACTOR if kind is Format.HTML else 1)
    stream, encoding, marked = text_stream(stream, options.encoding)
    data = stream.read(limit + 1)
    if len(data) > limit:
        return Fault(source.name, None, too_long("the file", limit))
    if kind is Format.HTML and options.encoding is None and not marked:
        encoding = html_encoding(data) or encoding
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        hint = encoding_hint(data[line_start : line_start + 16 * 2**10], encoding)
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"byte {error.start - line_start + 1} of the line is not {encoding}{hint}"
        return Fault(source.name, line, reason)
    if "\0" in text:
        return Fault(source.name, text.count("\n", 0, text.index("\0")) + 1, "the line holds a NUL character")
    try:
        return _text_document(source, kind, text, options)
    except UnusableRowError as error:
        return Fault(source.name, None, str(error))


def _text_document(source: Source, kind: Format, text: str, options: ReadOptions) -> Document:
    text = text.replace("\r\n", "\n")
    if kind is Format.HTML:
        page = html_text(text)
        return _document(source, options, page.title, page.text, {})
    if kind is Format.MARKDOWN:
        note = markdown_text(text)
        return _document(source, options, note.title, note.text, dict(note.metadata))
    return _document(source, options, "", text.strip(), {})


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
