"""`nearsay encoders inside`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nearsay.app.cli import main
from nearsay.app.jobs.job import JobKind
from nearsay.indexer import Library

Run = Callable[..., Result]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "on", "mat"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay encoders inside …` beside two BERTs of two layers, and a collection of three texts."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, num_hidden_layers=2, max_position_embeddings=16)
    with Library.open("library") as library:
        library.collection("pets").add_rows(["the cat sat", "the dog sat on the mat", "a cat"])

    def run_it(*words: str) -> Result:
        return CliRunner().invoke(main, ["encoders", "inside", *words])

    return run_it


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.long
def test_each_token_has_its_attention_and_its_shares(run: Run) -> None:
    options = ("--encoder", "mine", "--query", "the dog", "--json")
    found = rows(run("text", "the cat sat", "--layer", "2", "--head", "1", *options))
    assert [row["token"] for row in found] == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    assert all(sum(row["attention"]) == pytest.approx(1.0, abs=1e-4) for row in found)
    assert sum(row["share_of_vector"] for row in found) == pytest.approx(1.0)
    assert sum(row["rollout"] for row in found) == pytest.approx(1.0)
    table = run("text", "the cat sat", "--encoder", "mine", "--query", "the dog").stdout
    assert f"cosine to the query: {sum(row['share_of_query'] for row in found):.4f}" in table


@pytest.mark.long
def test_a_layer_or_head_that_is_not_there_is_told(run: Run) -> None:
    for option in ("--layer", "--head"):
        result = run("text", "the cat", "--encoder", "mine", option, "9")
        assert result.exit_code == 1
        assert f"no {option[2:]} 9" in result.output


@pytest.mark.long
def test_a_sample_is_made_and_searched(run: Run) -> None:
    result = run("search", "pets", "the cat sat", "--place", "2", "--layer", "1", "--encoder", "mine")
    assert result.exit_code == 1
    assert "nearsay encoders inside sample pets --layer 1" in result.output
    (made,) = rows(run("sample", "pets", "--encoder", "mine", "--layer", "1", "--json"))
    assert made["texts"] == 3
    search = ("search", "pets", "the cat sat", "--place", "2", "--layer", "1", "--encoder", "mine")
    found = rows(run(*search, "--json", "-n", "3"))
    assert [row["rank"] for row in found] == [1, 2, 3]
    assert (found[0]["token"], found[0]["text"]) == ("cat", "the cat sat")
    assert found[0]["score"] == pytest.approx(1.0, abs=1e-5)
    told = run(*search, "--by", "context", "--head", "2").stdout
    assert "{cat}" in told.splitlines()[0]
    assert "word shape, matched: xx" in told


def test_an_encoder_compared_with_itself_has_not_changed(run: Run) -> None:
    found = rows(run("compare", "mine", "mine", "pets", "--sample", "3", "--json"))
    assert {row["layer"] for row in found} == {1, 2}
    assert max(row["divergence"] for row in found) < 1e-9


def test_making_a_sample_can_be_a_job() -> None:
    assert JobKind.of(["encoders", "inside", "sample", "pets", "--layer", "1"]) is JobKind.INSIDE
