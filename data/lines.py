"""The lines of a file: numbered, decoded, none longer than a limit."""

import io
from collections.abc import Callable, Iterator
from typing import Final

from nearsay.data.byte_streams import DamagedStreamError, text_stream
from nearsay.data.encoding_guess import encoding_hint, settled_encoding
from nearsay.data.faults import Fault

__all__ = ["Lines", "too_long"]

_SKIP_BYTES: Final = 256 * 2**10


def too_long(what: str, limit: int) -> str:
    """Say that something is over the limit, and what to do."""
    return f"{what} is longer than {limit:,} bytes; raise --max-text-bytes to take it"


class Lines:
    """Iterate `(number, line without its end) | Fault`, once.

    A line over the limit is skipped in pieces, never held; a line that cannot be decoded is a fault that says
    which encoding the file looks like.
    """

    def __init__(
        self,
        stream: io.BufferedReader,
        *,
        name: str,
        encoding: str | None,
        limit: int,
        settled: Callable[[str], None] | None = None,
    ) -> None:
        """`name`: for faults; `limit`: in bytes, without the line's end.

        settled: told the encoding of a file whose bytes say another than `encoding` (or UTF-8), in which it
            is read then; None = the bytes are not asked.
        """
        self._name = name
        self._limit = limit
        self._stream, self.encoding, marked = text_stream(stream, encoding)
        self._settled = None if marked else settled  # asked once, at the first line beyond ASCII
        self._hint: str | None = None

    def __iter__(self) -> Iterator[tuple[int, str] | Fault]:
        readline, limit = self._stream.readline, self._limit + 2
        number = 0
        try:
            while raw := readline(limit):
                number += 1
                if len(raw) > self._limit and len(raw.rstrip(b"\r\n")) > self._limit:
                    while not raw.endswith(b"\n") and (raw := readline(_SKIP_BYTES)):
                        pass
                    yield Fault(self._name, number, too_long("the line", self._limit))
                    continue
                if self._settled is not None and not raw.isascii():
                    self._settle(raw)
                try:
                    line = raw.decode(self.encoding)
                except UnicodeDecodeError as error:
                    yield Fault(self._name, number, self._undecodable(error, raw))
                    continue
                yield number, line.rstrip("\r\n")
        except DamagedStreamError as error:
            yield Fault(self._name, number + 1, f"{error}; the rest of the file is not read")

    def _undecodable(self, error: UnicodeDecodeError, line: bytes) -> str:
        if self._hint is None:
            self._hint = encoding_hint(line + self._ahead(), self.encoding)
        return f"byte {error.start + 1} of the line is not {self.encoding}{self._hint}"

    def _settle(self, line: bytes) -> None:
        """See what encoding the file is in. The lines before were ASCII, which is alike in all of them."""
        ahead = self._ahead()
        found = settled_encoding(line + ahead[: ahead.rfind(b"\n") + 1], self.encoding)
        told, self._settled = self._settled, None
        if told is not None and found != self.encoding:
            self.encoding = found
            told(found)

    def _ahead(self) -> bytes:
        try:
            return self._stream.peek()
        except DamagedStreamError:
            return b""
