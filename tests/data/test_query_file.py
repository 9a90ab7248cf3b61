"""A user's own queries, from a file."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.query_file import read_queries


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("asked.txt", "how to mend a kettle\n\nwhere do swifts sleep\n"),
        (
            "asked.jsonl",
            '{"query": "how to mend a kettle", "text": ""}\n{"query": "where do swifts sleep"}\n',
        ),
        ("asked.jsonl", '{"text": "how to mend a kettle"}\n{"text": "where do swifts sleep"}\n'),
    ],
)
def test_queries_are_read_a_line_each_or_by_their_field(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_queries(path) == ["how to mend a kettle", "where do swifts sleep"]


@pytest.mark.parametrize("name", ["asked.csv", "asked.tsv", "asked.jsonl.gz", "asked.parquet"])
def test_of_any_table_the_field_query_is_taken_however_long_the_others_are(tmp_path: Path, name: str) -> None:
    path, answer = tmp_path / name, "a much longer text, which is the answer and not what was asked"
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"answer": [answer], "query": ["how long?"]}), path)
    elif name.endswith(".gz"):
        row = f'{{"answer": "{answer}", "query": "how long?"}}\n'
        path.write_bytes(gzip.compress(row.encode()))
    else:
        sign = "," if name.endswith(".csv") else "\t"
        path.write_text(f"answer{sign}Query\n{answer.replace(',', ';')}{sign}how long?\n", "utf-8")
    assert read_queries(path) == ["how long?"]


def test_what_stands_beside_a_query_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"  # as embedded queries are kept
    path.write_text(json.dumps({"query": "where do swifts sleep", "embedding": [0.1] * 64}), "utf-8")
    assert read_queries(path) == ["where do swifts sleep"]


def test_a_row_that_is_no_query_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text('{"query": "where do swifts sleep"}\n{"query": \n', encoding="utf-8")
    with pytest.raises(BadInputError, match=r"asked\.jsonl:2.*Fix the row"):
        read_queries(path)


def test_a_file_without_queries_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "asked.txt"
    path.write_text("\n\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="holds no queries"):
        read_queries(path)


def test_a_table_without_a_field_of_queries_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text('{"one": "where do swifts sleep", "two": "and when"}\n', encoding="utf-8")
    with pytest.raises(BadInputError, match=r"fields are one, two\. .*to query$"):
        read_queries(path)
