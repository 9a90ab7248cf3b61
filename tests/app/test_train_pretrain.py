"""Pretraining and what it makes, from the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main
from nearsay.data import samples

pytestmark = pytest.mark.usefixtures("short_runs")

CORPUS = str(samples.folder() / "corpus.jsonl")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "vocabulary"
    done = run("train", "vocabulary", CORPUS, "--out", folder, "--size", "600")
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def bert(vocabulary: Path) -> Path:
    out = vocabulary.parent / "bert"
    done = train(vocabulary, out, "--json")
    assert done.exit_code == 0, done.output
    return out


def train(vocabulary: Path, out: Path, *more: str) -> Result:
    return run(
        *("train", "pretrain", CORPUS, "--vocabulary", vocabulary, "--out", out, "--size", "1x64"),
        *("--steps", "4", "--batch", "8", "--length", "32", "--long-length", "48", "--long-share", "0.3"),
        *("--dev", CORPUS, "--evaluate-every", "2", "--log-every", "2", "--device", "cpu", *more),
    )


@pytest.mark.long
def test_pretraining_prints_its_figures_and_keeps_its_progress_from_standard_output(
    vocabulary: Path, tmp_path: Path
) -> None:
    done = train(vocabulary, tmp_path / "bert", "--json")
    told = json.loads(done.stdout)
    assert (told["steps"], told["folder"]) == (4, str(tmp_path / "bert"))
    assert {"mlm_loss", "mlm_accuracy", "nsp_accuracy"} <= set(told["training"])
    assert {"mlm_loss", "nsp_accuracy"} <= set(told["dev"])
    assert "million parameters" in done.stderr
    assert "Writing" not in done.stderr


@pytest.mark.long
def test_a_finished_run_is_not_overwritten(vocabulary: Path, bert: Path) -> None:
    done = train(vocabulary, bert)
    assert done.exit_code == 1
    assert done.stderr == Naming("finished", "new folder")


def test_neither_steps_nor_minutes_is_an_error_with_its_remedy(vocabulary: Path, tmp_path: Path) -> None:
    done = run("train", "pretrain", CORPUS, "--vocabulary", vocabulary, "--out", tmp_path / "x")
    assert done.exit_code == 1
    assert done.stderr == Naming("number of steps", "number of minutes")


def test_fill_prints_the_words_of_every_mask(bert: Path) -> None:
    done = run("bert", "fill", "the [MASK] of a [MASK]", "--bert", bert, "-n", "2", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["place"], row["rank"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert all(0 < row["probability"] < 1 for row in rows)
    assert run("bert", "fill", "the [MASK]", "--bert", bert).stdout.splitlines()[0].split() == [
        *("mask", "rank", "word", "probability")
    ]


def test_next_says_how_likely_one_sentence_follows(bert: Path) -> None:
    done = run("bert", "next", "It rained.", "The road was wet.", "--bert", bert, "--json")
    assert 0 < json.loads(done.stdout)["probability"] < 1
    assert "probability of following" in run("bert", "next", "It rained.", "It dried.", "--bert", bert).stdout


def test_evaluate_mlm_measures_held_out_text(bert: Path) -> None:
    done = run("evaluate", "mlm", CORPUS, "--bert", bert, "--length", "32", "--rows", "100", "--json")
    report = json.loads(done.stdout)
    assert report["rows"] == 100
    assert report["mlm_loss"] == pytest.approx(6.4, abs=0.5)  # ln 600: it has learned next to nothing
    assert report["nsp_accuracy"] is not None
    again = run("evaluate", "mlm", CORPUS, "--bert", bert, "--length", "32", "--rows", "100", "--json")
    assert json.loads(again.stdout)["mlm_loss"] == report["mlm_loss"]


def test_evaluate_mlm_reads_lines_as_sentences_where_the_training_did(bert: Path, tmp_path: Path) -> None:
    """Cut at its inner full stops, a text has other sentences to put into pairs than it was trained on."""
    text = tmp_path / "lines.txt"
    text.write_text("\n\n".join(["A boat. It came late.\nThe net. It was empty."] * 6) + "\n")
    measured = ("evaluate", "mlm", text, "--bert", bert, "--length", "32")
    assert "6 documents, 24 sentences" in run(*measured).stderr
    assert "6 documents, 12 sentences" in run(*measured, "--one-sentence-a-line").stderr


def test_evaluate_mlm_of_one_document_measures_words_alone(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("A boat came late. The net was empty. Nobody had caught a thing.\n")
    done = run("evaluate", "mlm", tmp_path / "one.txt", "--bert", bert, "--length", "32", "--json")
    assert json.loads(done.stdout)["nsp_accuracy"] is None
    assert "one document" in done.stderr
