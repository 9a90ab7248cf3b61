"""Byte streams of files: counted, decompressed, and converted to encodings whose lines end in one byte."""

import codecs
import gzip
import io
import re
import unicodedata
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES: Final = 256 * 2**10
GZIP_MAGIC: Final = b"\x1f\x8b"
# Text packs to a third, the logs and tables that were tried to a twentieth, zeros to a 1,030th.
_GZIP_FACTOR: Final = 150
_PACKED_BYTES: Final = 32 * 2**10  # that are read at once: what was read but not unpacked yet counts, too
_HEAD_BYTES: Final = 16 * 2**10  # from which an encoding is told
_IN_TEXT: Final = "\t\n\v\f\r\x1b"  # controls that text may hold
_ASCII: Final = bytes(range(128))
_PRINTABLE: Final = _ASCII[ord(" ") : -1]
_GZIP_FREE: Final = 16 * 2**20  # bytes that any archive may unpack to
BYTE_ORDER_MARKS: Final = (  # the longer first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class DamagedStreamError(Exception):
    """The stream is damaged at this point and cannot be read further; says why."""


class _Chunks(io.RawIOBase):
    """A stream of what `read(size)` returns, b"" at the end."""

    def __init__(self, read: Callable[[int], bytes], head: bytes = b"") -> None:
        super().__init__()
        self._read = read
        self._left = head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._left or self._read(len(view))
        size = min(len(data), len(view))
        view[:size] = data[:size]
        self._left = data[size:]
        return size


def _buffered(read: Callable[[int], bytes], head: bytes = b"") -> io.BufferedReader:
    return io.BufferedReader(_Chunks(read, head), _BUFFER_BYTES)


def counted(stream: IO[bytes], count: Callable[[int], None]) -> io.BufferedReader:
    """Wrap `stream` so that `count` is called with the number of bytes of each read. Does not close it."""
    # read1 gives what a pipe has now; read would wait until the buffer is full
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)

    def read_counted(size: int) -> bytes:
        data = read(size)
        count(len(data))
        return data

    return _buffered(read_counted)


def uncompressed(stream: io.BufferedReader, *, expected: bool) -> io.BufferedReader:
    """Decompress a stream if it is gzip, whatever the file name is.

    `expected`: the name says gzip, so anything else is damage. A truncated or damaged file yields its intact
    bytes, then DamagedStreamError.
    """
    head = stream.read(len(GZIP_MAGIC))
    rest = _buffered(stream.read1, head)
    if head != GZIP_MAGIC:
        if expected:
            raise DamagedStreamError("the name ends in .gz, but this is not gzip data")
        return rest
    packed = unpacked = 0

    def read_packed(size: int) -> bytes:
        nonlocal packed
        data = rest.read1(size)
        packed += len(data)
        return data

    archive = gzip.GzipFile(fileobj=io.BufferedReader(_Chunks(read_packed), _PACKED_BYTES))

    def read_archive(size: int) -> bytes:
        nonlocal unpacked
        try:
            data = archive.read1(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedStreamError(f"damaged gzip data: {error}") from error
        unpacked += len(data)
        if unpacked > _GZIP_FREE and unpacked > _GZIP_FACTOR * packed:
            raise DamagedStreamError(
                f"it has unpacked to {unpacked:,} bytes, more than {_GZIP_FACTOR} times its own size; "
                "unpack it and look at it"
            )
        return data

    unpacked_stream = _buffered(read_archive)
    if unpacked_stream.peek().startswith(GZIP_MAGIC):
        raise DamagedStreamError("it was packed by gzip twice: unpack it once")
    return unpacked_stream


class TextStream(NamedTuple):
    """A byte stream whose lines end in LF."""

    stream: io.BufferedReader  # without its byte order mark
    encoding: str  # in which to decode its lines
    certain: bool  # known from a byte order mark, or from the bytes of UTF-16 or UTF-32


def text_stream(stream: io.BufferedReader, encoding: str | None) -> TextStream:
    """Detect a stream's encoding and remove its byte order mark.

    encoding: as given by the user, UTF-16 and UTF-32 with or without byte order; None = from the byte order
              mark, else UTF-16 if NULs indicate it (some Windows programs write it without a mark), else
              UTF-8. A mark always decides, and valid UTF-8 without NULs is not taken for UTF-16 or UTF-32.
              These, whose lines do not end in a single LF byte, are converted to UTF-8, and invalid parts to
              invalid UTF-8, so that they are found in their line; half a character at the end raises
              DamagedStreamError. If lines end in CR alone, it becomes LF.
    """
    head = stream.read(4)
    mark, marked = next((each for each in BYTE_ORDER_MARKS if head.startswith(each[0])), (b"", None))
    name = marked or (codecs.lookup(encoding).name if encoding else "utf-8")
    # The rest of a line would be waited for anyhow.
    if not marked and not encoding and (b"\0" in head or not head.endswith(b"\n")):
        name = unmarked_utf16(head + stream.peek()) or name
    if not marked and name in {"utf-16", "utf-32"}:  # whose decoders want a mark
        name = _ordered(name, head + stream.peek())
    if name in {"utf-8-sig", "utf_8_sig"}:
        name = "utf-8"
    read: Callable[[int], bytes] = stream.read1
    head = head[len(mark) :]
    if "\n".encode(name) == b"\n" and b"\n" not in head and _ends_in_returns(head + stream.peek()):
        read, head = _returns_replaced(read), head.replace(b"\r", b"\n")
    stays = marked or not encoding or "\n".encode(name) == b"\n"
    if not stays and _is_utf8(head) and not unmarked_utf16(head + stream.peek()):
        name = "utf-8"
    stream = _buffered(read, head)
    if "\n".encode(name) == b"\n":
        return TextStream(stream, name, certain=bool(mark))
    return TextStream(_buffered(_transcoder(stream, name)), "utf-8", certain=True)


def unmarked_utf16(head: bytes) -> str | None:
    """Detect UTF-16 without a mark, and its byte order.

    If most characters are ASCII, one byte of each is NUL. In other text, this is true of spaces, digits and
    line ends: it is UTF-16 if it contains line ends and no control characters as such, and some as UTF-8.
    Bytes that are nearly all ASCII and mostly printable are single-byte text with a NUL or two, because in
    UTF-16 one byte of each letter is not printable, except in Chinese and Japanese.
    """
    if b"\0" not in head:
        return None
    low, high = head[::2].count(0), head[1::2].count(0)
    if 3 * max(low, high) >= len(head) and not min(low, high):
        return "utf-16-le" if high else "utf-16-be"
    head = head[:_HEAD_BYTES]
    if _reads_as(head, "utf-8", "\0"):
        return None
    beyond, unprintable = (len(head.translate(None, taken)) for taken in (_ASCII, _PRINTABLE))
    if beyond < 0.05 * len(head) and unprintable < 0.45 * len(head):
        return None
    # Bytes of a line end in the wrong order are no character.
    return next((name for name in ("utf-16-le", "utf-16-be") if _reads_as(head, name, "\n")), None)


def _ordered(name: str, head: bytes) -> str:
    """Detect the byte order of UTF-16 or UTF-32 without a mark; little endian if nothing indicates it."""
    if name == "utf-16" and (found := unmarked_utf16(head)):
        return found
    # Of ASCII the first byte is 0 in big endian, and the last in little.
    size = len("\n".encode(f"{name}-le"))
    return f"{name}-be" if head[::size].count(0) > head[size - 1 :: size].count(0) else f"{name}-le"


def _reads_as(head: bytes, encoding: str, besides: str) -> bool:
    """Whether bytes contain the characters `besides`, and no control characters."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)  # a character may be cut off at the end
    except UnicodeDecodeError:
        return False
    kinds = {unicodedata.category(character) for character in {*text} - {*besides, *_IN_TEXT}}
    return besides in text and kinds.isdisjoint({"Cc", "Cn", "Co", "Cs"})


def _ends_in_returns(head: bytes) -> bool:
    """Whether lines end in CR alone, as in Excel's "CSV (Macintosh)" and on old Macs."""
    return b"\r" in head[:-1] and b"\n" not in head  # the last may be the first half of CR LF


def _returns_replaced(read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda size: read(size).replace(b"\r", b"\n")


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # a character may be cut off at the end
    except UnicodeDecodeError:
        return False
    return b"\0" not in head and bool(head)


def _transcoder(stream: io.BufferedReader, encoding: str) -> Callable[[int], bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogatepass")

    def read(_: int) -> bytes:
        while data := stream.read1(_BUFFER_BYTES // 4):
            try:
                text = decoder.decode(data)
            except UnicodeDecodeError as error:
                raise DamagedStreamError(f"not {encoding}: {error.reason}") from error
            if text:
                return text.encode("utf-8", "surrogatepass")
        if decoder.getstate()[0]:
            raise DamagedStreamError(f"it ends in the middle of a character of {encoding}")
        return b""

    return read


_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")  # in JSON they stand between values alone
# What neither ends a value nor begins one, strings included; commas count in the list itself alone.
_STRING_GOES_ON: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_LIST_GOES_ON: Final = re.compile(rb'(?:[^"\\\[\]{},]+|"[^"\\]*(?:\\.[^"\\]*)*"|\\.)*', re.DOTALL)
_VALUE_GOES_ON: Final = re.compile(rb'(?:[^"\\\[\]{}]+|"[^"\\]*(?:\\.[^"\\]*)*"|\\.)*', re.DOTALL)


def listed_values(stream: io.BufferedReader, signs: tuple[bytes, ...]) -> tuple[io.BufferedReader, bool]:
    """Convert a JSON list of any size to lines, one per value. Returns whether the stream is a list.

    signs: a list begins with one of these, ignoring white space: `[`, or longer ones if text may begin with
           it

    Anything else is unchanged. The encoding must be a superset of ASCII, with ASCII bytes only for ASCII
    characters. Anything between the values becomes lines as well, which are not JSON; an unterminated list
    yields its values, then DamagedStreamError.
    """
    head, seen = bytearray(), b""
    while seen not in signs and any(each.startswith(seen) for each in signs) and (byte := stream.read(1)):
        head += byte
        seen += byte.strip()
    whole = _buffered(stream.read1, bytes(head))
    return (_buffered(_Splitter(whole).read), True) if seen in signs else (whole, False)


class _Splitter:
    """Splits a JSON list into one line per value."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._depth = 0  # of lists and objects
        self._in_text = self._escaped = False  # within a string; the next byte is no sign

    def read(self, _: int) -> bytes:
        while data := self._stream.read1(_BUFFER_BYTES):
            if lines := self._split(data):
                return lines
        if self._depth:
            raise DamagedStreamError(
                "the JSON list has no end: it was cut off, a quotation mark is missing, or it is not in UTF-8"
            )
        return b""

    def _split(self, data: bytes) -> bytes:
        data = data.translate(_ONE_LINE)
        pieces: list[bytes] = []
        done, at = 0, int(self._escaped)
        self._escaped = False
        while True:
            within = (
                _STRING_GOES_ON if self._in_text else _LIST_GOES_ON if self._depth == 1 else _VALUE_GOES_ON
            )
            passed = within.match(data, at)
            if passed is None or passed.end() == len(data):
                break
            at = passed.end() + 1
            sign = data[at - 1 : at]
            if sign == b"\\":  # the last byte: the next one belongs to it
                self._escaped = True
            elif sign == b'"':
                self._in_text = not self._in_text
            elif (other := self._outside(sign)) != sign:
                pieces += data[done : at - 1], other
                done = at
        return b"".join([*pieces, data[done:]])

    def _outside(self, sign: bytes) -> bytes:
        """The replacement for a bracket, brace or comma outside strings."""
        outermost = self._depth == 1
        if sign in b"[{":
            self._depth += 1
            return b"" if sign == b"[" and self._depth == 1 else sign
        if sign == b",":
            return b"\n" if outermost else sign
        self._depth = max(self._depth - 1, 0)
        return b"\n" if sign == b"]" and outermost else sign
