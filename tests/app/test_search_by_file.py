"""`nearsay search --file`: many queries, an answer each."""

import json
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from naming import Naming

from nearsay.indexer import Library

Run = Callable[..., Result]


def answers_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_is_answered_by_an_object_with_the_hits_that_it_gets_alone(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("a cow ate\n\n  melodies \n")
    options = ("-n", "1", "--where", "legs > 0", "--mode", "dense")
    answers = answers_of(pets("search", "pets", "-f", "asked.txt", *options))
    assert [(one["query"], one["line"]) for one in answers] == [("a cow ate", 1), ("melodies", 3)]
    for one in answers:
        assert one["hits"] == answers_of(pets("search", "pets", str(one["query"]), *options, "--json"))
    assert [hit["id"] for one in answers for hit in one["hits"]] == ["cat", "bird"]
    assert answers_of(pets("search", "pets", "--file", "asked.txt", *options, "--json")) == answers
    given = "a cow ate\n\nmelodies\n"
    assert answers_of(pets("search", "pets", "-f", "-", *options, stdin=given)) == answers


def test_what_has_to_be_said_of_an_answer_stands_in_it(pets: Run) -> None:
    (one,) = answers_of(pets("search", "pets", "-f", "-", stdin="a cow ate\n"))
    assert ["only 3 passages" in note for note in one["notes"]] == [True]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_it_is_said_beside_rows(pets: Run, form: str) -> None:
    result = pets("search", "pets", "-f", "-", "--format", form, stdin="\na cow ate\n")
    assert "only 3 passages" not in result.stdout
    assert result.stderr.splitlines() == [Naming("line 2", "3 of the 10", "only 3 passages")]


def test_the_field_query_is_taken_of_json_lines(pets: Run, tmp_path: Path) -> None:
    rows = [{"_id": "q1", "query": "a cow ate", "text": "?"}, {"_id": "q2", "query": "melodies"}]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answers = answers_of(pets("search", "pets", "-f", "asked.jsonl", "-n", "1"))
    assert [(one["query"], one["line"], one["hits"][0]["id"]) for one in answers] == [
        ("a cow ate", 1, "cat"),
        ("melodies", 2, "bird"),
    ]


@pytest.mark.parametrize("bad", [b"longer " * 20_000, b"a\0 cow"], ids=["too long", "NUL"])
def test_one_that_cannot_be_asked_is_named_by_its_line_and_the_others_are_answered(
    pets: Run, tmp_path: Path, bad: bytes
) -> None:
    (tmp_path / "asked.txt").write_bytes(b"a cow ate\n" + bad + b"\nmelodies\n")
    result = pets("search", "pets", "-f", "asked.txt", "-n", "1")
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 3]
    assert result.exit_code == 1
    assert "skipped asked.txt:2: " in result.stderr
    assert "max-text-bytes" not in result.stderr
    assert "1 of the 3 queries" in result.stderr


def test_an_empty_query_of_a_table_is_named_by_its_line(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"query": "a cow ate"}\n{"query": " "}\n')
    result = pets("search", "pets", "-f", "asked.jsonl")
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 1)
    assert "asked.jsonl:2" in result.stderr


@pytest.mark.long
def test_an_answer_comes_before_the_next_query_is_written(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.collection("pets").add_rows([{"id": "cat", "text": "a cat sat"}])
    command = [sys.executable, "-m", "nearsay.app.cli", "search", "pets", "-f", "-", "--mode", "lexical"]
    with subprocess.Popen(
        [*command, "--library", str(tmp_path / "library")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for query in ("cat", "sat"):
            process.stdin.write(query + "\n")
            process.stdin.flush()
            assert select.select([process.stdout], [], [], 60)[0]
            assert json.loads(process.stdout.readline())["query"] == query
        process.send_signal(signal.SIGINT)  # while it waits for the next
        assert process.wait(60) == 130


def test_neither_query_nor_file_both_or_an_empty_file_are_refused(pets: Run, tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text(" \n")
    assert pets("search", "pets").exit_code == 2
    assert pets("search", "pets", "a cow ate", "-f", "asked.txt").exit_code == 2
    assert pets("search", "pets", "-f", "nowhere.txt").exit_code == 2
    dash = pets("search", "pets", "-", stdin="a cow ate\n")
    assert dash.exit_code == 2
    assert "-f -" in dash.stderr
    empty = pets("search", "pets", "-f", "asked.txt")
    assert (empty.exit_code, empty.stdout) == (1, "")
