"""`nearsay similar` of several, and `nearsay explore outliers|diverse|time|new`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from naming import Naming

from nearsay.indexer import Library
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import ClusterRow, Members

Run = Callable[..., Result]

ROWS = [
    {"id": "a1", "title": "First", "text": "a bb", "year": 2019},
    {"id": "a2", "text": "a a bb", "year": 2020},
    {"id": "a3", "text": "a bb bb", "year": 2021},
    {"id": "c1", "text": "ccc dddd", "year": 2021},
    {"id": "alone", "text": "eeeeeee", "year": "someday"},
]


@pytest.fixture
def run(run: Run) -> Run:
    """Runs `nearsay …` on a collection of five documents, with the words encoder."""
    with Library.open("library") as library:
        library.collection("texts").add_rows(ROWS)
    return run


@pytest.fixture
def clustered(run: Run) -> Run:
    """The same with two clusters, and an outlier."""
    with Library.open("library") as library:
        snapshot = library.collection("texts").snapshot()
        values = {
            "collection_id": snapshot.collection.id,
            "generation": snapshot.generation.number,
            "method": "kmeans",
            "parameters": {},
            "report": {},
            "passages": 5,
            "through": 5,
            "created_at": "2026-11-01T00:00:00+00:00",
        }
        rows = [
            ClusterRow(n, None, 0, name, False, (), (), 1, 1.0, None)
            for n, name in ((1, "short"), (2, "long"))
        ]
        who = Members(np.arange(1, 5), np.array([1, 1, 1, 2], dtype=np.int32), np.ones(4))
        with library.store.database.writing() as connection:
            clusterings.replace(connection, values, rows, who)
    return run


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_several_documents_and_others_to_keep_away_from(run: Run) -> None:
    hits = lines(run("similar", "texts", "--id", "a1", "--id", "a2", "--not", "c1", "--json"))
    assert [hit["id"] for hit in hits] == ["a3", "alone"]
    pushed = lines(run("similar", "texts", "--id", "a1", "--not", "a3", "--away", "0.9", "--json"))
    plain = lines(run("similar", "texts", "--id", "a1", "--json"))
    assert pushed[0]["id"] == "a2"
    assert pushed[0]["score"] != next(hit["score"] for hit in plain if hit["id"] == "a2")
    refused = run("similar", "texts", "--id", "a1", "--not", "a1")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == Naming("'a1'", "wanted", "unwanted")


def test_outliers_come_with_what_is_nearest_to_them(run: Run) -> None:
    found = lines(run("explore", "outliers", "texts", "-n", "2", "--json"))
    assert [(each["rank"], each["id"], each["score"]) for each in found] == [
        (1, "alone", 0.0),
        (2, "c1", 0.0),
    ]
    assert found[0].keys() == {
        "report",
        "rank",
        "score",
        "id",
        "title",
        "text",
        "metadata",
        "passage",
        "nearest",
    }
    shown = run("explore", "outliers", "texts", "-n", "5")
    assert shown.stdout.startswith("  1. 0.000  alone  (mean cosine to the nearest)\n     eeeeeee\n")
    assert "     nearest: 0.000  First  (a1)\n" in shown.stdout
    assert "     nearest: 0.800  a a bb\n" in shown.stdout
    assert shown.stderr == Naming("only 4 passages", "other documents")


def test_a_diverse_sample_says_what_each_stands_for(run: Run) -> None:
    found = lines(run("explore", "diverse", "texts", "-n", "3", "--json"))
    assert [each["stands_for"] for each in found] == [3, 1, 1]
    shown = run("explore", "diverse", "texts", "-n", "1", "--query", "x yy", "--where", "year = 2019")
    assert shown.stdout.startswith("  1. 0.408  First  (represents 1)\n     a bb\n     a1  year=2019\n")
    assert run("explore", "diverse", "texts", "--balance", "7").exit_code == 1


def test_clusters_through_time_are_shown_and_written(clustered: Run, tmp_path: Path) -> None:
    shown = clustered("explore", "time", "texts", "--field", "year", "--out", "trend.csv")
    assert shown.exit_code == 0, shown.output
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["cluster", "documents", "from", "to", "2019", "to", "2021"],
        ["1", "short", "3", "100.0", "%", "54.5", "%", "██▄"],
        ["2", "long", "1", "0.0", "%", "45.5", "%", "█"],
    ]
    assert shown.stderr == Naming("not counted", "1 document", "no date in year", "'someday'")
    assert (tmp_path / "trend.csv").read_text("utf-8").startswith("period,cluster,name,documents,share\n")
    (found,) = lines(clustered("explore", "time", "texts", "--field", "year", "--period", "year", "--json"))
    assert (found["report"], found["periods"]) == ("through time", ["2019", "2020", "2021"])
    assert [(each["number"], each["counts"]) for each in found["clusters"]] == [
        (1, [1, 1, 1]),
        (2, [0, 0, 1]),
    ]
    assert [each["trend"]["grows"] for each in found["clusters"]] == [False, False]
    assert clustered("explore", "time", "texts", "--out", "trend.pdf").exit_code == 1


@pytest.mark.parametrize("how", [(), ("--json",), ("--format", "csv")])
def test_as_many_clusters_are_shown_through_time_as_asked_for(clustered: Run, how: tuple[str, ...]) -> None:
    asked = ("explore", "time", "texts", "--field", "year", *how)
    one, both = clustered(*asked, "-n", "1"), clustered(*asked, "-n", "30")
    assert "short" in one.stdout
    assert "long" not in one.stdout
    assert "1 more cluster" in one.stderr
    assert "long" in both.stdout
    assert "more cluster" not in both.stderr


def test_without_clusters_time_says_how_to_make_them(run: Run) -> None:
    result = run("explore", "time", "texts", "--field", "year")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == Naming("'texts'", "no clusters", "nearsay explore clusters texts")


def test_what_is_new_is_told_with_its_clusters(clustered: Run) -> None:
    shown = clustered("explore", "new", "texts", "--since", "2021", "--field", "year", "-n", "1")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == Naming(
        "since 2021-01-01", "2 documents", "2 passages", "before", "2 documents", "2 passages"
    )
    assert "  1. 0.000  c1  (cosine with the nearest older one)\n" in shown.stdout
    (news,) = lines(clustered("explore", "new", "texts", "--since", "2021", "--field", "year", "--json"))
    assert [each["id"] for each in news["unlike"]] == ["c1", "a3"]
    assert [(each["name"], each["new"], each["before"]) for each in news["clusters"]] == [
        ("short", 1, 2),
        ("long", 1, 0),
    ]
    assert clustered("explore", "new", "texts", "--since", "soon").exit_code == 1
