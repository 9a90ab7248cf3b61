"""`nearsay train negatives`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from transformers import BertForSequenceClassification

from nearsay.app.cli import main
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
PAIRS = [("a b c d", "a b c e"), ("f g h i", "f g h j"), ("k l m n", "k l m o"), ("p q r s", "p q r t")]
POSITIVES = {positive for _, positive in PAIRS}


SIZE = {"hidden_size": 16, "max_position_embeddings": 24}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay train negatives PAIRS …` beside four pairs and a small encoder with random weights."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, **SIZE)
    Path("pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [("anchor", "positive"), *PAIRS]))

    def run_it(*options: str, pairs: str = "pairs.tsv", encoder: str | None = "mine") -> Result:
        always = ["--device", "cpu", "--precision", "float32", "--no-relative-margin"]
        always += [] if encoder is None else ["--encoder", encoder]
        return CliRunner().invoke(main, ["train", "negatives", pairs, *always, *options])

    return run_it


def rows(file: str) -> list[list[str]]:
    found = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]
    return [list(found[0]), *(list(row.values()) for row in found)]


def test_the_pairs_own_positives_are_mined(run: Run) -> None:
    result = run("--out", "out.jsonl", "--per-anchor", "2")
    assert result.exit_code == 0, result.output
    header, *found = rows("out.jsonl")
    assert header == ["anchor", "positive", "negative_1", "negative_2"]
    assert [tuple(row[:2]) for row in found] == PAIRS
    assert all(set(row[2:]) < POSITIVES - {row[1]} and row[2] != row[3] for row in found)
    assert re.search(r"^negatives +8$", result.stdout, re.MULTILINE)
    assert result.stdout == Naming("belong to the anchor", 4)
    assert "texts = 'anchor' + 'positive' (guessed)" in result.stderr
    assert re.search(r"^rows +4$", result.stdout, re.MULTILINE)
    assert re.search(r"^out +out.jsonl$", result.stdout, re.MULTILINE)


def test_json_is_one_object_with_the_whole_report(run: Run) -> None:
    result = run("--out", "out.jsonl", "--per-anchor", "1", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["out"] == "out.jsonl"
    assert (report["anchors"], report["rows"], report["negatives"]) == (4, 4, 4)
    assert report["taken"]["known"] == 4
    assert (report["corpus"], report["encoder"]) == ("pairs.tsv", "mine")
    assert list(json.loads(Path("out.jsonl").read_text().splitlines()[0])) == [
        "anchor",
        "positive",
        "negative",
    ]


def test_a_corpus_is_read_as_index_add_reads_it(run: Run) -> None:
    Path("corpus").mkdir()
    Path("corpus/one.jsonl").write_text('{"title": "u", "body": "v w"}\n{"title": "none"}\n')
    Path("corpus/two.jsonl").write_text('{"body": "x y z"}\n')
    result = run("--out", "out.jsonl", "--per-anchor", "2", "--corpus", "corpus", "--text", "body")
    assert result.exit_code == 0, result.output
    assert {text for row in rows("out.jsonl")[1:] for text in row[2:]} == {"u v w", "x y z"}
    assert "skipped corpus/one.jsonl:2" in result.stderr


def test_a_judged_corpus_gives_pairs_and_corpus(run: Run) -> None:
    Path("judged/qrels").mkdir(parents=True)
    texts = sorted(POSITIVES)
    documents = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    queries = [{"_id": "q", "text": "a b c d"}]
    Path("judged/corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    Path("judged/queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    Path("judged/qrels/train.tsv").write_text("q\td0\t1\nq\td1\t0\n")
    result = run("--out", "out.jsonl", "--per-anchor", "3", pairs="judged")
    assert result.exit_code == 0, result.output
    (row,) = rows("out.jsonl")[1:]
    assert row[:2] == ["a b c d", texts[0]]
    assert set(row[2:]) == {*texts[1:]}


def test_a_collection_is_mined_by_its_own_vectors_and_encoder(run: Run) -> None:
    Path("notes.txt").write_text("".join(f"{text}\n" for text in sorted(POSITIVES)))
    index = ["documents", "add", "notes", "notes.txt", "--encoder", "mine", "--precision", "float32"]
    assert CliRunner().invoke(main, [*index, "--device", "cpu"]).exit_code == 0
    result = run("--out", "live.jsonl", "--per-anchor", "2", "--collection", "notes", "--json", encoder=None)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["encoder"], report["corpus"], report["corpus_texts"]) == ("mine", "collection notes", 4)
    assert run("--out", "file.jsonl", "--per-anchor", "2", "--corpus", "notes.txt").exit_code == 0
    assert rows("live.jsonl") == rows("file.jsonl")


def test_titles_are_never_given_their_own_passages_of_a_collection_for_negatives(run: Run) -> None:
    lines = [json.dumps({"title": title, "text": text}) for title, text in PAIRS]
    Path("papers.jsonl").write_text("".join(f"{line}\n" for line in lines))
    index = ["documents", "add", "papers", "papers.jsonl", "--encoder", "mine", "--precision", "float32"]
    assert CliRunner().invoke(main, [*index, "--device", "cpu"]).exit_code == 0
    result = run("--out", "out.jsonl", "--per-anchor", "3", "--collection", "papers")
    assert result.exit_code == 0, result.output
    found = rows("out.jsonl")[1:]
    assert [tuple(row[:2]) for row in found] == PAIRS
    assert all(f"{title} {text}" not in negatives for title, text, *negatives in found)


def test_a_collection_of_another_encoder_is_refused(run: Run, save_bert: Callable[..., Path]) -> None:
    save_bert("other", WORDS, seed=1, **SIZE)
    Path("notes.txt").write_text("u v w\n")
    index = ["documents", "add", "notes", "notes.txt", "--encoder", "other", "--device", "cpu"]
    assert CliRunner().invoke(main, index).exit_code == 0
    result = run("--out", "out.jsonl", "--collection", "notes")
    assert result.exit_code == 1
    assert "encoder 'mine'" in result.stderr
    assert not Path("out.jsonl").exists()


def test_a_cross_encoder_is_asked(run: Run, save_bert: Callable[..., Path]) -> None:
    save_bert("cross", WORDS, seed=3, kind=BertForSequenceClassification, num_labels=1, **SIZE)
    result = run(
        "--out", "out.jsonl", "--per-anchor", "1", "--triplets", "--cross-encoder", "cross", "--json"
    )
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["judge"] == "cross"
    assert report["judged"] == report["negatives"] + report["taken"]["judge"] > 0


def test_nothing_mined_writes_nothing_and_says_what_took_the_most(run: Run) -> None:
    Path("out.jsonl").write_text("before")
    result = run("--out", "out.jsonl", "--per-anchor", "1", "--absolute-margin", "5")
    assert result.exit_code == 1
    assert result.stderr == Naming(
        "none of 4 anchors", "12 candidates", "absolute margin", "nothing was written"
    )
    assert Path("out.jsonl").read_text() == "before"


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        (("--out", "out.tsv"), 1, "Give out one of the endings .jsonl, .csv"),
        (
            ("--out", "out.jsonl", "--ranks", "ten"),
            2,
            "'ten' is not a range",
        ),
        (("--out", "out.jsonl", "--ranks", "7-3"), 1, "the ranks 7-3 are no range"),
        (("--out", "out.jsonl", "--corpus", "x", "--collection", "y"), 2, "use one of them"),
        (("--out", "out.jsonl", "--columns", "anchor,other"), 1, "other"),
        (("--out", "out.jsonl", "--corpus", "nowhere.txt"), 1, "nowhere.txt does not exist"),
        (("--out", "out.jsonl", "--collection", "notes"), 1, "there is no library in library"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_written(
    options: tuple[str, ...], code: int, wanted: str, run: Run
) -> None:
    result = run(*options)
    assert result.exit_code == code
    assert wanted in result.stderr
    assert not [path for path in Path().iterdir() if path.name.startswith((".writing", "out"))]


def test_stopped_while_mining_it_leaves_the_old_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.jsonl").write_text("before")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearsay.training.sentence.negatives.mining.nearest", stop)
    result = run("--out", "out.jsonl")
    assert result.exit_code == 130
    assert "same command" in result.stderr
    assert Path("out.jsonl").read_text() == "before"


def test_scored_pairs_are_refused_with_their_range(run: Run) -> None:
    lines = [f"{5 - row}\t{a}\t{b}\n" for row, (a, b) in enumerate(PAIRS)]
    Path("scored.tsv").write_text("".join(["score\tsentence1\tsentence2\n", *lines]))
    result = run("--out", "out.jsonl", "--per-anchor", "1", pairs="scored.tsv")
    assert result.exit_code == 1
    assert result.stderr == Naming("scored pairs", "2 to 5", "high score")


def test_random_sampling_is_the_same_for_a_seed(run: Run) -> None:
    for name, seed in (("one", "7"), ("two", "7")):
        options = ("--sampling", "random", "--seed", seed, "--per-anchor", "1")
        assert run("--out", f"{name}.jsonl", *options).exit_code == 0
    assert rows("one.jsonl") == rows("two.jsonl")


@pytest.mark.parametrize("out", ["out.csv", "out.jsonl"])
def test_what_is_written_is_read_back_as_tuples_character_by_character(run: Run, out: str) -> None:
    odd = 'u\tv\n"naïve" “hm”, =1+1'
    Path("corpus.jsonl").write_text(json.dumps({"text": odd}) + "\n" + json.dumps({"text": "=w x"}) + "\n")
    result = run("--out", out, "--per-anchor", "2", "--corpus", "corpus.jsonl")
    assert result.exit_code == 0, result.output
    examples = read_sentence_examples(Path(out))
    assert examples.kind is ExampleKind.TUPLES
    assert examples.columns == ("anchor", "positive", "negative_1", "negative_2")
    assert [tuple(row[:2]) for row in examples.texts] == PAIRS
    assert {text for row in examples.texts for text in row[2:]} == {odd, "=w x"}
