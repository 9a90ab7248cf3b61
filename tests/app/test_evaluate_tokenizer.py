"""`nearsay evaluate tokenizer`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `nearsay evaluate tokenizer …` in a folder with texts and a vocabulary of owls."""
    monkeypatch.chdir(tmp_path)
    lines = [f"Owlet {number} hoots and hoots, Embeddings ☃" for number in range(40)]
    (tmp_path / "owls.txt").write_text("\n".join(lines), "utf-8")
    (tmp_path / "old.txt").write_text("hoots hoots and and\n")
    made = CliRunner().invoke(
        main, ["train", "vocabulary", "old.txt", "--out", "owlish", "--size", "115", "--cased"]
    )
    assert made.exit_code == 1  # 115 pieces are too few for a cased one
    made = CliRunner().invoke(main, ["train", "vocabulary", "old.txt", "--out", "owlish", "--size", "115"])
    assert made.exit_code == 0, made.output

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["evaluate", "tokenizer", *arguments])

    return run_it


def test_encoders_stand_side_by_side_in_a_table(run: Run) -> None:
    result = run(
        "owls.txt", "--encoder", "all-MiniLM-L6-v2", "--encoder", "owlish", "--length", "8", "--length", "16"
    )
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    table = {line[:28].strip(): line[28:].split() for line in lines[: lines.index("")]}
    assert lines[0].split() == ["all-MiniLM-L6-v2", "owlish"]
    assert table["words"] == ["240", "240"]
    assert table["pieces"] == ["30,522", "115"]
    assert table["texts over 8 tokens, %"] == ["100.0", "100.0"]
    assert table["texts over 16 tokens, %"][0] == "0.0"
    assert re.search(r"^Embeddings +40  em ##bed ##ding ##s +all-MiniLM-L6-v2$", result.stdout, re.MULTILINE)
    assert re.search(r"^☃ +40  owlish$", result.stdout, re.MULTILINE)
    assert result.stderr == Naming("owlish", "uncased", "115 pieces")
    assert "fewer tokens on the other " in result.stderr


def test_json_is_one_object_an_encoder(run: Run) -> None:
    result = run("owls.txt", "--encoder", "owlish", "--json", "--new-size", "140")
    assert result.exit_code == 0, result.output
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["encoder"], row["texts"], row["texts_in_all"], row["words"]) == ("owlish", 40, 40, 240)
    assert row["tokens_per_word"] > 1
    assert row["lengths"][0] == {"length": 64, "truncated_texts": 0.0, "truncated_tokens": 0.0}
    new = row["new_vocabulary"]
    assert 115 < new["size"] <= 140
    assert new["trained_texts"] + new["held_out_texts"] == 40
    assert new["saved"] == pytest.approx(1 - new["new_tokens"] / new["tokens"])
    assert new["saved"] > 0.2


def test_a_sample_is_drawn_and_said(run: Run) -> None:
    result = run("owls.txt", "--encoder", "owlish", "--sample", "10", "--seed", "7", "--no-new", "--json")
    row = json.loads(result.stdout)
    assert (row["texts"], row["texts_in_all"], row["seed"], row["new_vocabulary"]) == (10, 40, 7, None)
    assert result.stderr == Naming("10 of 40", "seed 7")


def test_without_a_new_vocabulary_the_table_says_so(run: Run) -> None:
    result = run("old.txt", "--encoder", "owlish")
    assert result.exit_code == 0, result.output
    assert result.stderr == Naming("owlish", "not compared")
    assert "broken word" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["nowhere.txt"], 1, "nowhere.txt does not exist"),
        (["owls.txt", "--length", "a,b"], 2, "'a,b' is not a valid integer"),
        (["owls.txt", "--encoder", "owlish", "--length", "2"], 1, "a length of 2 tokens"),
        (["owls.txt", "--encoder", "./nowhere"], 1, "there is no encoder folder"),
        (["owls.txt", "--sample", "0"], 2, "0 is not in the range"),
        (["owls.txt", "--encoder", "owlish", "--new-size", "50"], 1, "Give a size of"),
    ],
)
def test_what_cannot_be_is_one_line(run: Run, arguments: list[str], status: int, message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert message in result.stderr
    assert result.stdout == ""
