"""Rows of files for training and evaluation: parquet beside the others, and faults in place of rows."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.row_files import file_rows, rows_and_faults
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair, read_scored_pairs

Write = Callable[[str, str | bytes], str]


def test_parquet_rows_have_their_fields_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", None], "n": [1, 2], "tags": [["x"], []]}), path)
    assert list(file_rows(path)) == [
        (1, {"text": "a", "n": 1, "tags": ["x"]}),
        (2, {"text": None, "n": 2, "tags": []}),
    ]


def test_scored_pairs_may_be_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"score": [4.5], "sentence1": ["a"], "sentence2": ["b"]}), path)
    assert read_scored_pairs(path) == [ScoredPair("a", "b", 4.5)]


def test_what_is_no_parquet_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"nowhere\.parquet .*exist"):
        list(file_rows(tmp_path / "nowhere.parquet"))
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(BadInputError, match=r"a\.parquet: damaged.*Get the file again"):
        list(file_rows(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"n": "1"}\nbad\n{"n": "\xff"}\n{"n": "2"}\n'),
        ("a.tsv", b"n\n1\n2\t3\n\xff\n2\n"),
        ("a.csv", b'n\n1\n"2" 3\n\xff\n2\n'),
    ],
)
def test_faults_stand_in_the_place_of_rows_that_cannot_be_read(
    write: Write, name: str, content: bytes
) -> None:
    items = list(rows_and_faults(write(name, content)))
    assert [item if isinstance(item, Fault) else item[1] for item in items] == [
        {"n": "1"},
        items[1],
        items[2],
        {"n": "2"},
    ]
    assert all(isinstance(item, Fault) for item in items[1:3])
    with pytest.raises(BadInputError, match="Mend or remove the line"):
        list(file_rows(name))


def test_a_file_that_ends_in_damage_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b'{"n": "%d"}\n' % number for number in range(5000)))
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    rows = rows_and_faults(tmp_path / "a.jsonl.gz")
    assert next(rows) == (1, {"n": "0"})
    with pytest.raises(BadInputError, match=r"rest .*not read\. Get the file again"):
        list(rows)
    pq.write_table(
        pa.table({"text": [f"some text {n}" for n in range(5000)]}),
        tmp_path / "b.parquet",
        compression="snappy",
    )
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    data[200:2000] = bytes(1800)
    (tmp_path / "b.parquet").write_bytes(data)
    with pytest.raises(BadInputError, match=r"damaged Parquet.*Get the file again"):
        list(rows_and_faults(tmp_path / "b.parquet"))


def test_a_table_in_the_encoding_of_excel_loses_no_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [("Où est le café ?", "Au coin de la rue.")] * 3 + [("plain", "also plain")]
    content = "question;answer\n" + "".join(f"{question};{answer}\n" for question, answer in rows)
    (tmp_path / "pairs.csv").write_bytes(content.encode("cp1252"))
    found = [(row["question"], row["answer"]) for _, row in file_rows(tmp_path / "pairs.csv")]
    assert found == rows
    assert [
        record.getMessage().endswith("read as cp1252: its bytes are not utf-8") for record in caplog.records
    ] == [True]
