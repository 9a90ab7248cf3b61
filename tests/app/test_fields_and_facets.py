"""`nearsay documents fields` and `nearsay documents facets`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main

Run = Callable[..., Result]


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder) -> Run:
    """Runs `nearsay …` in a folder with a collection of three documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)
    rows = [
        {"id": "cat", "text": "a cat sat", "legs": 4, "kind": "mammal"},
        {"id": "dog", "text": "a dog ran far", "legs": 4, "kind": "mammal"},
        {"id": "bird", "text": "parrots whistle melodies", "legs": 2},
    ]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    assert run_it("documents", "add", "pets", "pets.jsonl").exit_code == 0
    return run_it


def test_fields_are_listed_with_what_they_hold(pets: Run) -> None:
    result = pets("documents", "fields", "pets")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["field", "kind", "values", "documents"],
        ["legs", "number", "2", "to", "4", "3"],
        ["kind", "category", "mammal", "2"],
    ]
    found = json.loads(pets("documents", "fields", "pets", "--json").stdout)
    assert (found["collection"], [each["name"] for each in found["fields"]]) == ("pets", ["legs", "kind"])
    rows = pets("documents", "fields", "pets", "--format", "jsonl").stdout.splitlines()
    assert json.loads(rows[1]) == found["fields"][1]
    assert found["fields"][1]["values"] == ["mammal"]


def test_values_are_counted_with_what_is_left_out(pets: Run) -> None:
    result = pets("documents", "facets", "pets", "legs", "-n", "1")
    assert result.exit_code == 0
    assert result.stdout == "legs  documents\n   4          2\n"
    assert result.stderr.splitlines() == [Naming("1 more", 1), Naming("without legs", "0 of 3")]
    result = pets("documents", "facets", "pets", "kind", "--where", "legs < 4", "--json")
    assert json.loads(result.stdout) == {
        "field": "kind",
        "values": [],
        "different": 0,
        "other": 0,
        "missing": 1,
        "documents": 1,
    }


def test_rows_have_the_same_keys_whatever_the_field_is_called(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "files.jsonl").write_text('{"id": "a", "text": "a cat sat", "documents": "letters"}\n')
    assert pets("documents", "add", "files", "files.jsonl").exit_code == 0
    result = pets("documents", "facets", "files", "documents", "--format", "jsonl")
    assert json.loads(result.stdout) == {"value": "letters", "documents": 1}
    table = pets("documents", "facets", "files", "documents").stdout.splitlines()
    assert [line.split() for line in table] == [["documents", "documents"], ["letters", "1"]]


def test_a_field_that_no_document_has_is_refused_with_those_there_are(pets: Run) -> None:
    for more in ((), ("--where", "legs = 2")):
        result = pets("documents", "facets", "pets", "nofield", *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [Naming("Error", "'nofield'", "kind, legs")]
    result = pets("documents", "facets", "pets", "kind", "--where", "legs = 2")  # others have it
    assert (result.exit_code, result.stderr.splitlines()) == (0, [Naming("without kind", "1 of 1")])


def test_where_no_document_has_metadata_no_field_is_offered(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.jsonl").write_text('{"id": "a", "text": "a cat sat"}\n')
    assert pets("documents", "add", "plain", "plain.jsonl").exit_code == 0
    result = pets("documents", "facets", "plain", "kind")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [Naming("Error", "'plain'", "no metadata", "'kind'")]


def test_what_documents_have_without_metadata_is_counted_and_clusters_are_asked_for(pets: Run) -> None:
    result = pets("documents", "facets", "pets", "title")
    assert (result.exit_code, result.stderr.splitlines()) == (0, [Naming("without title", "3 of 3")])
    result = pets("documents", "facets", "pets", "cluster")
    assert result.exit_code == 1
    assert result.stderr.endswith(": nearsay explore clusters pets\n")


def test_a_filter_that_lets_nothing_through_is_answered_with_the_fields_there_are(pets: Run) -> None:
    commands = [
        ("documents", "list", "pets"),
        ("documents", "export", "pets"),
        ("documents", "remove", "pets", "--yes"),
        ("documents", "remove", "pets", "--dry-run"),
        ("explore", "outliers", "pets"),
        ("explore", "diverse", "pets"),
    ]
    for command in commands:
        result = pets(*command, "--where", "nope > 1")
        assert result.exit_code == 0
        assert result.stderr.splitlines()[-1] == Naming("'nope'", "kind, legs")
        result = pets(*command, "--where", "legs = 'four'")
        assert result.stderr.splitlines()[-1] == Naming("'legs' holds numbers", "'four'")
    for command in commands[:2]:
        assert "field" not in pets(*command, "--where", "legs = 2").stderr
        assert "field" not in pets(*command).stderr
    assert "field" not in pets("documents", "remove", "pets", "--id", "dog").stderr


def test_a_field_whose_name_has_a_dot_is_counted_in_backquotes_which_an_error_says(
    pets: Run, tmp_path: Path
) -> None:
    (tmp_path / "dots.jsonl").write_text('{"id": "a", "text": "a cat sat", "a.b": "x", "Nr.": 1}\n')
    assert pets("documents", "add", "dots", "dots.jsonl").exit_code == 0
    for name in ("a.b", "Nr."):
        result = pets("documents", "facets", "dots", name)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [Naming("Error", f"'{name}'", f"`{name}`, in backquotes")]
        assert pets("documents", "facets", "dots", f"`{name}`").exit_code == 0
