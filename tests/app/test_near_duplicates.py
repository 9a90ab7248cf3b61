"""`nearsay documents add --near-duplicates` and what is seen of it afterwards."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from naming import Naming

Run = Callable[..., Result]


@pytest.fixture
def run(run: Run, tmp_path: Path) -> Run:
    """Runs `nearsay …` in a folder with a file of four documents, two of them copies."""
    texts = {"cat": "a cat sat", "dog": "a dog ran", "bird": "parrots whistle", "ox": "ox"}
    rows = [{"id": id_, "text": text} for id_, text in texts.items()]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def test_near_duplicates_are_linked_listed_and_shown(run: Run) -> None:
    result = run("documents", "add", "pets", "pets.jsonl", "--near-duplicates", "link")
    assert result.exit_code == 0
    assert result.stderr == Naming("dog", "cat", "(1.000)")
    assert result.stderr == Naming("near-duplicates", "1 of 4", "linked", "0.95")
    result = run("collections", "show", "pets")
    assert result.stdout == Naming("near-duplicates", "0.95", "link")
    assert result.stdout == Naming("1 linked", "nearsay documents list pets --near-duplicates")
    result = run("documents", "list", "pets", "--near-duplicates")
    assert result.stdout.splitlines()[1].split() == ["dog", "cat", "1.000"]
    result = run("documents", "list", "pets", "--near-duplicates", "--json")
    assert json.loads(result.stdout) == {"id": "dog", "original": "cat", "cosine": 1.0}


def test_near_duplicates_are_skipped_and_the_gate_is_remembered(run: Run) -> None:
    options = ("--near-duplicates", "skip", "--near-duplicate-threshold", "0.9")
    result = run("documents", "add", "pets", "pets.jsonl", *options)
    assert result.stderr == Naming("1 of 4", "removed", "0.9")
    assert [line.split("\t")[0] for line in run("documents", "list", "pets").stdout.splitlines()] == [
        "cat",
        "bird",
        "ox",
    ]
    result = run("documents", "add", "pets", "pets.jsonl", "--json")
    found = json.loads(result.stdout)["near_duplicates"]
    assert (found["action"], found["threshold"], found["count"]) == ("skip", 0.9, 1)
    assert found["first"] == [{"id": "dog", "original": "cat", "cosine": 1.0}]


def test_nothing_is_said_of_near_duplicates_without_a_gate(run: Run) -> None:
    result = run("documents", "add", "pets", "pets.jsonl")
    assert "near-duplicate" not in result.stderr
    assert "near-duplicate" not in run("collections", "show", "pets").stdout


def test_a_threshold_alone_is_refused_with_the_remedy(run: Run) -> None:
    result = run("documents", "add", "pets", "pets.jsonl", "--near-duplicate-threshold", "0.9")
    assert result.exit_code == 1
    assert "report, skip or link" in result.stderr


def test_links_are_listed_of_a_whole_collection(run: Run) -> None:
    result = run("documents", "list", "pets", "--where", "id = 'cat'", "--near-duplicates")
    assert result.exit_code == 2
