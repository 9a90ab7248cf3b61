"""Files with one document each: plain text, Markdown, HTML, PDF, Word."""

import io
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.data.byte_streams import text_stream
from nearsay.data.document import Document, FileText
from nearsay.data.errors import MissingExtraError, first_line
from nearsay.data.faults import Fault
from nearsay.data.html_text import html_encoding, html_text
from nearsay.data.json_values import UnusableRowError, check_string, is_blank
from nearsay.data.lines import encoding_hint, settled_encoding, too_long
from nearsay.data.markdown_text import markdown_text
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading_process import ReadingStoppedError, read_apart, seconds_for
from nearsay.data.row_documents import checked_text, row_id
from nearsay.data.sources import Source
from nearsay.data.word_text import word_text

if TYPE_CHECKING:
    from pypdf import PdfReader

# What pypdf lets through from damaged files, beside its own errors.
_DAMAGE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(NotImplementedError, TypeError, ValueError),
)


def pdf_text(path: Path, max_text_bytes: int) -> FileText:
    """Read a PDF: its pages' texts joined by blank lines, its title, and the number of pages.

    Words hyphenated at the end of a line are joined, and ligatures become letters. NUL and lone surrogates,
    from broken character maps, become spaces. Text in images is not read. Raises UnusableRowError if there is
    no text, with the reason; MissingExtraError without pypdf.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, PyPdfError
    except ImportError:
        raise MissingExtraError("Reading PDF files", "documents") from None
    logger = logging.getLogger("pypdf")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)  # it tells standard error about every flaw that it passes over
    try:
        with PdfReader(path) as reader:
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnusableRowError("the PDF is encrypted; save it without its password")
            return _read(reader, max_text_bytes)
    except DependencyError as error:  # an encryption that pypdf needs another package for
        raise UnusableRowError(
            "the PDF is encrypted in a way that needs the package cryptography: pip install cryptography"
        ) from error
    except (PyPdfError, *_DAMAGE) as error:
        detail = first_line(error)
        raise UnusableRowError(f"the PDF cannot be read: {detail}") from error


def _read(reader: "PdfReader", max_text_bytes: int) -> FileText:
    texts: list[str] = []
    size = 0
    for page in reader.pages:
        text = _without_rubbish(page.extract_text()).strip()
        size += len(text.encode())
        if size > max_text_bytes:
            raise UnusableRowError(too_long("the PDF's text", max_text_bytes))
        if text:
            texts.append(text)
    if not texts:
        raise UnusableRowError(
            f"the PDF has no text in its pages ({len(reader.pages)}); a scan needs text recognition first"
        )
    title = reader.metadata.title if reader.metadata is not None else None
    return FileText(
        title=_without_rubbish(title).strip() if isinstance(title, str) else "",
        text=_with_whole_words("\n\n".join(texts)),
        metadata={"pages": len(reader.pages)},
    )


# A run of letters is looked at from its beginning alone: from each letter on it would take quadratic time.
_HYPHENATED: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]+-[^\W\d_]+")
_CUT: Final = re.compile(r"(-?)(?<![^\W\d_])([^\W\d_]+)-[^\S\n]*\n[^\S\n]*(?=([^\W\d_]+))")
_GO_ON: Final = frozenset(
    {"and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o"}
)  # short- and long-term


def _with_whole_words(text: str) -> str:
    """Join the two halves of each word that is hyphenated at the end of a line.

    The hyphen is kept before a capital, in an address, in a word with another hyphen, and if the hyphenated
    word occurs elsewhere in the text; before "and" the line end is kept. The hyphen of a compound that occurs
    nowhere else is lost.
    """
    known = {word.casefold() for word in _HYPHENATED.findall(text)}

    def joined(cut: re.Match[str]) -> str:
        more, before, after = cut.groups()
        if after in _GO_ON:
            return cut[0]
        token = text[max(0, cut.start() - 100) : cut.start()].rpartition(" ")[2].rpartition("\n")[2]
        address = any(sign in token for sign in "/:@")
        own = more or address or not after[0].islower() or f"{before}-{after}".casefold() in known
        return f"{more}{before}{'-' if own else ''}"

    return _CUT.sub(joined, text)


_LETTERS: Final = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\0": " "}
)


def _without_rubbish(text: str) -> str:
    return text.translate(_LETTERS).encode("utf-8", "replace").decode("utf-8")


_MARKUP_FACTOR: Final = 8  # a page may be that much longer than the text in it
_SAMPLE_BYTES: Final = 256 * 2**10
_BEYOND_ASCII: Final = re.compile(rb"[\x80-\xff]")
STOPPED: Final = "{}, as no usual file does, and was not read; look at it, save it again, or leave it out"


def packed_document(source: Source, options: ReadOptions) -> Document | Fault:
    """Read a PDF or Word file; a PDF's metadata is `{"pages": n}`."""
    if source.path is None:
        return Fault(source.name, None, f"{source.format} is read from a file only")
    read = pdf_text if source.format is Format.PDF else word_text
    try:
        found = read_apart(read, seconds_for(source.size), source.path, options.max_text_bytes)
        return _document(source, options, found)
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

    settled:   called with the encoding if the bytes indicate another one than the options or the page
    shortened: called if only the main element of a page was read
    """
    limit = options.max_text_bytes * (_MARKUP_FACTOR if kind is Format.HTML else 1)
    stream, encoding, certain = text_stream(stream, options.encoding)
    data = stream.read(limit + 1)
    if len(data) > limit:
        return Fault(source.name, None, too_long("the file", limit))
    if not certain:
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
        hint = "" if certain else encoding_hint(data[line_start:], encoding)
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"byte {error.start - line_start + 1} of the line is not {encoding}{hint}"
        return Fault(source.name, line, reason)
    if "\0" in text:
        return Fault(source.name, text.count("\n", 0, text.index("\0")) + 1, "the line holds a NUL character")
    text = text.replace("\r\n", "\n")
    try:
        if kind is Format.TXT:
            return _document(source, options, FileText("", text.strip()))
        seconds = seconds_for(len(data))
        if kind is Format.HTML:
            found = read_apart(html_text, seconds, text, main_content=not options.whole_page)
        else:
            found = read_apart(markdown_text, seconds, text)
        if found.shortened:
            shortened()
        return _document(source, options, found)
    except UnusableRowError as error:
        return Fault(source.name, None, str(error))
    except ReadingStoppedError as error:
        return Fault(source.name, None, STOPPED.format(error))


def _sample(data: bytes) -> bytes:
    """Some complete lines from the first non-ASCII one on."""
    first = _BEYOND_ASCII.search(data)
    begin = 0 if first is None else data.rfind(b"\n", 0, first.start()) + 1
    sample = data[begin : begin + _SAMPLE_BYTES]
    whole = begin + len(sample) == len(data) or b"\n" not in sample
    return sample if whole else sample[: sample.rfind(b"\n")]


def _document(source: Source, options: ReadOptions, found: FileText) -> Document:
    if is_blank(found.text):
        raise UnusableRowError("the file has no text")
    path, metadata = source.document_source, found.metadata
    if options.metadata is not None:
        metadata = {name: metadata[name] for name in options.metadata if name in metadata}
    check_string(found.title, "the title")
    first, _, below = found.text.partition("\n")
    repeats = below and " ".join(first.split()) == " ".join(found.title.split())
    text = below.lstrip("\n") if repeats else found.text  # the title is embedded with the text, and once
    return Document(
        checked_text(text, "text", options.max_text_bytes),
        None if path is None else row_id(path, "path"),
        found.title,
        metadata,
        path,
    )
