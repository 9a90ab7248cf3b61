"""Heads trained and measured from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from transformers import AutoModelForSequenceClassification

from nearsay.app.cli import main

pytestmark = pytest.mark.usefixtures("short_runs")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran", "who", "mat", "on"]
TEXTS = [
    ("feline", "the cat sat"),
    ("canine", "the dog ran"),
    ("feline", "cat on mat"),
    ("canine", "dog on mat"),
] * 3
SENTENCE = "the\tO\ncat\tB-animal\nsat\tO\n\ndog\tB-animal\nran\tO\n\n"
CONTEXT = "the cat sat on the mat"

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, save_bert: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("berts") / "small"
    return save_bert(
        folder,
        WORDS,
        hidden_size=16,
        num_hidden_layers=2,
        hidden_dropout_prob=0.0,  # so few dimensions do not bear it
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=32,
        initializer_range=0.3,
    )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bert: Path) -> Run:
    """Runs `nearsay …` in a folder with judged rows of every kind."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{label}\t{text}\n" for label, text in TEXTS)
    Path("texts.tsv").write_text(f"label\ttext\n{rows}", "utf-8")
    Path("words.conll").write_text(SENTENCE * 3, "utf-8")
    asked = {"id": "1", "question": "who sat", "answers": [{"text": "cat", "answer_start": 4}]}
    data = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]}
    Path("questions.json").write_text(json.dumps(data), "utf-8")

    def run_it(*words: str) -> Result:
        if words[0] == "train":
            words = (*words, "--bert", str(bert), "--device", "cpu")
        return CliRunner().invoke(main, words)

    return run_it


def figures(result: Result) -> dict[str, dict[str, float]]:
    assert result.exit_code == 0, result.output
    told: dict[str, dict[str, float]] = json.loads(result.stdout)
    return told


@pytest.mark.long
def test_a_classifier_is_trained_measured_and_loaded_by_transformers(run: Run, tmp_path: Path) -> None:
    options = ("--length", "16", "--epochs", "3", "--batch", "4", "--seed", "1", "--learning-rate", "1e-3")
    done = run(
        *("train", "classifier", "texts.tsv", "--dev", "texts.tsv", "--test", "texts.tsv", "--out", "mine"),
        *(*options, "--json"),
    )
    told = figures(done)
    assert (told["folder"], told["steps"]) == ("mine", 9)
    assert told["dev"]["accuracy"] == told["test"]["accuracy"] == 1.0
    assert "texts = 'text' (guessed), label = 'label' (guessed)" in done.stderr
    assert done.stderr == Naming("numbers", "12 rows", "9 steps")
    assert "Writing" not in done.stderr
    measured = figures(run("evaluate", "classifier", "mine", "texts.tsv", "--json"))
    assert (measured["accuracy"], measured["binary_f1"], measured["positive"]) == (1.0, 1.0, "feline")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "mine")
    assert model.config.id2label == {0: "canine", 1: "feline"}


@pytest.mark.long
def test_the_confusions_of_a_classifier_are_shown(run: Run) -> None:
    run("train", "classifier", "texts.tsv", "--out", "mine", "--length", "16", "--epochs", "1")
    Path("turned.csv").write_text("class,words\ncanine,the cat sat\ncanine,dog on mat\n", "utf-8")
    shown = run("evaluate", "classifier", "mine", "turned.csv", "--label", "class", "--text", "words")
    assert shown.exit_code == 0, shown.output
    assert "accuracy" in shown.stdout
    assert [line.split() for line in shown.stdout.splitlines()][-2:] == [
        ["label", "taken", "for", "times", "of"],
        ["canine", "feline", "1", "2"],
    ]


@pytest.mark.parametrize(
    "way", [("--probe",), ("--features", "sum-all", "--pooling", "cls", "--length", "16")]
)
def test_a_linear_classifier_is_trained_and_measured(run: Run, way: tuple[str, ...]) -> None:
    options = ("--regularisation", "10", "--json")
    told = figures(run("train", "classifier", "texts.tsv", "--out", "mine", *options, *way))
    assert told["training"]["accuracy"] == 1.0
    assert figures(run("evaluate", "classifier", "mine", "texts.tsv", "--json"))["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--regularisation", "10"), ("--regularisation", "--features")),
        (("--pooling", "cls"), ("--pooling", "--probe")),
        (("--probe", "--epochs", "9"), ("--epochs", "linear layer")),
        (("--features", "last", "--seed", "9"), ("--seed", "linear layer")),
        (("--probe", "--pooling", "cls"), ("--pooling", "--features")),
        (("--probe", "--length", "16"), ("--length", "--features")),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    run: Run, options: tuple[str, ...], said: tuple[str, str]
) -> None:
    refused = run("train", "classifier", "texts.tsv", "--out", "mine", *options)
    assert (refused.exit_code, refused.stderr) == (2, Naming(*said))


@pytest.mark.parametrize("command", [("train", "classifier"), ("evaluate", "classifier", "mine")])
def test_a_second_text_needs_the_first(run: Run, command: tuple[str, ...]) -> None:
    out = ("--out", "mine") if command[0] == "train" else ()
    refused = run(*command, "texts.tsv", *out, "--pair", "words")
    assert (refused.exit_code, refused.stderr) == (2, Naming("--pair words", "--text"))


@pytest.mark.parametrize("way", [("--epochs", "2", "--freeze", "all-but-last"), ("--features", "last")])
def test_a_tagger_is_trained_and_measured(run: Run, way: tuple[str, ...]) -> None:
    trained = figures(
        run(
            "train",
            "tagger",
            "words.conll",
            "--dev",
            "words.conll",
            "--out",
            "mine",
            "--length",
            "16",
            "--json",
            *way,
        )
    )
    measured = figures(run("evaluate", "tagger", "mine", "words.conll", "--json"))
    assert measured["overall"]["f1"] == trained["dev"]["f1"]
    table = run("evaluate", "tagger", "mine", "words.conll").stdout.splitlines()
    assert table[0].split() == ["type", "precision", "recall", "F1", "entities", "predicted", "right"]
    assert [line.split()[0] for line in table[1:3]] == ["animal", "all"]
    assert table[-1].startswith("tag accuracy")


def test_a_reader_is_trained_and_measured(run: Run) -> None:
    done = run(
        *("train", "reader", "questions.json", "--out", "mine", "--length", "24", "--step", "8"),
        *("--question-length", "4", "--answer-length", "3", "--epochs", "1", "--freeze", "1"),
    )
    assert done.exit_code == 0, done.output
    assert "training accuracy" in done.stdout
    measured = figures(run("evaluate", "reader", "mine", "questions.json", "--json"))
    assert (measured["questions"], measured["with_answer"], measured["without_answer"]) == (1, 1, 0)
    assert "exact match" in run("evaluate", "reader", "mine", "questions.json").stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("classifier", "texts.tsv", "--probe", "--features", "last"), 2, "use one of them"),
        (("classifier", "texts.tsv", "--freeze", "most"), 1, "does not say what to freeze"),
        (("classifier", "texts.tsv", "--features", "ninth"), 1, "names no layers"),
        (("classifier", "texts.tsv", "--label", "mood"), 1, "no column 'mood'"),
        (("classifier", "texts.tsv"), 1, "128 tokens"),
        (("tagger", "texts.tsv"), 1, "texts.tsv:1: the tag is 'text'"),
        (("reader", "words.conll"), 1, "words.conll:1: not JSON"),
        (("reader", "questions.json", "--question-length", "400"), 1, "leave no room for the context"),
        (("classifier", "nowhere.tsv"), 2, "nowhere.tsv"),
    ],
)
def test_what_cannot_be_trained_is_one_clear_line(
    run: Run, words: tuple[str, ...], status: int, said: str
) -> None:
    done = run("train", *words, "--out", "mine")
    assert done.exit_code == status
    assert said in done.stderr
    assert not Path("mine").exists()


@pytest.mark.parametrize("kind", ["classifier", "tagger", "reader"])
def test_a_place_that_cannot_be_trained_in_is_refused_before_a_row_is_read(kind: str, run: Run) -> None:
    Path("full").mkdir()
    Path("full/thesis.txt").touch()
    Path("empty.txt").touch()
    for place, why in (("texts.tsv", "is a file"), ("full", "exists and contains")):
        result = run("train", kind, "empty.txt", "--out", place)
        assert (result.exit_code, f"Error: {place} {why}" in result.stderr) == (1, True), result.output


def test_measuring_what_is_no_head_says_how_to_make_one(run: Run, bert: Path) -> None:
    for kind, file in (("classifier", "texts.tsv"), ("tagger", "words.conll"), ("reader", "questions.json")):
        done = run("evaluate", kind, str(bert), file)
        assert done.exit_code == 1
        assert f": nearsay train {kind} FILE --bert {bert}" in done.stderr
