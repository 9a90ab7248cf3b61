"""Finding files, decoding bytes, keeping to limits, counting."""

import gzip
import io
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading import read


def texts(*sources: str, **options: object) -> list[str]:
    return [
        item.text if isinstance(item, Document) else f"! {item}"
        for item in read(sources, ReadOptions(**options))
    ]


def test_a_fault_says_file_line_and_reason() -> None:
    assert str(Fault("papers.jsonl", 17, "not JSON")) == "papers.jsonl:17: not JSON"
    assert str(Fault("scan.pdf", None, "no text")) == "scan.pdf: no text"


# Plain text


def test_each_line_of_a_text_file_is_a_document_and_blank_ones_are_none(
    read_file: Callable[..., tuple[list[Document], list[str]]], tmp_path: Path
) -> None:
    documents, faults = read_file("a.txt", "\n one \r\n\ntwo\n")
    source = (tmp_path / "a.txt").as_posix()
    assert documents == [Document("one", source=source, line=2), Document("two", source=source, line=4)]
    assert faults == []


def test_a_whole_text_file_is_one_document_with_its_path_as_id(
    read_file: Callable[..., tuple[list[Document], list[str]]], tmp_path: Path
) -> None:
    path = (tmp_path / "a.txt").as_posix()
    documents, _ = read_file("a.txt", "\n one\r\ntwo \n", split="file")
    assert documents == [Document("one\ntwo", path, source=path)]


def test_whole_text_files_that_cannot_be_used_are_faults(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    assert read_file("a.txt", " \n", split="file")[1] == [Naming("a.txt", "no text")]
    assert read_file("b.txt", "a\nb\0", split="file")[1] == [Naming("b.txt:2", "NUL")]
    assert read_file("c.txt", b"ab\n\xff", split="file")[1] == [
        Naming("c.txt:2", "byte 1", "utf-8", "--encoding cp1252")
    ]
    assert read_file("d.txt", "abcdef", split="file", max_text_bytes=5)[1] == [
        Naming("d.txt", "file", "5 bytes", "--max-text-bytes")
    ]


def test_nul_in_a_line_is_a_fault(read_file: Callable[..., tuple[list[Document], list[str]]]) -> None:
    assert read_file("a.txt", "a\0b\nc\n")[1] == [Naming("a.txt:1", "NUL")]


# Limits


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("size", [11, 12, 13, 600_000])
def test_a_line_over_the_limit_is_skipped_whole_and_the_next_has_its_number(
    read_file: Callable[..., tuple[list[Document], list[str]]], name: str, size: int
) -> None:
    documents, faults = read_file(name, "0123456789\n" + "x" * size + "\r\nlast", max_text_bytes=10)
    assert [(document.text, document.line) for document in documents] == [("0123456789", 1), ("last", 3)]
    assert faults == [Naming(f"{name}:2", "line", "10 bytes", "--max-text-bytes")]


def test_a_line_of_just_the_limit_is_taken(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.txt", "éé345\r\n" + "1234567\n" + "1234567", max_text_bytes=7)
    assert [document.text for document in documents] == ["éé345", "1234567", "1234567"]
    assert faults == []


@pytest.mark.parametrize("asked", [None, Format.JSONL])
@pytest.mark.parametrize(
    "content",
    [
        '[{"text": "a"}, {"text": "b"}]',
        '[ { "text": "a"}, {"text": "b"}]',
        '\n[\n {\n"text": "a"},\n{"text": "b"}]\n',
    ],
)
def test_a_json_list_of_objects_is_rows_from_standard_input_too(content: str, asked: Format | None) -> None:
    found = read(["-"], ReadOptions(format=asked), stdin=io.BytesIO(content.encode()))
    assert [(document.text, document.line) for document in found.documents()] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    "content",
    [
        "[1] a note",
        "[ ] to do\n[x] done",
        "[",
        '["a", "b"]',
        "[[link]] {",
        "[{name}] is a placeholder",
        "[{",
    ],
)
def test_lines_of_text_that_begin_with_a_bracket_stay_lines(content: str) -> None:
    found = read(["-"], stdin=io.BytesIO(content.encode()))
    assert [document.text for document in found.documents()] == content.split("\n")


def test_a_line_of_gigabytes_is_never_held() -> None:
    class Endless(io.RawIOBase):
        left = 64

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:
            if not Endless.left:
                return 0
            Endless.left -= 1
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    tracemalloc.start()
    items = list(read(["-"], ReadOptions(max_text_bytes=1000), stdin=io.BufferedReader(Endless(), 2**20)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(items) == 1
    assert peak < 8 * 2**20


@pytest.mark.long
def test_reading_holds_a_file_of_many_rows_in_constant_memory(tmp_path: Path) -> None:
    row = json.dumps({"id": "x", "text": "word " * 400, "year": 2000}) + "\n"
    path = tmp_path / "big.jsonl"
    path.write_text(row * 30_000, encoding="utf-8")
    assert path.stat().st_size > 60_000_000
    read_one = iter(read([path]))
    next(read_one)  # imports are not the reading
    tracemalloc.start()
    reading = read([path])
    count = sum(1 for _ in reading)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 30_000
    assert reading.bytes_read == reading.bytes_total == path.stat().st_size
    assert peak < 4 * 2**20


# Encodings


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.txt"])
def test_byte_order_marks_are_honoured(
    read_file: Callable[..., tuple[list[Document], list[str]]], encoding: str, name: str
) -> None:
    mark = "\ufeff" if encoding in {"utf-16-le", "utf-16-be"} else ""
    content = {"a.jsonl": '{"text": "é😀"}\n', "a.csv": "text,n\né😀,1\n", "a.txt": "é😀\n"}[name]
    documents, faults = read_file(name, (mark + content).encode(encoding))
    assert [document.text for document in documents] == ["é😀"]
    assert faults == []


@pytest.mark.parametrize(
    "encoding", ["cp1252", "utf-16", "utf-16-le", "UTF-8", "latin-1", "cp500", "utf-32-be"]
)
def test_an_encoding_that_is_said_is_used(
    read_file: Callable[..., tuple[list[Document], list[str]]], encoding: str
) -> None:
    documents, faults = read_file("a.txt", "café\nthé\n".encode(encoding), encoding=encoding)
    assert [(document.text, document.line) for document in documents] == [("café", 1), ("thé", 2)]
    assert faults == []


def test_damaged_bytes_in_utf_8_are_a_fault_that_names_a_likely_encoding(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    content = "plain\nà la plage\n".encode() + "Un été où l’eau était claire\nlast\n".encode("cp1252")
    documents, faults = read_file("a.txt", content)
    assert [document.text for document in documents] == ["plain", "à la plage", "last"]
    assert faults == [Naming("a.txt:3", "byte 4", "utf-8", "--encoding cp1252")]


def test_half_a_utf_16_character_is_a_fault_in_its_line(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file(
        "a.txt", "\ufeffone\ntwo\ud800\nthree\n".encode("utf-16-le", "surrogatepass") + b"x"
    )
    assert [document.text for document in documents] == ["one", "three"]
    assert [fault.partition(": ")[0] for fault in faults] == ["a.txt:2", "a.txt:4"]


def test_bytes_that_no_utf_32_character_has_end_the_file_with_a_fault(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, faults = read_file("a.txt", "\ufeffone\n".encode("utf-32-le") + b"\xff\xff\xff\xff")
    assert documents == []
    assert len(faults) == 1
    assert "not utf-32-le" in faults[0]


# Compression


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt.gz", "hello\n"),
        ("a.csv.gz", "text,n\nhello,1\n"),
        ("a.tsv.gz", "text\tn\nhello\t1\n"),
        ("a.jsonl.gz", '{"text": "hello"}'),
        ("a.ndjson.GZ", '{"text": "hello"}'),
    ],
)
def test_gz_files_are_read(write: Callable[[str, str | bytes], str], name: str, content: str | bytes) -> None:
    write(name, gzip.compress(content.encode()) if name.endswith("GZ") else content)
    reading = read([name])
    assert [item.text for item in reading] == ["hello"]
    assert reading.bytes_read == reading.bytes_total == Path(name).stat().st_size


def test_gzip_data_is_known_without_its_suffix(
    read_file: Callable[..., tuple[list[Document], list[str]]],
) -> None:
    documents, _ = read_file("a.txt", gzip.compress(b"hello\n"))
    assert [document.text for document in documents] == ["hello"]


def test_a_cut_gz_file_gives_its_good_rows_and_a_fault(write: Callable[[str, str | bytes], str]) -> None:
    lines = [json.dumps({"text": os.urandom(40).hex()}) for _ in range(5000)]
    whole = gzip.compress("\n".join(lines).encode())
    items = list(read([write("a.jsonl.x", whole[: len(whole) // 2])], ReadOptions(format=Format.JSONL)))
    assert len(items) > 2000
    assert [item.text for item in items[:-1]] == [
        json.loads(line)["text"] for line in lines[: len(items) - 1]
    ]
    reason = "damaged gzip data: Compressed file ended before the end-of-stream marker was reached"
    assert items[-1] == Fault("a.jsonl.x", len(items), f"{reason}; the rest of the file is not read")


def test_a_damaged_gz_file_gives_a_fault(write: Callable[[str, str | bytes], str]) -> None:
    data = bytearray(gzip.compress(b"one\ntwo\n"))
    data[-6] ^= 0xFF  # its checksum
    write("a.txt.x", bytes(data))
    *good, fault = texts("a.txt.x", format=Format.TXT)
    assert good == ["one", "two"]
    assert fault == Naming("! a.txt.x:3", "gzip", "CRC check failed")


def test_a_gz_name_on_other_data_is_a_fault(write: Callable[[str, str | bytes], str]) -> None:
    Path(write("a.txt", "hello\n")).rename("a.txt.gz")
    assert texts("a.txt.gz") == [Naming("! a.txt.gz", ".gz", "not gzip")]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.md", "a.html", "a.jsonl.gz"])
def test_what_was_packed_by_gzip_twice_is_a_fault_that_says_so(
    write: Callable[[str, str | bytes], str], name: str
) -> None:
    write("twice", gzip.compress(gzip.compress(b'{"text": "hello"}\n')))
    Path("twice").rename(name)
    assert texts(name) == [Naming(f"! {name}", "gzip twice", "unpack")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_a_table_that_was_packed_by_gzip_twice_is_refused_and_not_for_its_header(
    write: Callable[[str, str | bytes], str], name: str
) -> None:
    write("twice", gzip.compress(gzip.compress(b"id,text\n1,hello\n")))
    Path("twice").rename(name)
    with pytest.raises(BadInputError) as refused:
        texts(name)
    assert str(refused.value) == Naming(name, "gzip twice", "unpack")
    assert "header" not in str(refused.value)


def test_documents_alone_pass_over_rows_that_cannot_be_used_and_name_the_first_ten(
    write: Callable[[str, str | bytes], str],
) -> None:
    rows = ['{"text": "good", "title": "no text"}', *["{bad"] * 12, '{"text": "fine"}']
    reading = read([write("rows.jsonl", "\n".join(rows))])
    assert list(reading.texts()) == ["good", "fine"]
    assert reading.notes[1:] == [
        *(Naming(f"skipped rows.jsonl:{line}: not JSON") for line in range(2, 12)),
        Naming("12 rows"),
    ]


def test_where_no_row_can_be_used_documents_name_the_first(write: Callable[[str, str | bytes], str]) -> None:
    name = write("rows.jsonl", '{"text": ""}\n{"text": 7}\n')
    with pytest.raises(BadInputError, match=r"none of the 2 rows .*rows\.jsonl:1: "):
        list(read([name], ReadOptions(text="text")).documents())
    assert list(read([write("empty.txt", "\n")]).documents()) == []


def test_a_listener_hears_how_many_documents_there_probably_are(
    write: Callable[[str, str | bytes], str],
) -> None:
    name = write("lines.txt", "a line of text\n" * 100_000)
    heard: list[tuple[int, int | None]] = []
    list(read([name]).documents(lambda done, total: heard.append((done, total))))
    assert [done for done, _ in heard[:2]] == [256, 512]
    done, total = heard[len(heard) // 2]
    assert total == pytest.approx(100_000, rel=0.2)
    assert total is not None
    assert done <= total
