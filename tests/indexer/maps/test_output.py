"""Maps written to files."""

import csv
import json
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.indexer.maps.draw_map import MapFormat, map_format, write_drawing
from nearsay.indexer.maps.drawing import Drawing, field_of

Draw = Callable[..., Drawing]


@pytest.mark.parametrize(
    ("ending", "beginning"),
    [
        ("html", b"<!DOCTYPE html>"),
        ("png", b"\x89PNG"),
        ("svg", b"<?xml"),
        ("parquet", b"PAR1"),
        ("CSV", b"passage,id"),
    ],
)
def test_each_ending_has_its_kind(draw: Draw, tmp_path: Path, ending: str, beginning: bytes) -> None:
    path = tmp_path / f"map.{ending}"
    size = write_drawing(draw(), path)
    assert path.read_bytes().startswith(beginning)
    assert size == path.stat().st_size
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_drawing_gives_the_same_picture(draw: Draw, tmp_path: Path, ending: str) -> None:
    one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
    write_drawing(draw(), one)
    write_drawing(draw(), other)
    assert one.read_bytes() == other.read_bytes()


def test_a_table_has_a_row_a_passage(
    draw: Draw, tmp_path: Path, nasty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.maps.draw_map._ROW_GROUP", 3)
    write_drawing(draw(), tmp_path / "map.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "map.jsonl").read_text("utf-8").split("\n")[:-1]]
    assert rows[2] == {
        "passage": 12,
        "id": "d2",
        "title": "title 2",
        "text": "about dogs",
        "x": 4.0,
        "y": 2.0,
        "cluster": 3,
        "cluster_name": "dogs",
        "metadata": {"venue": "acl"},
    }
    assert (rows[3]["cluster"], rows[3]["cluster_name"], rows[1]["text"]) == (None, None, nasty)
    write_drawing(draw(), tmp_path / "map.parquet")
    table = pq.read_table(tmp_path / "map.parquet").to_pylist()
    assert [row.pop("venue") for row in table] == ["acl", nasty, "acl", None]
    assert [row.pop("year") for row in table] == [2019, 2020, None, 2021]
    assert [row | {"metadata": json.loads(row["metadata"])} for row in table] == rows
    write_drawing(draw(), tmp_path / "map.csv")
    with (tmp_path / "map.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["text"] for line in lines] == [row["text"] for row in rows]
    assert [line["cluster"] for line in lines] == ["7", "7", "3", ""]


def test_a_field_of_dates_is_a_date_and_one_named_as_a_column_stays_apart(draw: Draw, tmp_path: Path) -> None:
    days = field_of("when", ["2024-05-17T08:00", None, "1969-12-31", "2024-05-18"])
    fields = (days, field_of("Title", ["a", "b", None, "d"]))
    write_drawing(draw(fields=fields), tmp_path / "map.parquet")
    table = pq.read_table(tmp_path / "map.parquet")
    assert table["when"].to_pylist() == [date(2024, 5, 17), None, date(1969, 12, 31), date(2024, 5, 18)]
    assert table["metadata.Title"].to_pylist() == ["a", "b", None, "d"]
    assert table["title"].to_pylist()[1:] == ["title 1", "title 2", "title 3"]


def test_without_clusters_a_table_says_none(draw: Draw, tmp_path: Path) -> None:
    write_drawing(draw(clusters=None, labels=()), tmp_path / "map.parquet")
    assert pq.read_table(tmp_path / "map.parquet")["cluster"].to_pylist() == [None] * 4


def test_what_cannot_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for path, said in (
        ("map.gif", r"'map\.gif' .*\. Give map one of the endings \.html, \.png"),
        ("map", r"'map' .*\.html, \.png"),
        ("there/map.html", r"folder .*there does not exist\. Create it: mkdir -p "),
        ("folder.html", r"is a folder\. Give a file in it"),
    ):
        with pytest.raises(BadInputError, match=said):
            map_format(tmp_path / path)
    assert map_format(tmp_path / "map.PNG") is MapFormat.PNG


def test_parquet_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nearsay\[parquet\]'"):
        map_format(tmp_path / "map.parquet")
