"""`nearsay explore pairs` and `nearsay explore duplicates`."""

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
    """Runs `nearsay …` in a folder with a collection of four documents, of which three are alike."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)
    rows = [
        {"id": "cat", "text": "a cat sat", "title": "", "legs": 4},
        {"id": "dog", "text": "a dog ran", "title": "", "legs": 4},
        {"id": "ox", "text": "a fat ox \x1b[31m sat", "title": "", "legs": 4},
        {"id": "bird", "text": "parrots whistle melodies", "title": "song", "legs": 2},
    ]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    assert run_it("documents", "add", "pets", "pets.jsonl").exit_code == 0
    return run_it


def test_the_most_similar_pair_is_shown_with_both_texts(pets: Run) -> None:
    result = pets("explore", "pairs", "pets", "-n", "1")
    assert result.exit_code == 0
    assert result.stdout == "  1. 1.0000\n     cat\n       a cat sat\n     dog\n       a dog ran\n"


def test_no_text_of_a_document_steers_the_terminal(pets: Run) -> None:
    assert "\x1b" not in pets("explore", "pairs", "pets").stdout


def test_a_document_is_a_line_of_the_list_and_its_title_one_of_a_hit(pets: Run, tmp_path: Path) -> None:
    row = {"id": "a\nb\tc", "text": "whales sing", "title": "big\n fish"}
    (tmp_path / "more.jsonl").write_text(json.dumps(row))
    assert pets("documents", "add", "more", "more.jsonl").exit_code == 0
    assert pets("documents", "list", "more").stdout == "a b c\tbig fish\n"
    assert "  big fish\n     whales sing\n" in pets("search", "more", "whales").stdout


def test_pairs_are_given_as_json(pets: Run) -> None:
    result = pets("explore", "pairs", "pets", "--threshold", "0.99", "--where", "legs = 4", "--json")
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert row["cosine"] == 1.0
    assert row["first"] == {
        "id": "cat",
        "title": "",
        "text": "a cat sat",
        "ordinal": 0,
        "metadata": {"legs": 4},
    }
    assert row["second"]["id"] == "dog"


def test_pairs_with_another_collection(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(
        json.dumps({"id": "song", "text": "parrots whistle melodies"}) + "\n"
    )
    pets("documents", "add", "more", "more.jsonl")
    result = pets("explore", "pairs", "pets", "--with", "more", "-n", "1", "--json")
    row = json.loads(result.stdout)
    assert (row["first"]["id"], row["second"]["id"]) == ("bird", "song")
    result = pets("explore", "pairs", "pets", "--with", "more", "--with-where", "id = 'none'")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == Naming("no pairs", "4 passages")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--with", "pets"], 1, "'pets' cannot be compared with itself"),
        (["--with-where", "a = 1"], 2, "--with-where needs --with OTHER"),
        (["--threshold", "90"], 1, "cosine from -1 to 1"),
        (["--with", "none"], 1, "none"),
    ],
)
def test_what_cannot_be_meant_ends_with_a_remedy(
    pets: Run, options: list[str], status: int, said: str
) -> None:
    result = pets("explore", "pairs", "pets", *options)
    assert result.exit_code == status
    assert said in result.stderr


def test_duplicates_are_shown_in_groups(pets: Run) -> None:
    result = pets("explore", "duplicates", "pets")
    assert result.exit_code == 0
    assert (
        result.stdout
        == "  1. 2 near-duplicates; representative:\n     cat\n       a cat sat\n     also: dog\n"
    )
    assert result.stderr.splitlines() == [Naming("1 group", "4 documents", "0.95", "1 document")]


@pytest.mark.parametrize("name", ["kept.csv", "kept.parquet", "kept.txt", "kept.jsonl.gz"])
def test_json_lines_are_written_to_no_file_that_is_called_another(
    pets: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("explore", "duplicates", "pets"), ("documents", "export", "pets")):
        refused = pets(*command, "--out", name)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr == Naming(name, ".jsonl")
        assert not Path(name).exists()


def test_one_of_each_group_is_written_and_can_be_added(pets: Run, tmp_path: Path) -> None:
    result = pets("explore", "duplicates", "pets", "--link", "complete", "--out", "kept.jsonl", "--json")
    assert result.stderr == Naming("kept.jsonl", "3 documents kept", "1 left out")
    group = json.loads(result.stdout)
    assert (group["representative"]["id"], [other["id"] for other in group["others"]]) == ("cat", ["dog"])
    assert pets("documents", "add", "kept", "kept.jsonl").exit_code == 0
    assert "1 group" not in pets("explore", "duplicates", "kept").stderr
    result = pets("explore", "duplicates", "pets", "--unit", "passages", "--out", "other.jsonl")
    assert result.exit_code == 2
    assert not (tmp_path / "other.jsonl").exists()
