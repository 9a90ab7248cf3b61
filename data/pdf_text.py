"""The text of PDF files."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.data.errors import MissingExtraError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.lines import too_long

if TYPE_CHECKING:
    from pypdf import PdfReader

__all__ = ["PdfText", "pdf_text"]

# What pypdf lets through from damaged files, beside its own errors.
_DAMAGE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RecursionError),
    *(NotImplementedError, TypeError, ValueError),
)


@dataclass(frozen=True, slots=True)
class PdfText:
    """The pages' texts joined by blank lines."""

    title: str  # from the document's information; "" if it says none
    text: str
    pages: int


def pdf_text(path: Path, max_text_bytes: int) -> PdfText:
    """Read a PDF's text; UnusableRowError says why there is none.

    NUL and lone surrogates, which come from broken character maps and mean nothing, become spaces. Text in
    pictures is not seen. MissingExtraError without pypdf.
    """
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise MissingExtraError("Reading PDF files", "documents") from None
    logger = logging.getLogger("pypdf")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)  # it tells standard error about every small flaw it passes over
    try:
        with PdfReader(path) as reader:
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnusableRowError("the PDF is encrypted; save it without its password")
            return _read(reader, max_text_bytes)
    except ImportError as error:  # an encryption that pypdf needs another package for
        raise UnusableRowError("the PDF is encrypted; save it without its password") from error
    except (PyPdfError, *_DAMAGE) as error:
        detail = str(error).partition("\n")[0] or type(error).__name__
        raise UnusableRowError(f"the PDF cannot be read: {detail}") from error


def _read(reader: "PdfReader", max_text_bytes: int) -> PdfText:
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
    return PdfText(
        title=_without_rubbish(title).strip() if isinstance(title, str) else "",
        text="\n\n".join(texts),
        pages=len(reader.pages),
    )


def _without_rubbish(text: str) -> str:
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
