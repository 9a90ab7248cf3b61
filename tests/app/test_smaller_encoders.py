"""`nearsay train reduce|static|distill`, `evaluate compression`, `encoders encode --dtype`."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main
from nearsay.app.cli.options import encoder_named
from nearsay.indexer import Library
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder

pytestmark = pytest.mark.usefixtures("short_runs")

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "owl", "sat", "ran", "slept", "."]
TEXTS = [
    f"the {animal} {verb}{end}" for animal in WORDS[6:9] for verb in WORDS[9:12] for end in ("", " .", " . .")
]
EXACT = ("--device", "cpu", "--precision", "float32")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay …` beside an encoder of two layers and files of texts and judgements."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, hidden_size=16, num_hidden_layers=2)
    kinds = ("Transformer", "Pooling", "Normalize")
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    Path("mine/modules.json").write_text(json.dumps(modules))
    Path("mine/1_Pooling").mkdir()
    Path("mine/1_Pooling/config.json").write_text('{"embedding_dimension": 16, "pooling_mode": "mean"}')
    Path("mine/sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    Path("texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    rows = [(0.5 + (i * 7) % 5, TEXTS[i], TEXTS[-1 - i]) for i in range(8)]
    Path("pairs.tsv").write_text(
        "score\tsentence1\tsentence2\n" + "".join(f"{score}\t{a}\t{b}\n" for score, a, b in rows)
    )

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, list(arguments))

    return run_it


def load(folder: str) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)


def test_an_encoder_is_reduced_and_used(run: Run) -> None:
    result = run("train", "reduce", "mine", "texts.txt", "--dimension", "4", "--out", "small", *EXACT)
    assert result.exit_code == 0, result.output
    table = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines()[1:])
    assert (table["folder"], table["dimension"], table["from dimension"]) == ("small", "4", "16")
    assert 0 < float(table["variance kept"]) < 1
    assert load("small").encode(TEXTS).shape == (27, 4)


def test_a_matryoshka_encoder_is_cut_without_texts(run: Run) -> None:
    options = ("--dimension", "4", "--method", "matryoshka", "--out", "small")
    result = run("train", "reduce", "mine", *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["dimension"] == 4
    np.testing.assert_allclose(load("small").encode(TEXTS), load("mine").encode(TEXTS)[:, :4], atol=1e-6)
    assert "takes no texts" in run("train", "reduce", "mine", "texts.txt", *options).stderr
    assert "pca needs texts" in run("train", "reduce", "mine", "--dimension", "4", "--out", "x").stderr


def test_a_static_encoder_is_made_with_and_without_texts(run: Run) -> None:
    plain = run("train", "static", "mine", "--out", "plain", "--dimension", "4", *EXACT)
    assert plain.exit_code == 0, plain.output
    table = dict(line.rsplit(maxsplit=1) for line in plain.stdout.splitlines()[1:])
    assert (table["folder"], table["tokens"], table["dimension"]) == ("plain", "13", "4")
    fitted = run(
        "train", "static", "mine", "texts.txt", "--out", "fitted", "--sample", "20", "--json", *EXACT
    )
    assert fitted.exit_code == 0, fitted.output
    told = json.loads(fitted.stdout)
    assert (told["texts"], told["dimension"], told["folder"]) == (20, 16, "fitted")
    assert "20 of 27 texts" in fitted.stderr
    assert load("fitted").encode(TEXTS).shape == (27, 16)
    again = run("train", "static", "mine", "texts.txt", "--out", "fitted", "--sample", "20", *EXACT)
    assert "fitted already exists" in again.stderr
    assert "of 27 texts" not in again.stderr  # nothing was read


@pytest.mark.long
def test_a_student_learns_from_its_teacher(run: Run) -> None:
    options = ("--keep-layers", "1", "--epochs", "30", "--batch", "9", "--learning-rate", "3e-3")
    evaluation = ("--evaluate", "sts:pairs.tsv", *EXACT)
    result = run(
        "train", "distill", "texts.txt", "--teacher", "mine", *options, "--out", "student", *evaluation
    )
    assert result.exit_code == 0, result.output
    header, row, _, *facts = result.stdout.strip().splitlines()
    assert facts[1].split() == ["steps", "90"]
    assert header.split()[:5] == ["set", "figure", "items", "before", "after"]
    assert row.split()[:3] == ["pairs", "Spearman", "8"]
    assert json.loads(Path("student/config.json").read_text())["num_hidden_layers"] == 1
    assert any(step.startswith("kept layers 1 of 2") for step in load("student").lineage)
    assert [path.name for path in Path("student/run").glob("start*")] == []
    run(
        "train",
        "distill",
        "texts.txt",
        "--teacher",
        "mine",
        *options[:2],
        "--steps",
        "1",
        "--out",
        "short",
        *EXACT,
    )
    wanted = load("mine").encode(TEXTS)

    def nearness(folder: str) -> float:
        return float((load(folder).encode(TEXTS) * wanted).sum(axis=1).mean())

    assert nearness("student") > nearness("short") + 0.05


def test_rows_of_the_dev_set_that_are_left_out_are_told(run: Run) -> None:
    lines = ["anchor\tpositive\tnegative", "the cat\tthe cat sat\tthe owl", "the dog\tthe dog ran\t"]
    Path("dev.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    options = ("--keep-layers", "1", "--steps", "1", "--dev", "triplets:dev.tsv", *EXACT)
    result = run("train", "distill", "texts.txt", "--teacher", "mine", "--out", "student", *options)
    assert result.exit_code == 0, result.output
    assert "dev.tsv: 1 row without a positive or a negative left out" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "either --keep-layers or --student"),
        (("--keep-layers", "1", "--student", "mine"), "either --keep-layers or --student"),
        (("--keep-layers", "one"), "'one' is not a number"),
        (("--keep-layers", "0,5"), "layers 0, 5 cannot be kept of 'mine'"),
    ],
)
def test_a_student_that_cannot_be_is_refused(options: tuple[str, ...], said: str, run: Run) -> None:
    result = run("train", "distill", "texts.txt", "--teacher", "mine", "--out", "student", *options)
    assert result.exit_code in {1, 2}
    assert said in result.stderr
    assert not list(Path().glob("student/run/start*"))


@pytest.mark.parametrize(
    "words",
    [("reduce", "mine", "none.txt", "--dimension", "4"), ("distill", "none.txt", "--keep-layers", "1")],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_a_text_is_read(
    words: tuple[str, ...], run: Run
) -> None:
    result = run("train", *words, "--out", "texts.txt")
    why = "texts.txt already exists" if words[0] == "reduce" else "texts.txt is a file"
    assert (result.exit_code, why in result.stderr) == (1, True), result.output


def test_compression_is_one_table(run: Run) -> None:
    result = run(
        "evaluate",
        "compression",
        "--encoder",
        "mine",
        "--sts",
        "pairs.tsv",
        "--dimension",
        "8",
        "--dimension",
        "4",
        *EXACT,
    )
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["vectors", "dimension", "bytes", "Spearman", "Spearman", "lost"]
    assert [line.split("  ")[0] for line in lines[1:5]] == ["float32", "float16", "int8", "binary"]
    assert lines[-1].split()[:6] == ["first", "4", "of", "16", "4", "16"]


def test_compression_as_json_names_what_was_not_measured(run: Run) -> None:
    result = run("evaluate", "compression", "--encoder", "mine", "--sts", "pairs.tsv", "--json", *EXACT)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["bytes_per_vector"] for row in rows] == [64, 32, 16, 2, 2, 18, 66]
    assert rows[0]["spearman_lost"] == 0
    assert rows[0]["ndcg_at_10"] is None


def test_compression_needs_something_to_measure_on(run: Run) -> None:
    assert "--sts FILE, --retrieval FOLDER or both" in run("evaluate", "compression").stderr
    wrong = run("evaluate", "compression", "--sts", "pairs.tsv", "--dimension", "big")
    assert wrong.stderr == Naming("'big'", "integer")


def test_vectors_are_encoded_with_fewer_bits(run: Run) -> None:
    always = ("encoders", "encode", "texts.txt", "--encoder", "mine", *EXACT)
    assert run(*always, "--out", "b.npy", "--dtype", "binary").exit_code == 0
    assert run(*always, "--out", "v.npy", "--dtype", "int8").exit_code == 0
    vectors = load("mine").encode(TEXTS)
    np.testing.assert_array_equal(np.load("b.npy"), np.packbits(vectors > 0, axis=1))
    ranges = np.load("v.ranges.npy")
    np.testing.assert_allclose(ranges, [vectors.min(axis=0), vectors.max(axis=0)], atol=1e-6)
    again = run(*always, "--out", "w.npy", "--dtype", "int8", "--ranges", "v.ranges.npy")
    assert again.exit_code == 0, again.output
    np.testing.assert_array_equal(np.load("w.npy"), np.load("v.npy"))
    refused = run(*always, "--out", "x.npy", "--dtype", "binary", "--pooling", "cls")
    assert (refused.exit_code, Path("x.npy").exists()) == (2, False)


def test_encoders_are_listed_and_shown_where_no_library_was_made(run: Run) -> None:
    (listed,) = run("encoders", "list", "--json").stdout.splitlines()
    assert json.loads(listed)["name"] == "all-MiniLM-L6-v2"
    assert run("encoders", "show", "mine").exit_code == 0
    assert "no library in other" in run("encoders", "list", "--library", "other").stderr


def test_showing_an_encoder_that_was_never_fetched_says_so_in_our_words(run: Run) -> None:
    result = run("encoders", "show", "somebodys")
    assert (result.exit_code, result.stderr) == (1, Naming("somebodys", "all-MiniLM-L6-v2"))
    assert "local_files_only" not in result.stderr


def test_what_is_made_while_a_library_is_at_hand_is_known_by_its_name(run: Run, tmp_path: Path) -> None:
    Library.open("library").close()
    make = ("train", "reduce", "mine", "--method", "matryoshka", "--dimension", "4", "--out", "made/small")
    result = run(*make)
    assert result.exit_code == 0, result.output
    assert result.stderr == Naming("--encoder small", "library library")
    listed = [json.loads(line) for line in run("encoders", "list", "--json").stdout.splitlines()]
    assert [row["name"] for row in listed] == ["all-MiniLM-L6-v2", "small"]
    assert listed[1]["source"] == str(tmp_path / "made" / "small")
    assert {row["report"] for row in listed} == {"encoder"}
    assert "small" in run("encoders", "list").stdout
    told = json.loads(run("encoders", "show", "small", "--json").stdout)
    assert (told["dimension"], told["uses"]) == (4, [])
    shown = run("encoders", "show", "small").stdout
    assert str(tmp_path / "made" / "small") in shown
    assert told["fingerprint"][:12] in shown
    result = run("encoders", "encode", "texts.txt", "--out", "vectors.npy", "--encoder", "small", *EXACT)
    assert result.exit_code == 0, result.output
    assert np.load("vectors.npy").shape == (27, 4)
    elsewhere = run(
        *("encoders", "encode", "texts.txt", "--out", "v.npy", "--encoder", "./small", "--library", "none")
    )
    assert elsewhere.exit_code == 1


def test_a_name_is_looked_up_in_the_library_at_hand_alone(run: Run, tmp_path: Path) -> None:
    Library.open("library").close()
    run("train", "reduce", "mine", "--method", "matryoshka", "--dimension", "4", "--out", "made/small")
    context = click.Context(main)
    context.meta["nearsay.library"] = "library"
    assert encoder_named("small", context) == str(tmp_path / "made" / "small")
    assert encoder_named("owner/name", context) == "owner/name"
    context.meta["nearsay.library"] = "nothing here"
    assert encoder_named("small", context) == "small"
