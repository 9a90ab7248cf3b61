"""`nearsay explore clusters` and `nearsay explore rename`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.app.cli.explore_clusters import print_clusters
from nearsay.app.jobs.results import read_results
from nearsay.indexer.catalogue.clusterings import Members
from nearsay.indexer.clusters.clustering import CentralPassage, Cluster, Clustering

Run = Callable[..., Result]

TEXTS = {
    "pet": ("cat dog pig", "dog cat hen", "cat cow dog", "hen dog cat", "dog dog cat"),
    "plant": ("grass apple", "apple roses", "roses grass apple", "wheat apple"),
    "beast": ("elephant antelope", "antelope elephant kangaroo", "elephant elephant"),
}


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder) -> Run:
    """Runs `nearsay …` in a folder with a collection of three plain groups."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)
    rows = [
        {"id": f"{kind}{i}", "text": text, "kind": kind}
        for kind, texts in TEXTS.items()
        for i, text in enumerate(texts)
    ]
    (tmp_path / "zoo.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    assert run_it("documents", "add", "zoo", "zoo.jsonl").exit_code == 0
    return run_it


def three(zoo: Run, *more: str) -> Result:
    return zoo("explore", "clusters", "zoo", "--method", "kmeans", "--clusters", "3", *more)


def test_clusters_are_made_shown_and_kept(zoo: Run) -> None:
    result = three(zoo)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["passages", "cohesion", "name", "for", "example"]
    assert [line.split()[:2] for line in lines[1:]] == [["1", "5"], ["2", "4"], ["3", "3"]]
    assert result.stderr == Naming("3 clusters", "12 passages", "kmeans", "created")
    again = zoo("explore", "clusters", "zoo")
    assert again.stdout == result.stdout
    assert "clustering" not in again.stderr
    assert zoo("collections", "show", "zoo").stdout == Naming("3 clusters", "nearsay explore clusters zoo")


def test_a_name_is_given_and_searched_by(zoo: Run) -> None:
    three(zoo)
    result = zoo("explore", "rename", "zoo", "3", "big beasts")
    assert (result.exit_code, result.stdout.splitlines()) == (0, [Naming("cluster 3", "zoo", "big beasts")])
    found = zoo("search", "zoo", "elephant", "--where", "cluster = 'big beasts'", "--json")
    assert {json.loads(line)["id"] for line in found.stdout.splitlines()} == {"beast0", "beast1", "beast2"}
    renamed = json.loads(zoo("explore", "rename", "zoo", "3", "large beasts", "--json").stdout)
    assert (renamed["report"], renamed["number"], renamed["name"]) == ("cluster", 3, "large beasts")
    result = zoo("explore", "rename", "zoo", "7", "none")
    assert result.exit_code == 1
    assert "has no cluster 7" in result.stderr


def test_anew_is_as_last_time_and_says_what_moved(zoo: Run) -> None:
    three(zoo)
    result = zoo("explore", "clusters", "zoo", "--replace")
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        ["1", "5"],
        ["2", "4"],
        ["3", "3"],
    ]
    assert result.stderr == Naming("3 clusters kept", "0 new", "0 gone", "0 of 12")
    assert zoo("explore", "clusters", "zoo", "--replace", "--seed", "5").stderr == Naming(
        "3 clusters", "12 passages", "kmeans"
    )
    assert Naming("3 clusters", "kmeans") == zoo("explore", "clusters", "zoo", "--assign-outliers").stderr
    again = zoo("explore", "clusters", "zoo", "--replace", "--resolution", "2").stderr
    assert "by graph at a resolution of 2;" in again


def test_the_table_fits_and_leaves_out_what_holds_a_single_other(capsys: pytest.CaptureFixture[str]) -> None:
    central = (CentralPassage(1, "a", "", "a long-winded passage about " + "everything, " * 20),)

    def cluster(number: int, parent: int | None, level: int) -> Cluster:
        name = f"called {number}, and by many other words too"
        return Cluster(number, name, False, 30_000, 0.5, 0.25, parent, level, (), central)

    clusters = (
        *(cluster(number, 10, 0) for number in (1, 2)),
        cluster(3, 11, 0),
        *(cluster(number, None, 1) for number in (10, 11)),
    )
    none = np.zeros(0, dtype=np.int64)
    members = Members(none, none.astype(np.int32), none.astype(np.float64))
    print_clusters(Clustering("zoo", 1, "graph", {}, clusters, 90_000, 0, 0, None, "now", True, members))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["10", "1", "2", "3"]
    assert [line.index("called") - lines[1].index("called") for line in lines[1:]] == [0, 2, 2, 0]
    assert 90 < max(map(len, lines)) <= 100
    assert "long-winded" in lines[1]


def test_what_came_since_is_told_and_assigned(zoo: Run, tmp_path: Path) -> None:
    three(zoo)
    (tmp_path / "more.jsonl").write_text('{"id": "new", "text": "fox owl"}\n')
    zoo("documents", "add", "zoo", "more.jsonl")
    result = zoo("explore", "clusters", "zoo")
    assert result.stderr == Naming("1 newer passage", "not yet")
    assert zoo("collections", "show", "zoo").stdout == Naming("3 clusters", "1 newer passage", "not assigned")
    result = zoo("explore", "clusters", "zoo", "--assign", "--replace")
    assert result.exit_code == 2
    result = zoo("explore", "clusters", "zoo", "--assign")
    assert result.stderr == Naming("1 newer passage", "assigned", "0 outliers")
    assert result.stdout.splitlines()[1].split()[:2] == ["1", "6"]


def test_as_json_with_one_cluster_or_all(zoo: Run) -> None:
    rows = [json.loads(line) for line in three(zoo, "--json").stdout.splitlines()]
    assert [row["number"] for row in rows[:3]] == [1, 2, 3]
    assert (rows[3]["clusters"], rows[3]["method"], rows[3]["outliers"]) == (3, "kmeans", 0)
    assert [row["report"] for row in rows] == ["cluster"] * 3 + ["clustering"]
    found = read_results([json.loads(line) for line in three(zoo, "--replace", "--json").stdout.splitlines()])
    assert (found.rows, len(found.tables)) == ([], 1)
    assert found.lines[1] == Naming("3 clusters kept", "0 new", "0 gone", "0 of 12")
    (one,) = zoo("explore", "clusters", "zoo", "--show", "2", "--json").stdout.splitlines()
    assert (json.loads(one)["report"], json.loads(one)["number"]) == ("cluster", 2)
    shown = zoo("explore", "clusters", "zoo", "--show", "2").stdout
    assert "4 passages" in shown
    assert "terms: " in shown
    assert "cohesion 1.00, silhouette " in shown
    assert "has no cluster 9" in zoo("explore", "clusters", "zoo", "--show", "9").stderr


def test_files_are_written_and_bad_names_refused_before_the_work(zoo: Run, tmp_path: Path) -> None:
    result = three(zoo, "--out", "members.csv")
    assert "12 passages written to members.csv" in result.stderr
    assert len((tmp_path / "members.csv").read_text().splitlines()) == 13
    result = zoo("explore", "clusters", "zoo", "--replace", "--out", "members.xls")
    assert result.exit_code == 1
    assert "Give members one of the endings .jsonl, .csv" in result.stderr


def test_under_a_filter_nothing_is_kept(zoo: Run) -> None:
    result = three(zoo, "--where", "kind != 'beast'")
    assert result.stderr == Naming("9 passages", "kmeans", "not stored")
    result = zoo("search", "zoo", "cat", "--where", "cluster = 1")
    assert result.exit_code == 1
    assert ": nearsay explore clusters zoo" in result.stderr
