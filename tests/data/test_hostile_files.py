"""Small files made to take all memory or all time: each is named, and what stands beside it is read."""

import gzip
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from naming import Naming

from nearsay.data import delimited, whole_files
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.json_values import MAX_FIELDS
from nearsay.data.reading import read
from nearsay.data.reading_process import MEMORY_BYTES

Write = Callable[[str, str | bytes], str]
MERGED = "".join(f"b{at}: &b{at} {{<<: [{', '.join([f'*b{at - 1}'] * 9)}]}}\n" for at in range(1, 10))
WIDE = [f"c{at}" for at in range(MAX_FIELDS + 1)]


def read_beside_good(write: Write, name: str, content: str | bytes) -> list[Fault]:
    """The faults of a folder with this file and a good one, whose document is there in any case."""
    write(f"folder/{name}", content)
    write("folder/zz.txt", "good")
    items = list(read(["folder"]))
    assert [item.text for item in items if isinstance(item, Document)][-1] == "good"
    faults = [item for item in items if isinstance(item, Fault)]
    assert {fault.source for fault in faults} == {f"folder/{name}"}
    return faults


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.md", f"---\nb0: &b0 {{x: 1}}\n{MERGED}---\ntext", "merge keys"),
        ("a.md", "---\n" + "k: v\n" * 50_000 + "---\ntext", "131,072 characters"),
        ("a.html", "<p " + " ".join(f"a{at}=1" for at in range(100_000)) + ">x", "10,000 attributes"),
        ("a.html", "<div>" * 100_000 + "x", "20,000 elements"),
        ("a.csv", ",".join(WIDE) + "\n", "16,384"),
        ("a.tsv", "\t".join(["same"] * 100_000) + "\n", "100,000 fields"),
        ("a.jsonl", "{" + ",".join(f'"{name}": ""' for name in WIDE) + ', "text": "x"}', "16,386 fields"),
        ("a.jsonl", '{"text": "x", "a": ' + "[" * 100_000 + "\n", "nested too deeply"),
        ("a.jsonl", '{"text": "x", "a": ' + "9" * 1_000_000 + "}\n", "4300 digits"),
        ("a.txt.gz", bytes(100 * 2**20), "150 times"),
    ],
)
def test_what_no_usual_file_holds_is_a_fault_before_it_costs_anything(
    write: Write, name: str, content: str | bytes, reason: str
) -> None:
    (fault,) = read_beside_good(write, name, content)
    assert reason in fault.reason


def test_a_page_of_very_many_articles_is_read(write: Write) -> None:
    write("a.html", "<article>x</article>" * 30_000)
    (page,) = read(["a.html"])
    assert isinstance(page, Document)
    assert page.text.count("x") == 30_000


@pytest.mark.long
def test_a_page_whose_elements_multiply_is_ended_at_the_limit_of_memory(write: Write) -> None:
    page = "<p>" + "".join(f"<b a={at}>" for at in range(5000)) + "<p>x" * 6000
    assert len(page) < 100_000
    (fault,) = read_beside_good(write, "a.html", page)
    assert f"{MEMORY_BYTES / 2**30:g} GB" in fault.reason


@pytest.mark.long
def test_a_page_that_takes_too_long_is_ended_at_the_limit_of_time(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "seconds_for", lambda _: 2.0)
    (fault,) = read_beside_good(write, "a.md", "[" * 2_000_000)
    assert "2 seconds" in fault.reason


def long_value(folder: Path, **options: object) -> bytes:
    """A Parquet file whose second row is 256 MiB long, in some ten kilobytes."""
    path = folder / "made.parquet"
    table = pa.table({"text": ["first", "x" * 2**28, "third"]})
    pq.write_table(table, path, compression="zstd", **options)
    return path.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_huge_value_in_parquet_costs_its_row(write: Write, tmp_path: Path, dictionary: bool) -> None:
    content = long_value(tmp_path, use_dictionary=dictionary)
    assert len(content) < 50_000
    (fault,) = read_beside_good(write, "a.parquet", content)
    assert fault.line == 2
    assert "67,108,864" in fault.reason


@pytest.mark.long
def test_parquet_that_takes_more_than_all_memory_is_ended_at_its_row(write: Write, tmp_path: Path) -> None:
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * 2**22]))
    path = tmp_path / "made.parquet"
    pq.write_table(pa.table({"text": value}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 2000
    (fault,) = read_beside_good(write, "a.parquet", path.read_bytes())
    assert fault.line == 1
    assert fault.reason == Naming("rest", "not read")


@pytest.mark.long
def test_too_many_columns_in_parquet_are_refused(write: Write) -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({name: [1] for name in WIDE}), stream)
    (fault,) = read_beside_good(write, "a.parquet", stream.getvalue())
    assert "16,385 fields" in fault.reason


def test_quotes_that_never_close_are_not_looked_for_without_end(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_READ_AGAIN", 100_000)
    faults = read_beside_good(write, "a.csv", "one,two,text\n" + 'a",b,"c\n' * 10_000)
    assert len(faults) == 2
    assert faults[-1].reason == Naming("rest", "not read")


def word(**parts: str) -> bytes:
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", relations)
        for name, content in parts.items():
            archive.writestr(f"word/{name}.xml", content)
    return stream.getvalue()


@pytest.mark.long
@pytest.mark.parametrize(
    ("document", "times", "reason"),
    [
        ('<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><d>&b;</d>', 1, "document type"),
        ("<a>", 100_000, "1,000 levels"),
        (" ", 513 * 2**20, "536,870,912 bytes"),
        ("<a>", 1, "it is no Word document"),
    ],
)
def test_word_documents_that_would_grow_are_refused(
    write: Write, document: str, times: int, reason: str
) -> None:
    (fault,) = read_beside_good(write, "a.docx", word(document=document * times))
    assert reason in fault.reason


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no archive", b"\xd0\xcf\x11\xe0", gzip.compress(b"x", mtime=0), word()),
        word(document="<d/>", é="").replace("é".encode(), b"\xff\xff"),
    ],
    ids=["empty", "no archive", "an older one", "gzip", "no document", "a name that is not UTF-8"],
)
def test_what_is_only_called_a_word_document_is_a_fault(write: Write, content: bytes) -> None:
    (fault,) = read_beside_good(write, "a.docx", content)
    assert "save it as .docx" in fault.reason


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/random"])
def test_devices_are_refused_at_once(device: str) -> None:
    assert Path(device).exists()
    with pytest.raises(BadInputError, match="is a device"):
        read([device])


def test_devices_and_pipes_in_a_folder_are_passed_over(write: Write) -> None:
    write("folder/a.txt", "good")
    os.mkfifo("folder/b.txt")
    Path("folder/c.txt").symlink_to("/dev/zero")
    assert [item.text for item in read(["folder"])] == ["good"]
