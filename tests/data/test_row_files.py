"""Rows of files for training and evaluation: parquet beside the others, and faults in place of rows."""

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from naming import Naming

from nearsay.data import row_files
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.row_files import file_lines, file_rows, rows_and_faults
from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair, read_scored_pairs

Write = Callable[[str, str | bytes], str]


def test_parquet_rows_have_their_fields_and_number(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", None], "n": [1, 2], "tags": [["x"], []]}), path)
    assert list(file_rows(path)) == [
        (1, {"text": "a", "n": 1, "tags": ["x"]}),
        (2, {"text": None, "n": 2, "tags": []}),
    ]


def test_a_name_is_that_of_the_folder_one_is_in_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        pq.write_table(pa.table({"text": [folder]}), "a.parquet")
        assert list(file_rows("a.parquet")) == [(1, {"text": folder})]


def test_scored_pairs_may_be_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"score": [4.5], "sentence1": ["a"], "sentence2": ["b"]}), path)
    assert read_scored_pairs(path) == [ScoredPair("a", "b", 4.5)]


def test_scores_and_labels_may_be_decimals(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    scores = pa.array([Decimal("4.5"), Decimal("1.0")])
    pq.write_table(pa.table({"score": scores, "sentence1": ["a", "c"], "sentence2": ["b", "d"]}), path)
    assert read_scored_pairs(path) == [ScoredPair("a", "b", 4.5), ScoredPair("c", "d", 1.0)]
    labels = pa.array([Decimal(10**30), Decimal(2)], pa.decimal128(38, 0))
    pq.write_table(pa.table({"label": labels, "text": ["a", "c"]}), path)
    assert read_labelled_texts(path).rows[1].label == "2"


def test_columns_of_bytes_are_said_to_be_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [b"a", b"b"], "label": ["x", "y"]}), path)
    with pytest.raises(BadInputError, match="'label'"):
        read_labelled_texts(path)
    assert caplog.messages == [Naming("a.parquet", "bytes", "text")]


def test_a_table_of_bytes_alone_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"picture": [b"one", b"two"]}), tmp_path / "a.parquet")
    with pytest.raises(BadInputError) as refused:
        list(file_rows(tmp_path / "a.parquet"))
    assert str(refused.value) == Naming("a.parquet", "picture", "strings")


def test_that_a_tsv_looks_quoted_is_warned_of(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    rows = list(file_rows(write("a.tsv", 'text\n"He said ""hi"""\n')))
    assert rows == [(2, {"text": '"He said ""hi"""'})]
    assert caplog.messages == [Naming("a.tsv:2", "quoted", ".csv")]


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
    with pytest.raises(BadInputError, match="Fix or remove the line"):
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
    assert ["read as cp1252. Convert it" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv", "a.csv"])
def test_a_row_that_is_too_long_is_named_without_an_option_that_trainings_do_not_have(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(row_files, "MAX_ROW_BYTES", 20)
    row = '{"n": "%s"}\n' if name == "a.jsonl" else "%s\n"
    head = "" if name == "a.jsonl" else "n\n"
    items = list(rows_and_faults(write(name, head + row % ("x" * 30) + row % 2)))
    assert items[1] == (3 if head else 2, {"n": "2"})
    assert isinstance(items[0], Fault)
    assert items[0].reason == Naming("line", "20 bytes")
    assert "--" not in items[0].reason


def test_an_open_quote_is_named_without_an_option_that_trainings_do_not_have(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "MAX_ROW_BYTES", 20)
    fault = next(rows_and_faults(write("a.csv", 'n\n"open\n' + "word\n" * 9)))
    assert isinstance(fault, Fault)
    assert fault.reason == Naming("quote", "not closed within 20 bytes")
    assert "--" not in fault.reason


def test_a_line_that_cannot_be_decoded_is_named_without_an_option_that_trainings_do_not_have(
    write: Write,
) -> None:
    lines = ["plain"] + ["Où est le café ?"] * 3
    content = "\n".join(lines).encode() + b"\n" + "Où est le café noir ?".encode("cp1252") + b"\n"
    with pytest.raises(BadInputError, match=r"a\.txt:5: byte 2 .*not utf-8") as caught:
        list(file_lines(write("a.txt", content)))
    assert "--" not in str(caught.value)


def test_a_json_list_has_rows_and_one_without_an_end_is_no_set_to_learn_from(write: Write) -> None:
    assert list(file_rows(write("a.json", '[{"n": "1"},\n {"n": "2"}]'))) == [
        (1, {"n": "1"}),
        (2, {"n": "2"}),
    ]
    with pytest.raises(BadInputError, match=r"b\.json:3: the JSON list has no end"):
        list(rows_and_faults(write("b.json", '[{"n": "1"}, {"n": "2"},')))


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a b.json", '{"n": "1",\n"m": "2"}\n', r"\.' 'a b\.json' > 'a b\.jsonl'"),
        ("a.json.gz", '{"n": "1",\n"m": "2"}\n', r"\.' <\(gzip -dc a\.json\.gz\) > a\.jsonl"),
    ],
)
def test_one_json_value_over_many_lines_is_refused_with_the_way_to_convert_it(
    write: Write, name: str, content: str, part: str
) -> None:
    with pytest.raises(BadInputError, match="jq -c '" + part):
        list(rows_and_faults(write(name, content)))
