"""Lines of a file: numbered, decoded, with a maximum length."""

import codecs
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from nearsay.data.byte_streams import DamagedStreamError, listed_values, text_stream
from nearsay.data.faults import Fault

# Encodings that people have. Charset-normalizer knows a hundred, and on little text prefers odd ones.
# Of Shift-JIS and EUC-KR these are Windows' own, which have more.
USUAL_ENCODINGS: Final = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp874", "koi8_r", "mac_roman"),
    *("cp1257", "iso8859_15", "cp932", "euc_jp", "gb18030", "big5", "cp949", "utf_8"),
)
_SAMPLE: Final = 16 * 2**10  # bytes that the guess is made from
_WORDS: Final = re.compile(rb"[A-Za-z][\x80-\xff]|[\x80-\xff][A-Za-z]|[\x80-\xff]{4}")  # not a byte alone
_LINES: Final = 200  # in which UTF-8 is looked for


def likely_encoding(sample: bytes, but: str) -> str | None:
    """The most likely common encoding of `sample`, except `but`, which failed; None if none fits.

    cp1252 wins a tie, because short texts fit several Windows encodings equally.
    """
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=list(USUAL_ENCODINGS))
    best = matches.best()
    if best is None:
        return None
    tied = {
        name
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence
        for name in match.could_be_from_charset
    }
    name = _by_its_letters(sample, "cp1252" if "cp1252" in tied else best.encoding)
    return None if name.replace("_", "-") in {but, "utf-8", "ascii"} else name


_WESTERN: Final = re.compile(rb"[\xe3\xc3][oOeE]| \xe0 ")  # ão, ãe, à; in cp1250 rare ăo, ăe and a word ŕ
_POLISH: Final = re.compile(rb"[A-Za-z][\xb3\xb9][a-z]")  # ł, ą; in cp1252 ³, ¹
_CZECH: Final = re.compile(rb"[A-Za-z]\xec[a-z](?s:.*)[\xe1\xed\xfd]")  # ě, then á, í or ý
# Cyrillic letters beyond those of Hebrew, any letter after one that ends a word of Hebrew, and words of one
# letter, which Hebrew joins to the next.
_NO_HEBREW: Final = re.compile(rb"[\xc0-\xdf\xfb-\xff]|[\xea\xed\xef\xf3\xf5][\xe0-\xfa]| [\xe0-\xfa] ")
_LEAST_LETTERS: Final = 24
_BALTIC: Final = (  # of Lithuanian and Latvian all letters, and those of which one is in any two sentences
    (frozenset("ąčęėįšųūžĄČĘĖĮŠŲŪŽ".encode("cp1257")), frozenset("ėĖ".encode("cp1257"))),
    (frozenset("āčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ".encode("cp1257")), frozenset("āĀ".encode("cp1257"))),
)
_Z_OR_S: Final = frozenset("žšŽŠ".encode("cp1257"))  # in cp1252 þ and ð, beside which no ë and no â stands
_EURO: Final = re.compile(rb"\xa4|[a-z]\xbd[a-z]")  # €, œ; in cp1252 ¤, which is no price, and ½
_HUNGARIAN: Final = frozenset("áéíóöőúüűÁÉÍÓÖŐÚÜŰ".encode("cp1250"))


def _by_its_letters(sample: bytes, guessed: str) -> str:
    """Distinguish encodings by bytes that are common letters, or can occur anywhere, in only one of them.

    Letter frequencies of a few lines fit several encodings: Portuguese in cp1250, Hebrew in cp1251, and in
    cp1252 Polish, Czech, Hungarian, Lithuanian, Latvian and Turkish, whose ı, ğ and ş are ý, ð and þ there
    (as in Icelandic, where ð is the most common of them).
    """
    letters = {byte for byte in sample if byte >= 0xC0}
    baltic = letters & _Z_OR_S and any(letters <= known and letters & least for known, least in _BALTIC)
    if baltic and guessed in {"cp1250", "cp1252"}:
        return "cp1257"
    if guessed == "cp1250":
        tildes = sample.count(b"\xe3") + sample.count(b"\xc3")  # of which Romanian has few before o and e
        return "cp1252" if 2 * len(_WESTERN.findall(sample)) > tildes else guessed
    if guessed == "cp1251":
        count = sum(byte >= 0xE0 for byte in sample)
        return guessed if count < _LEAST_LETTERS or _NO_HEBREW.search(sample) else "cp1255"
    if guessed != "cp1252":
        return guessed
    if sample.count(b"\xfd") > sample.count(b"\xf0") and (b"\xf0" in sample or b"\xfe" in sample):
        return "cp1254"
    if _EURO.search(sample) and not any(0x80 <= byte < 0xA0 for byte in sample):
        return "iso8859_15"
    hungarian = b"\xf5" in sample and letters <= _HUNGARIAN and b"\xf5e" not in sample  # õe is Portuguese
    return "cp1250" if hungarian or _POLISH.search(sample) or _CZECH.search(sample) else guessed


def settled_encoding(sample: bytes, asked: str) -> str:
    """Choose the encoding of one file whose non-ASCII bytes begin in `sample`.

    asked: the user's, or UTF-8. It is used unless the bytes contradict it: most lines with non-ASCII bytes
           cannot be decoded in it and contain words in another (a single byte is damage), or it accepts any
           byte, as cp1252 does, and they are valid UTF-8 throughout, which such text never is by chance. A
           line truncated at the sample's end has the least weight
    """
    lines = [line for line in sample.split(b"\n") if not line.isascii()][:_LINES]
    if not lines:
        return asked
    in_utf8 = sum(_decodes(line, "utf-8") for line in lines)
    if asked != "utf-8":
        if in_utf8 == len(lines) and _is_single_byte(asked):
            return "utf-8"
        fits = sum(_decodes(line, asked) for line in lines)
        if 2 * fits >= len(lines):
            return asked
    if 2 * in_utf8 >= len(lines):
        return "utf-8"
    rest = b"\n".join(line for line in lines if not _decodes(line, "utf-8"))[:_SAMPLE]
    return (_WORDS.search(rest) and likely_encoding(rest, asked)) or asked


def encoding_hint(sample: bytes, but: str) -> str:
    """Suggest an encoding to try instead of `but`; "" if none fits."""
    likely = likely_encoding(sample[:_SAMPLE], but)
    return f"; the file looks like {likely} (--encoding {likely})" if likely else ""


def without_options(fault: Fault) -> Fault:
    """The fault without its remedy, for commands without --max-text-bytes and --encoding."""
    return replace(fault, reason=_OPTIONS.sub("", fault.reason))


def _decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _is_single_byte(encoding: str) -> bool:
    return (
        len(bytes(range(256)).decode(encoding, "replace")) == 256 and codecs.lookup(encoding).name != "ascii"
    )


# Encodings in which a byte of a character may be a bracket, a brace or a backslash of ASCII.
_SHARING: Final = frozenset(
    {"big5", "big5hkscs", "cp932", "cp950", "gb18030", "gbk", "johab", "shift_jis", "shift_jis_2004"}
)
_SKIP_BYTES: Final = 256 * 2**10
RAISE_LIMIT: Final = "; raise --max-text-bytes to take it"
_OPTIONS: Final = re.compile(rf"{RAISE_LIMIT}| \(--encoding \S+\)")


def too_long(what: str, limit: int) -> str:
    """The message that something exceeds the limit, with a remedy."""
    return f"{what} is longer than {limit:,} bytes{RAISE_LIMIT}"


class Lines:
    """Iterate `(number, line without its end) | Fault`, once.

    A line over the limit is skipped in chunks, never held in memory; a line that cannot be decoded is a fault
    that suggests an encoding.
    """

    def __init__(
        self,
        stream: io.BufferedReader,
        *,
        name: str,
        encoding: str | None,
        limit: int,
        settled: Callable[[str], None] | None = None,
        listed: tuple[bytes, ...] = (),
    ) -> None:
        """`name`: for faults; `limit`: in bytes, without the line's end.

        settled: called with the encoding of a file if its bytes indicate another than `encoding` (or UTF-8),
                 which is then used; None = do not check the bytes
        listed: if the file is a JSON list, which begins with one of these strings (`listed_values`), treat
                each of its values as a line. () = never
        """
        self._name = name
        self._limit = min(limit, sys.maxsize - 2)  # the most that `readline` takes
        self._stream, self.encoding, certain = text_stream(stream, encoding)
        self._in_list = False
        if listed:
            self._stream, self._in_list = listed_values(self._stream, listed)
        self._settled = None if certain else settled  # asked once, at the first line beyond ASCII
        self._hint = "" if certain else None

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
                if self._in_list and not raw.isascii() and codecs.lookup(self.encoding).name in _SHARING:
                    reason = f"it is a JSON list in {self.encoding}; save it as UTF-8"
                    yield Fault(self._name, number, f"{reason}; the rest of the file is not read")
                    return
                try:
                    line = raw.decode(self.encoding)
                except UnicodeDecodeError as error:
                    yield Fault(self._name, number, self._undecodable(error, raw))
                    continue
                yield number, line.rstrip("\r\n").removeprefix("\ufeff")  # of files that were joined
        except DamagedStreamError as error:
            yield Fault(self._name, number + 1, f"{error}; the rest of the file is not read")

    def _undecodable(self, error: UnicodeDecodeError, line: bytes) -> str:
        if self._hint is None:
            self._hint = encoding_hint(line + self._ahead(), self.encoding)
        return f"byte {error.start + 1} of the line is not {self.encoding}{self._hint}"

    def _settle(self, line: bytes) -> None:
        """Choose the file's encoding. The lines before were ASCII, which is the same in all of them."""
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
