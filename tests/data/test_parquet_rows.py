"""Reading Parquet files."""

import datetime as dt
import decimal
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read


def write_parquet(path: str, columns: dict[str, object], **options: int) -> str:
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_a_text_of_bytes_is_named_where_no_text_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = write_parquet("a.parquet", {"text": pa.array([b"a"]), "n": pa.array([1])})
    with pytest.raises(BadInputError, match=r"a\.parquet: .* n \(.*bytes.*: text\)"):
        list(read([name]))
    with pytest.raises(BadInputError, match=r"'text'.* n \(.*bytes.*: text\)"):
        list(read([name], ReadOptions(text="text")))


def test_parquet_rows_become_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    when = dt.datetime(2024, 3, 1, 12, 30, tzinfo=dt.UTC)
    columns = {
        "id": pa.array([1.0, None]),
        "Title": pa.array(["t", None]),
        "abstract": pa.array(["one", "two"]).dictionary_encode(),
        "day": pa.array([dt.date(2024, 3, 1), None]),
        "at": pa.array([when, None], pa.timestamp("ns", "UTC")),
        "price": pa.array([decimal.Decimal("1.50"), None]),
        "score": pa.array([float("nan"), 0.5]),
        "tags": pa.array([["a"], []]),
        "picture": pa.array([b"x", b"y"]),
        "metadata": pa.array([{"year": 2019}, {"year": None}]),
    }
    reading = read([write_parquet("a.parquet", columns)])
    source = (tmp_path / "a.parquet").as_posix()
    first = {
        "day": "2024-03-01",
        "at": "2024-03-01T12:30:00+00:00",
        "price": 1.5,
        "tags": ["a"],
        "year": 2019,
    }
    assert list(reading) == [
        Document("one", "1", "t", first, source, 1),
        Document("two", None, "", {"score": 0.5, "tags": []}, source, 2),
    ]
    assert reading.bytes_read == reading.bytes_total
    assert reading.notes == [
        Naming("a.parquet", "bytes or durations", "picture"),
        Naming(
            "a.parquet",
            "text = 'abstract' (guessed)",
            "id = 'id'",
            "title = 'Title'",
            "metadata = day, at, price, score, tags, year",
        ),
    ]


def test_ids_that_are_decimals_without_places_keep_every_digit(tmp_path: Path) -> None:
    ids = [decimal.Decimal(1234567890123456701 + number) for number in range(3)]  # no float tells them apart
    columns = {"ID": pa.array(ids, pa.decimal128(38, 0)), "text": ["a", "b", "c"]}  # as Snowflake unloads it
    documents = list(read([write_parquet(str(tmp_path / "a.parquet"), columns)]))
    assert [document.id for document in documents if isinstance(document, Document)] == [*map(str, ids)]


def test_a_column_that_holds_bytes_costs_no_row_and_its_fields_can_be_chosen(tmp_path: Path) -> None:
    columns = {
        "caption": ["a boat"],
        "image": [{"bytes": b"\x89PNG", "path": "boat.png"}],  # as data sets on the hub have them
        "parts": pa.array([[b"x"]]),
        "took": pa.array([{"all": dt.timedelta(seconds=1)}]),
    }
    path = write_parquet(str(tmp_path / "a.parquet"), columns)
    reading = read([path])
    (document,) = reading
    assert (document.text, document.metadata) == ("a boat", {})
    assert reading.notes[0] == Naming(path, "bytes or durations", "image, parts, took")
    (document,) = read([path], ReadOptions(text="caption", metadata=("image.path",)))
    assert document.metadata == {"image.path": "boat.png"}


def test_parquet_columns_can_be_chosen(tmp_path: Path) -> None:
    columns = {
        "a.b": ["x"],
        "s": [{"t": "inner"}],
        "metadata": [{"year": 1, "n": 2}],
        "k": [uuid.UUID(int=5).hex],
    }
    path = write_parquet(str(tmp_path / "a.parquet"), columns)
    (document,) = read([path], ReadOptions(text="s.t", id="a.b", metadata=("year", "metadata.n")))
    assert (document.text, document.id, document.metadata) == ("inner", "x", {"year": 1, "metadata.n": 2})


@pytest.mark.parametrize("name", ["s.nope", "text.t", "s.u.nope", "ids.t"])
def test_a_field_that_no_struct_of_the_file_has_is_refused(tmp_path: Path, name: str) -> None:
    columns = {"text": ["a"], "s": [{"t": "x", "u": {"v": 1}}], "ids": pa.array([[{"t": 1}]])}
    path = write_parquet(str(tmp_path / "a.parquet"), columns)
    for options in (ReadOptions(id=name), ReadOptions(title=name), ReadOptions(metadata=(name,))):
        with pytest.raises(BadInputError, match=rf"'{name}'.*text, s, ids"):
            list(read([path], options))
    (document,) = read([path], ReadOptions(id="s.u.v", title="s.t"))
    assert (document.id, document.title) == ("1", "x")


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="before 18, pyarrow gives their bytes")
def test_an_id_may_be_a_column_of_uuids(tmp_path: Path) -> None:
    columns = {"text": ["a"], "id": pa.array([uuid.UUID(int=5).bytes], pa.uuid())}
    (document,) = read([write_parquet(str(tmp_path / "a.parquet"), columns)])
    assert (document.id, document.metadata) == ("00000000-0000-0000-0000-000000000005", {})


def test_a_parquet_file_that_is_written_anew_meanwhile_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_parquet("a.parquet", {"text": [f"{n} {n * 'x'}" for n in range(3000)]}, row_group_size=500)
    found = iter(read(["a.parquet"]))
    assert isinstance(next(found), Document)
    write_parquet("a.parquet", {"words": ["x"]})
    items = list(found)
    assert len(items) < 2999
    assert str(items[-1]) == Naming("a.parquet", "rest", "not read")


def test_parquet_faults_have_their_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = {"text": ["one", None, " ", "a\0", "x" * 50], "n": pa.array([1, 2, 3, 4, 5])}
    items = list(read([write_parquet("a.parquet", columns)], ReadOptions(max_text_bytes=40)))
    assert [str(item) for item in items[1:]] == [
        Naming("a.parquet:2", "'text'", "null"),
        Naming("a.parquet:3", "'text'", "empty"),
        Naming("a.parquet:4", "NUL"),
        Naming("a.parquet:5", "40 bytes", "--max-text-bytes"),
    ]


def test_a_parquet_value_that_cannot_be_read_costs_its_row_alone(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(),
        3,
        [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0\5\0\0\0\7\0\0\0"), pa.py_buffer(b"one\xff\xfftw")],
    )
    path = write_parquet(str(tmp_path / "a.parquet"), {"text": bad})
    items = list(read([path]))
    assert [type(item) for item in items] == [Document, Fault, Document]
    assert items[1].line == 2


def test_many_parquet_rows_are_all_read_and_counted(tmp_path: Path) -> None:
    path = write_parquet(
        str(tmp_path / "a.parquet"), {"text": [f"t{n}" for n in range(3000)]}, row_group_size=700
    )
    reading = read([path])
    assert [document.line for document in reading] == list(range(1, 3001))
    assert reading.bytes_read == reading.bytes_total


def test_damaged_parquet_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    (fault,) = read(["a.parquet"])
    assert str(fault).startswith("a.parquet: damaged Parquet file: ")
    write_parquet("b.parquet", {"text": [f"some text {n}" for n in range(5000)]}, compression="snappy")
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    data[200:2000] = bytes(1800)
    (tmp_path / "b.parquet").write_bytes(data)
    items = list(read(["b.parquet"]))
    assert isinstance(items[-1], Fault)
    assert "damaged Parquet file" in items[-1].reason


def test_parquet_fields_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = write_parquet(str(tmp_path / "a.parquet"), {"n": [1], "words": ["x"], "more": ["y"]})
    with pytest.raises(BadInputError, match=r"text field .*n, words, more"):
        list(read([path]))
    with pytest.raises(BadInputError, match="no field 'body'"):
        list(read([path], ReadOptions(text="body")))


def test_two_parquet_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(BadInputError, match="two columns 'text'"):
        list(read([tmp_path / "a.parquet"]))


def test_a_column_whose_name_is_not_utf_8_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path(write_parquet("a.parquet", {"text": ["one"], "naïve": ["two"]})).read_bytes()
    Path("a.parquet").write_bytes(data.replace("ï".encode(), b"\xff\xff"))
    Path("b.txt").write_text("three")
    fault, document = read(["a.parquet", "b.txt"])
    assert isinstance(fault, Fault)
    assert fault.reason == Naming("damaged Parquet file")
    assert isinstance(document, Document)


def test_a_value_that_python_has_no_form_for_is_named_with_its_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    when = pa.array([0, 2**50], pa.timestamp("ms"))
    document, fault = read([write_parquet("a.parquet", {"text": ["one", "two"], "when": when})])
    assert isinstance(document, Document)
    assert str(fault) == Naming("a.parquet:2", "'when'", "leave the column out")
