"""Uploads are what they are called, told by their bytes."""

import codecs
import gzip
import io
import json
import zlib

import pytest

from nearsay.data.content_check import check_content
from nearsay.data.errors import BadInputError

_LARGEST = 2 * 2**20
_LINES = "".join(json.dumps({"id": at, "text": f"row {at}"}) + "\n" for at in range(500)).encode()


def _packed(content: bytes) -> bytes:
    # With no time inside: pytest makes names of tests from bytes, and they must not depend on the clock.
    return gzip.compress(content, mtime=0)


def _check(name: str, content: bytes) -> None:
    stream = io.BytesIO(content)
    check_content(name, stream, largest=_LARGEST)
    assert stream.tell() == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", _LINES),
        ("rows.jsonl.gz", _packed(_LINES)),
        ("two.txt.gz", _packed(b"one\n") + _packed(b"two\n")),
        ("packed-all-the-same.csv", _packed(b"text\nhello\n")),
        ("umlaut.txt", "Grüße aus Köln".encode("latin-1")),
        ("wide.txt", "from Windows".encode("utf-16")),
        ("unmarked.txt", "from Windows\n".encode("utf-16-le")),
        ("unmarked.csv", "текст;год\r\nпривет, мир;2019\r\n".encode("utf-16-be")),
        ("widest.txt", codecs.BOM_UTF32_BE + "from afar".encode("utf-32-be")),
        ("tabs.tsv", b"id\ttext\n1\thello\n"),
        ("page.html", b"<html><body>hello</body></html>"),
        ("paper.pdf", b"%PDF-1.7\n\x00\x01\x02"),
        ("late.PDF", b"\n\n%PDF-1.4\n"),
        ("rows.parquet", b"PAR1" + b"\0" * 20 + b"PAR1"),
        ("note.md", b"# Rain"),
    ],
)
def test_what_is_what_it_is_called_passes(name: str, content: bytes) -> None:
    _check(name, content)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.doc", b"\xd0\xcf", "no kind"),
        ("notes.docx", b"\xd0\xcf\x11\xe0", "Word file, but is an old"),
        ("empty.txt", b"", "is empty"),
        ("large.txt", b"a" * (_LARGEST + 1), "2 MB are allowed"),
        ("fake.pdf", b"just text", "PDF file, but is text"),
        ("fake.pdf", b"PK\x03\x04....", "ZIP archive"),
        ("fake.parquet", b"id,text\n1,hello\n", "Parquet file, but is text"),
        ("cut.parquet", b"PAR1" + b"\0" * 20, "is cut off"),
        ("letter.txt", b"PK\x03\x04\x14\x00", "Office document"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n", "a picture"),
        ("paper.txt", b"%PDF-1.7", "is a PDF file"),
        ("zeros.jsonl", b'{"a": 1}\n\x00\x00', "is not text"),
        ("noise.md", bytes(range(1, 9)) * 50, "is hardly text"),
        ("plain.txt.gz", b"hello", "not gzip data"),
        ("nothing.txt.gz", _packed(b""), "unpacks to nothing"),
        ("broken.txt.gz", _packed(_LINES)[:40] + b"\xff" * 40, "damaged gzip"),
        ("packed.csv.gz", _packed(b"\x89PNG\r\n\x1a\n" + b"x" * 99), "a picture"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(name: str, content: bytes, said: str) -> None:
    with pytest.raises(BadInputError, match=said) as refused:
        _check(name, content)
    assert str(refused.value).startswith(name)


def test_a_small_file_that_unpacks_without_end_is_refused() -> None:
    bomb = _packed(b"a" * 40_000_000)
    assert len(bomb) < 50_000
    with pytest.raises(BadInputError, match="150 times its own size"):
        _check("bomb.jsonl.gz", bomb)


def test_a_bomb_in_the_second_part_is_refused_too() -> None:
    with pytest.raises(BadInputError, match="150 times its own size"):
        _check("bomb.txt.gz", _packed(b"hello\n") + _packed(b"a" * 40_000_000))


def test_a_file_may_unpack_to_ten_times_the_largest_and_no_more() -> None:
    lines = b"".join(b"%08x\n" % zlib.crc32(b"%d" % at) * 40 for at in range(3_000))
    stream = io.BytesIO(_packed(lines))
    size = len(stream.getvalue())
    assert 10 * size < len(lines) < 150 * size
    check_content("a.txt.gz", stream, largest=len(lines) // 10)
    with pytest.raises(BadInputError, match="unpacks to more than"):
        check_content("a.txt.gz", stream, largest=size)
