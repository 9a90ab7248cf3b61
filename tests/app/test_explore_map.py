"""`nearsay explore map`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.indexer.maps import mapping
from nearsay.indexer.maps.map import MapOptions

Run = Callable[..., Result]


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder) -> Run:
    """Runs `nearsay explore map pets …` in a folder with a collection of three documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)
    monkeypatch.setattr(mapping, "MapOptions", lambda: MapOptions(rounds=3))
    rows = [
        {"id": "cat", "text": "a cat sat", "legs": 4},
        {"id": "dog", "text": "the dog ran far", "legs": 4},
        {"id": "bird", "text": "parrots whistle melodies", "legs": 2},
    ]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert CliRunner().invoke(main, ["documents", "add", "pets", "pets.jsonl"]).exit_code == 0
    return lambda *arguments: CliRunner().invoke(main, ["explore", "map", "pets", *arguments])


def test_a_map_is_drawn_and_what_is_missing_is_said(pets: Run, tmp_path: Path) -> None:
    result = pets()
    kilobytes = (tmp_path / "map.html").stat().st_size / 1e3
    assert (result.exit_code, result.stdout) == (0, f"map.html: 3 passages, {kilobytes:.0f} kB\n")
    assert result.stderr.endswith(
        "no clusters were made yet. Names on the map: nearsay explore clusters pets\n"
    )
    assert (tmp_path / "map.html").read_bytes().startswith(b"<!DOCTYPE html>")


def test_a_summary_comes_as_json(pets: Run) -> None:
    arguments = ("--out", "map.jsonl", "--where", "legs = 4", "--colour-by", "legs", "--seed", "7", "--json")
    report = json.loads(pets(*arguments).stdout)
    assert report.pop("bytes") > 100
    assert (report.pop("collection"), report.pop("out"), report.pop("generation")) == ("pets", "map.jsonl", 1)
    assert (report["drawn"], report["mapped"], report["laid_out"], report["colour_by"]) == (
        2,
        3,
        True,
        "legs",
    )
    assert report["parameters"]["seed"] == 7
    assert json.loads(pets("--out", "map.csv", "--json").stdout)["laid_out"] is False
    assert json.loads(pets("--out", "map.csv", "--replace", "--json").stdout)["laid_out"] is True


def test_what_cannot_be_written_is_refused_before_the_work(
    pets: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MapOptions", None)
    for out, said in (
        ("map.gif", "Give map one of the endings"),
        ("there/map.html", "Make it: mkdir -p there"),
    ):
        result = pets("--out", out)
        assert result.exit_code == 1
        assert said in result.stderr
    result = pets("--where", "legs >>")
    assert result.exit_code == 1
    assert "the filter cannot be read at column 7" in result.stderr
    assert not list(tmp_path.glob("map*"))


def test_an_unknown_field_leaves_no_file(pets: Run, tmp_path: Path) -> None:
    result = pets("--colour-by", "wings")
    assert result.exit_code == 1
    assert "has a field 'wings'. There are: legs" in result.stderr
    assert not list(tmp_path.glob("map*"))


def test_a_map_can_be_kept_without_a_file(pets: Run, tmp_path: Path) -> None:
    result = pets("--no-file")
    assert (result.exit_code, result.stdout) == (0, "the map of 3 passages is kept\n")
    assert not (tmp_path / "map.html").exists()
    report = json.loads(pets("--no-file", "--json").stdout)
    assert (report["out"], report["mapped"], report["laid_out"]) == (None, 3, False)
