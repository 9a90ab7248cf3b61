"""`nearsay train vocabulary`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from tokenizers import Tokenizer

from nearsay.app.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `nearsay train vocabulary …` in a folder with two texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owls.txt").write_text("Owls hoot at night.\nAn owl hoots, owls hoot.\n")
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "body": "night owls"}\n{"id": "2"}\n')

    def run_it(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, ["train", "vocabulary", *arguments], input=stdin)

    return run_it


def test_a_vocabulary_of_files_is_written_and_said(run: Run) -> None:
    result = run("owls.txt", "rows.jsonl", "--text", "body", "--out", "mine", "--size", "120")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "skipped rows.jsonl:2: " in result.stderr
    assert result.stderr == Naming("119 pieces", 120)
    assert result.stderr.endswith("119 pieces in mine\n")
    tokenizer = Tokenizer.from_file("mine/tokenizer.json")
    assert tokenizer.encode("OWLS hoot").tokens == ["[CLS]", "owls", "hoot", "[SEP]"]
    assert json.loads(Path("mine/vocabulary.json").read_text())["sources"] == ["owls.txt", "rows.jsonl"]


def test_json_is_one_object_with_what_was_counted(run: Run) -> None:
    result = run("owls.txt", "--out", "mine", "--size", "110", "--json")
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout)
    assert (row["size"], row["folder"], row["texts"], row["words"]) == (110, "mine", 2, 12)


def test_every_option_reaches_the_vocabulary(run: Run) -> None:
    options = (
        "--cased --accents strip --min-frequency 3 --alphabet 900 --no-ascii --special <n> --special <m>"
    )
    result = run(
        "-", "--out", "mine", "--size", "99", *options.split(), "--unused", "2", stdin="Été Été\nÉté"
    )
    assert result.exit_code == 0, result.output
    pieces = Path("mine/vocab.txt").read_text("utf-8").split()
    assert pieces[5:] == [
        "<n>",
        "<m>",
        "[unused0]",
        "[unused1]",
        "E",
        "e",
        "t",
        "##E",
        "##e",
        "##t",
        "Et",
        "Ete",
    ]
    assert json.loads(Path("mine/vocabulary.json").read_text())["options"] == {
        "size": 99, "cased": True, "accents": "strip", "min_frequency": 3, "alphabet": 900, "ascii": False,
        "special": ["<n>", "<m>"], "unused": 2,
    }  # fmt: skip


def test_a_whole_folder_is_read(run: Run) -> None:
    result = run(".", "--out", "mine", "--size", "110", "--json", "--input-format", "txt", "--whole-file")
    assert json.loads(result.stdout)["texts"] == 1


def test_a_folder_that_is_there_is_kept_until_replacing_is_asked_for(run: Run) -> None:
    assert run("owls.txt", "--out", "mine", "--size", "110").exit_code == 0
    refused = run("owls.txt", "--out", "mine", "--size", "115")
    assert refused.exit_code == 1
    assert "Give --replace" in refused.stderr
    assert run("owls.txt", "--out", "mine", "--size", "115", "--replace").exit_code == 0
    assert len(Path("mine/vocab.txt").read_text().split()) == 115


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt", "--out", "mine"], "nowhere.txt does not exist"),
        (["owls.txt", "--out", "owls.txt"], "owls.txt is a file"),
        (["owls.txt", "--out", "mine", "--size", "50"], "109 or more"),
        (["owls.txt", "--out", "mine", "--min-frequency", "0"], "min_frequency is 0"),
        (["-", "--out", "mine"], "no word"),
        (["rows.jsonl", "--text", "nothing", "--out", "mine"], "nothing"),
    ],
)
def test_what_cannot_be_is_one_line_and_writes_nothing(run: Run, arguments: list[str], message: str) -> None:
    result = run(*arguments, stdin="")
    assert result.exit_code == 1, result.output
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert not Path("mine").exists()
