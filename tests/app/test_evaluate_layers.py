"""`nearsay evaluate layers`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main
from nearsay.data import picture
from nearsay.data.errors import DiskFullError
from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
from nearsay.training.bert.features import FeatureExtractor
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.pairs import StsSet

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay evaluate layers …` beside a BERT of two layers, pairs and a retrieval set."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, num_hidden_layers=2, max_position_embeddings=8)
    pairs = [("5", "the cat", "cat"), ("1", "dog", "the cat sat"), ("3", "dog sat", "sat the dog")]
    Path("pairs.tsv").write_text(
        "score\tsentence1\tsentence2\n" + "".join("\t".join(pair) + "\n" for pair in pairs)
    )
    Path("pets").mkdir()
    Path("pets/corpus.jsonl").write_text('{"_id": "c", "text": "the cat"}\n{"_id": "d", "text": "dog sat"}\n')
    Path("pets/queries.jsonl").write_text('{"_id": "q", "text": "cat"}\n')
    Path("pets/qrels.tsv").write_text("q\tc\t1\nq\tgone\t1\n")

    def run_it(*options: str) -> Result:
        always = ("--encoder", "mine", "--device", "cpu", "--precision", "float32")
        return CliRunner().invoke(main, ["evaluate", "layers", *always, *options])

    return run_it


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_has_a_row_for_each_choice_and_marks_the_best(run: Run) -> None:
    found = rows(run("--sts", "pairs.tsv", "--json"))
    assert [(row["layers"], row["pooling"]) for row in found] == [
        (layers, pooling)
        for layers in ("0", "1", "2", "sum-all")
        for pooling in ("cls", "mean", "max")
        if (layers, pooling) != ("0", "cls")
    ]
    keys = {"report", "encoder", "layers", "pooling", "figures", "Spearman", "Pearson", "best"}
    assert all(row.keys() == keys for row in found)
    (best,) = [row for row in found if row["best"]]
    assert best["Spearman"] == max(row["Spearman"] for row in found)
    last = FeatureExtractor.load("mine", device="cpu", precision=Precision.FLOAT32)
    (own,) = [row for row in found if (row["layers"], row["pooling"]) == ("2", "mean")]
    alone = StsSet("pairs", tuple(read_scored_pairs("pairs.tsv"))).measure(last)
    assert own["Pearson"] == pytest.approx(alone.metrics["pearson"], abs=1e-3)


def test_the_table_is_by_layer_with_a_column_a_pooling(run: Run) -> None:
    result = run("--sts", "pairs.tsv")
    assert result.exit_code == 0, result.output
    table = [line.split() for line in result.stdout.splitlines()]
    assert table[0] == ["layer", "cls", "mean", "max", "best"]
    assert [row[0] for row in table[1:]] == ["0", "1", "2", "sum-all"]
    assert table[1][1] == "-"
    found = rows(run("--sts", "pairs.tsv", "--json"))
    assert table[4][1:4] == [f"{row['Spearman']:.2f}" for row in found[-3:]]
    (best,) = [row for row in found if row["best"]]
    assert [row[0] for row in table[1:] if row[-1] == best["pooling"]] == [best["layers"]]
    assert "Spearman times 100, " in result.stderr


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_picture_that_cannot_be_written_does_not_take_the_figures_along(
    as_json: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object) -> None:
        raise DiskFullError(f"no room left to write {path}")

    monkeypatch.setattr(picture, "write_picture", full)
    result = run("--sts", "pairs.tsv", "--plot", "layers.svg", *as_json)
    assert result.exit_code == 1
    assert "layers.svg" in result.stderr
    assert "sum-all" in result.stdout


def test_a_judged_corpus_is_measured_by_ndcg(run: Run) -> None:
    found = rows(result := run("--retrieval", "pets", "--json"))
    keys = {"report", "encoder", "layers", "pooling", "figures", "nDCG@10", "MRR@10", "recall@100", "best"}
    assert set(found[0]) == keys
    assert all(0 < row["nDCG@10"] <= 1 for row in found)
    assert result.stderr == Naming("1 judgements", "document")


def test_a_plot_is_written_where_it_is_asked_for(run: Run) -> None:
    assert run("--sts", "pairs.tsv", "--plot", "layers.png").exit_code == 0
    assert Path("layers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        ((), 2, "--sts FILE or --retrieval FOLDER"),
        (("--sts", "pairs.tsv", "--retrieval", "pets"), 2, "--sts FILE or --retrieval FOLDER"),
        (("--sts", "gone.tsv"), 2, "'gone.tsv' does not exist"),
        (("--retrieval", "pets", "--split", "dev", "--plot", "p.gif"), 1, "one of the endings .png, .svg"),
        (
            ("--sts", "pairs.tsv", "--encoder", "pets"),
            1,
            "pets holds no config.json",
        ),
    ],
)
def test_what_cannot_be_done_is_told(options: tuple[str, ...], code: int, wanted: str, run: Run) -> None:
    result = run(*options)
    assert result.exit_code == code
    assert wanted in result.stderr
    assert result.stdout == ""
