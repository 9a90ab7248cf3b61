"""Cross-encoders trained, measured and searched with from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nearsay.app.cli import main

pytestmark = pytest.mark.usefixtures("short_runs")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran", "on", "mat", "now"]
ROWS = [
    f"the {verb}\t{place} cat\t{place} dog" for verb in ("sat", "ran") for place in ("on", "mat", "now", "")
]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, save_bert: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("berts") / "small"
    return save_bert(folder, WORDS, hidden_size=16, max_position_embeddings=32, initializer_range=0.3)


@pytest.fixture
def triplets(tmp_path: Path) -> Path:
    path = tmp_path / "triplets.tsv"
    path.write_text("\n".join(["anchor\tpositive\tnegative", *ROWS]) + "\n", "utf-8")
    return path


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "lists.jsonl"
    rows = [
        {
            "query": f"the {verb} now",
            "positive": ["the cat"],
            "negative": ["the dog", "now dog", "dog on mat"],
        }
        for verb in ("sat", "ran")
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def run(bert: Path) -> Run:
    def run_it(*arguments: object, code: int = 0) -> Result:
        given = [str(argument) for argument in arguments]
        given += ["--base", str(bert), "--device", "cpu", "--precision", "float32"]
        result = CliRunner().invoke(main, ["train", "cross-encoder", *given])
        assert result.exit_code == code, result.output
        return result

    return run_it


def test_it_offers_no_training_on_texts_alone(triplets: Path, tmp_path: Path, run: Run) -> None:
    refused = run(triplets, "--kind", "texts", "--out", tmp_path / "out", code=2).output
    assert "'tuples'" in refused
    assert refused.count("texts") == 1


@pytest.mark.long
def test_it_trains_measures_and_reranks(triplets: Path, lists: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "reranker"
    result = run(
        triplets, "--evaluate", f"reranking:{lists}", "--dev", f"reranking:{lists}", "--epochs", 30,
        "--learning-rate", 5e-3, "--out", out, "--json",
    )  # fmt: skip
    told = json.loads(result.stdout)
    assert told["evaluations"][0]["after"] == pytest.approx(1.0)
    assert told["dev"] == {"reranking_score": pytest.approx(1.0)}
    assert "loss ranking" in result.stderr
    options = ["--encoder", str(out), "--device", "cpu", "--json"]
    measured = CliRunner().invoke(main, ["evaluate", "reranking", str(lists), *options])
    assert json.loads(measured.stdout)["map"] == pytest.approx(1.0)
    refused = CliRunner().invoke(main, ["evaluate", "clustering", str(clusters(tmp_path)), *options])
    assert refused.exit_code == 1
    assert "measured by vectors" in refused.stderr
    texts = tmp_path / "texts.txt"
    texts.write_text("the dog sat\nmat dog\non cat\ndog ran now\n", "utf-8")
    place = ["--library", str(tmp_path / "library"), "--device", "cpu"]
    CliRunner().invoke(main, ["documents", "add", "animals", str(texts), *place], catch_exceptions=False)
    found = CliRunner().invoke(main, ["search", "animals", "the sat", "--rerank", str(out), "--json", *place])
    hits = [json.loads(line) for line in found.stdout.splitlines()]
    assert hits[0]["text"] == "on cat"


def clusters(tmp_path: Path) -> Path:
    path = tmp_path / "clusters.tsv"
    path.write_text("label\ttext\na\tcat\na\tcat sat\nb\tdog\nb\tdog ran\n", "utf-8")
    return path


@pytest.mark.long
def test_seeds_are_trained_one_after_another_and_not_again(
    triplets: Path, lists: Path, tmp_path: Path, run: Run
) -> None:
    given = [
        triplets,
        "--evaluate",
        f"reranking:{lists}",
        "--steps",
        2,
        "--seeds",
        2,
        "--out",
        tmp_path / "out",
    ]
    first = [json.loads(line) for line in run(*given, "--json").stdout.splitlines()]
    assert [line.get("seed") for line in first] == [0, 1, None]
    assert first[-1]["evaluations"][0]["set"] == "lists"
    assert "seed 1 is there" in run(*given).stderr
    assert "trained with other settings" in run(*given, "--objective", "binary", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--objective", "mse"], "needs a score of each passage"),
        (["--steps", "3", "--epochs", "1"], "--epochs and --steps both limit the training"),
        (["--negatives", "0"], "the number of negatives is 0"),
        (["--length", "99"], "32 at most"),
        (["--patience", "2"], "--patience"),
    ],
)
def test_a_mistake_is_one_clear_sentence(
    arguments: list[str], said: str, triplets: Path, tmp_path: Path, run: Run
) -> None:
    result = run(triplets, *arguments, "--out", tmp_path / "out", code=1)
    assert said in result.stderr
    assert not (tmp_path / "out").exists()
