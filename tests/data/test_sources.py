"""Finding the files behind names, folders, patterns, standard input and pipes."""

import gzip
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

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


class Trickle(io.RawIOBase):
    """A pipe that gives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        piece, self.data = self.data[:1], self.data[1:]
        buffer[: len(piece)] = piece
        return len(piece)


def test_folders_are_walked_in_order_and_what_is_passed_over_is_counted(
    write: Callable[[str, str | bytes], str],
) -> None:
    for name in (
        "n/b.txt",
        "n/a.md",
        "n/sub/c.txt",
        "n/.hidden.txt",
        "n/.git/d.txt",
        "n/x.png",
        "n/y.png",
        "n/Makefile",
    ):
        write(name, name)
    reading = read(["n"])
    assert [source.name for source in reading.sources] == ["n/a.md", "n/b.txt", "n/sub/c.txt"]
    assert [item.text for item in reading] == ["n/a.md", "n/b.txt", "n/sub/c.txt"]
    assert reading.notes == [Naming("n", "2 hidden", "2 .png", "1 no suffix")]


def test_a_linked_folder_is_passed_over_and_that_is_said(write: Callable[[str, str | bytes], str]) -> None:
    for name in ("n/a.txt", "elsewhere/b.txt"):
        write(name, name)
    Path("n/linked").symlink_to(Path("elsewhere").absolute())
    reading = read(["n"])
    assert [item.text for item in reading] == ["n/a.txt"]
    assert reading.notes == [Naming("n", "1 linked folder")]


def test_a_format_that_is_said_takes_its_files_alone_from_a_folder(
    write: Callable[[str, str | bytes], str],
) -> None:
    write("n/a.txt", "a")
    write("n/b.md", "b")
    assert texts("n", format=Format.MARKDOWN) == ["b"]


@pytest.mark.parametrize(
    "name", ["notes/**/*.txt", "notes/**", "./notes/*.txt", "notes/[ac].txt", "note?/a.txt"]
)
def test_patterns_are_matched(write: Callable[[str, str | bytes], str], name: str) -> None:
    for file in ("notes/a.txt", "notes/.b.txt", "notes/deep/er/c.txt", "notes/.git/d.txt"):
        write(file, file)
    expected = ["notes/a.txt", "notes/deep/er/c.txt"] if "**" in name else ["notes/a.txt"]
    assert texts(name) == expected
    assert texts(str(Path.cwd() / name)) == expected


def test_a_pattern_passes_over_what_it_cannot_read_and_a_format_makes_it_read_all(
    write: Callable[[str, str | bytes], str],
) -> None:
    write("n/a.txt", "a")
    write("n/b.me", "b")
    reading = read(["n/*"])
    assert [item.text for item in reading] == ["a"]
    assert reading.notes == ["n/*: skipped 1 .me"]
    assert texts("n/*", format=Format.TXT) == ["a", "b"]


def test_a_fault_of_a_file_in_a_folder_names_it_once(write: Callable[[str, str | bytes], str]) -> None:
    write("n/a.txt", "one")
    write("n/b.json", '{\n"text": "two"\n}')
    write("n/c.csv", "a,a\n1,2\n")
    write("n/d.jsonl", '{"number": 1}')
    faults = [str(item) for item in read(["n"]) if isinstance(item, Fault)]
    assert faults == [
        Naming("n/b.json: it"),
        Naming("n/c.csv: line 1: the"),
        Naming("n/d.jsonl: the text field"),
    ]
    assert [fault.partition(". ")[0].count("n/") for fault in faults] == [1, 1, 1]  # before the remedy


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(write: Callable[[str, str | bytes], str]) -> None:
    write("a[1].txt", "one")
    assert texts("a[1].txt") == ["one"]


def test_a_file_that_is_named_twice_is_read_once(write: Callable[[str, str | bytes], str]) -> None:
    write("n/a.txt", "one")
    assert texts("n/a.txt", "n", "n/*.txt", str(Path("n/a.txt").absolute())) == ["one"]


def test_files_are_read_where_standard_input_is_closed(
    write: Callable[[str, str | bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as Python has it then
    assert texts(write("a.txt", "a cat")) == ["a cat"]


def test_one_name_alone_is_a_source(write: Callable[[str, str | bytes], str]) -> None:
    assert [item.text for item in read(write("a.txt", "one"))] == ["one"]


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("nowhere.txt", r"nowhere\.txt .*exist"),
        ("nowhere/*.txt", r"nowhere/\*\.txt matches no readable file"),
        ("a/*.txt", r"matches no readable file\. Check"),
        ("a/*", r"a/\* .*\b1 \.png"),
        ("a", r"folder a .*\b1 \.png"),
        ("a/x.png", r"a/x\.png: .*'\.png'.*--input-format txt"),
        ("b**/*.txt", r"pattern|matches no"),
        ("", "name .*empty"),
        ("a\0b", "cannot be a file|does not exist"),
        ("x" * 5000, "cannot be a file"),
    ],
)
def test_what_is_not_there_is_refused_at_once_with_the_remedy(
    write: Callable[[str, str | bytes], str], source: str, match: str
) -> None:
    write("a/x.png", "x")
    with pytest.raises(BadInputError, match=match):
        read([source])


def test_a_file_in_a_folder_that_may_not_be_entered_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refused)
    with pytest.raises(BadInputError, match=r"n/a\.txt .*folder.*chmod u\+x"):
        read(["n/a.txt"])


def test_nothing_to_read_and_standard_input_twice_are_refused() -> None:
    with pytest.raises(BadInputError, match="nothing to read"):
        read([])
    with pytest.raises(BadInputError, match="named twice"):
        read(["-", "-"])


def test_a_file_that_vanishes_is_a_fault_and_the_rest_goes_on(
    write: Callable[[str, str | bytes], str],
) -> None:
    reading = read([write("a.txt", "one"), write("b.txt", "two")])
    Path("a.txt").unlink()
    assert [str(item) if isinstance(item, Fault) else item.text for item in reading] == [
        Naming("a.txt", "No such file or directory"),
        "two",
    ]


def test_a_found_file_without_a_text_field_is_a_fault_and_a_named_one_an_error(
    write: Callable[[str, str | bytes], str],
) -> None:
    write("n/a.txt", "one")
    write("n/b.jsonl", '{"x": 1}')
    assert texts("n") == [
        "one",
        Naming("! n/b.jsonl", "x", "--text FIELD"),
    ]
    with pytest.raises(BadInputError, match=r"n/b\.jsonl: the text field cannot"):
        texts("n/b.jsonl")


def test_a_field_that_no_found_file_has_is_an_error(write: Callable[[str, str | bytes], str]) -> None:
    write("n/a.jsonl", '{"text": "a"}')
    write("n/b.jsonl", '{"text": "b"}')
    with pytest.raises(BadInputError, match="no field 'body'"):
        texts("n", text="body")


def test_guesses_are_noted_once_for_files_that_are_alike(write: Callable[[str, str | bytes], str]) -> None:
    for name in ("n/a.jsonl", "n/b.jsonl"):
        write(name, '{"text": "a", "year": 1}')
    write("n/c.jsonl", '{"text": "a", "venue": 1}')
    reading = read(["n"])
    list(reading)
    guessed = "text = 'text' (guessed), id = none (name one: --id FIELD), title = none"
    assert reading.notes == [
        f"n/a.jsonl: {guessed}, metadata = year",
        f"n/c.jsonl: {guessed}, metadata = venue",
    ]


def test_a_reading_is_iterated_once(write: Callable[[str, str | bytes], str]) -> None:
    reading = read([write("a.txt", "one")])
    list(reading)
    with pytest.raises(RuntimeError, match="iterated already"):
        iter(reading)


def test_a_file_name_that_is_not_utf_8_is_a_fault(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(path)).write_text("one", encoding="utf-8")
    (fault,) = read([tmp_path])
    assert str(fault).encode().endswith(rb"\udcff.txt: the file's path is not UTF-8; rename it")


# Standard input and pipes


@pytest.mark.parametrize("stream", [io.BytesIO, Trickle])
def test_standard_input_is_json_lines_or_text_by_its_first_line(stream: Callable[[bytes], BinaryIO]) -> None:
    data = b'\xef\xbb\xbf\n  \n {"text": "a"}\nbad\n'
    reading = read(["-"], stdin=stream(data))
    assert list(reading) == [
        Document("a", line=3),
        Fault("<stdin>", 4, "not JSON: Expecting value at column 1"),
    ]
    assert (reading.bytes_total, reading.bytes_read) == (None, len(data))
    plain = read(["-"], stdin=stream(b"\nplain {\n"))
    assert list(plain) == [Document("plain {", line=2)]
    assert plain.notes == [Naming("<stdin>", "plain text", "--input-format")]  # it may be CSV
    assert list(read(["-"], stdin=stream(b""))) == []


def test_standard_input_takes_formats_compression_and_encodings() -> None:
    csv = read(["-"], ReadOptions(format=Format.CSV), stdin=io.BytesIO(gzip.compress(b"text,n\na,1\n")))
    assert list(csv) == [Document("a", metadata={"n": 1}, line=2)]
    page = read(["-"], ReadOptions(format=Format.HTML), stdin=io.BytesIO(b"<title>T</title><p>a"))
    assert list(page) == [Document("a", title="T")]
    assert list(read(["-"], stdin=io.BytesIO("é".encode("utf-16")))) == [Document("é", line=1)]


def test_a_bad_first_line_of_standard_input_decides_nothing() -> None:
    items = list(read(["-"], stdin=io.BytesIO(b'\xff\n{"text": "a"}\n')))
    assert [type(item) for item in items] == [Fault, Document]


@pytest.mark.parametrize("kind", ["parquet", "pdf", "docx"])
def test_formats_that_need_a_file_are_refused_on_standard_input(kind: str) -> None:
    with pytest.raises(BadInputError, match=r"cannot be .*standard input"):
        read(["-"], ReadOptions(format=Format(kind)))


def test_a_named_pipe_is_read_like_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b'{"text": "a"}\n',))
    writer.start()
    reading = read([path])
    assert list(reading) == [Document("a", line=1)]
    writer.join()
    assert reading.bytes_total is None


def test_what_is_no_file_is_counted(write: Callable[[str, str | bytes], str]) -> None:
    write("n/a.txt", "a")
    Path("n/gone.txt").symlink_to("nowhere.txt")
    Path("n/round.txt").symlink_to("round.txt")
    os.mkfifo("n/pipe.txt")
    for given in ("n", "n/*"):
        reading = read([given])
        assert [item.text for item in reading] == ["a"]
        assert reading.notes == [Naming(given, "2 broken link", "1 device, pipe")]


def test_brackets_of_a_folder_that_is_there_are_no_pattern(
    write: Callable[[str, str | bytes], str],
) -> None:
    write("notes [old]/a.txt", "one")
    write("notes [old]/b.md", "two")
    assert texts("notes [old]/*.txt") == ["one"]
    assert texts(str(Path("notes [old]/[ab].*").absolute())) == ["one", "two"]


def test_a_list_of_names_is_no_name() -> None:
    with pytest.raises(BadInputError, match="one by one"):
        read([["a.txt"]])  # type: ignore[list-item]
