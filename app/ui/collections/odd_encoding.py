"""Files that are not written in UTF-8."""

import codecs
from pathlib import Path
from typing import Final

from nearsay.data.byte_streams import DamagedStreamError, counted, text_stream, uncompressed
from nearsay.data.encoding_guess import likely_encoding
from nearsay.data.formats import Format, format_of
from nearsay.data.html_text import html_encoding

__all__ = ["odd_encoding"]

_PIECE: Final = 2**20  # bytes that are read at once
_PIECES: Final = 8  # of a file that are looked at
_SAMPLE: Final = 16 * 2**10  # bytes from the first line that is not UTF-8


def odd_encoding(path: Path) -> str | None:
    """Name the encoding that a file of text seems to be in; None: UTF-8, what it says itself, or no telling.

    Only its first 8 MiB are looked at.
    """
    kind = format_of(path)
    if kind in (None, Format.PDF, Format.PARQUET):
        return None
    try:
        with path.open("rb") as file:
            stream = uncompressed(counted(file, lambda _: None), expected=path.suffix.lower() == ".gz")
            stream, _, marked = text_stream(stream, None)
            if marked:
                return None
            decoder = codecs.getincrementaldecoder("utf-8")()
            for at in range(_PIECES):
                piece = stream.read(_PIECE)
                if at == 0 and kind is Format.HTML and html_encoding(piece) is not None:
                    return None
                decoder.decode(piece, final=len(piece) < _PIECE)
    except UnicodeDecodeError as error:
        begin = error.object.rfind(b"\n", 0, error.start) + 1
        return likely_encoding(error.object[begin : begin + _SAMPLE], "utf-8")
    except (DamagedStreamError, OSError):  # the readers say so
        return None
    return None
