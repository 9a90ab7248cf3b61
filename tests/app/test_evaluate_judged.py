"""`nearsay evaluate sts` and the other kinds of judged sets, `compare`, `batches` and `unlabelled`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.app.jobs.results import read_results
from nearsay.data.sentence_examples.learned_texts import LearnedTexts

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "mat", "rain"]
ALWAYS = ("--device", "cpu", "--precision", "float32")
PAIRS = [
    ("5", "the cat", "cat"),
    ("1", "dog", "the cat sat"),
    ("3", "dog sat", "sat the dog"),
    ("0", "mat", "rain"),
]
LABELLED = [("cat", f"the cat {'sat ' * row}") for row in range(8)] + [
    ("dog", f"dog {'mat ' * row}rain") for row in range(8)
]


def write(name: str, header: str, rows: list[tuple[str, ...]]) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(f"{header}\n" + "".join("\t".join(row) + "\n" for row in rows))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay evaluate …` beside two small BERTs and a suite of sets."""
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("mine", "other")):
        save_bert(name, WORDS, seed=number, max_position_embeddings=8)
    Path("sets").mkdir()
    write("sets/stsb/test.tsv", "score\tsentence1\tsentence2", PAIRS)
    write("sets/asked/test.tsv", "label\tsentence1\tsentence2", [("1", *PAIRS[0][1:]), ("0", *PAIRS[3][1:])])
    write("sets/triplets/test.tsv", "anchor\tpositive\tnegative", [("cat", "the cat", "rain")] * 3)
    for split in ("train", "test"):
        write(f"sets/pets/{split}.tsv", "label\ttext", LABELLED)
        write(
            f"sets/nli/{split}.tsv",
            "label\tpremise\thypothesis",
            [("entailment", text, text) for _, text in LABELLED]
            + [("neutral", text, "mat") for _, text in LABELLED],
        )
    Path("sets/lists.jsonl").write_text(
        '{"query": "cat", "positive": ["the cat"], "negative": ["rain", "mat"]}\n'
    )
    Path("sets/ways").mkdir()
    Path("sets/ways/corpus.jsonl").write_text(
        '{"_id": "c", "text": "the cat"}\n{"_id": "d", "text": "dog sat"}\n'
    )
    Path("sets/ways/queries.jsonl").write_text('{"_id": "q", "text": "cat"}\n')
    Path("sets/ways/qrels.tsv").write_text("q\tc\t1\n")

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["evaluate", *arguments])

    return run_it


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("kind", "place", "counts", "main"),
    [
        ("sts", "sets/stsb/test.tsv", {"pairs": 4}, "spearman"),
        ("triplets", "sets/triplets/test.tsv", {"triplets": 3}, "accuracy"),
        ("pairs", "sets/asked/test.tsv", {"pairs": 2, "same": 1}, "average_precision"),
        ("nli", "sets/nli/test.tsv", {"pairs": 32, "train_rows": 32}, "accuracy"),
        ("retrieval", "sets/ways", {"queries": 1, "documents": 2}, "ndcg_at_10"),
        ("reranking", "sets/lists.jsonl", {"queries": 1, "candidates": 3}, "map"),
        ("clustering", "sets/pets/test.tsv", {"texts": 16, "labels": 2}, "v_measure"),
        ("classification", "sets/pets/test.tsv", {"texts": 16, "train_rows": 16}, "accuracy"),
    ],
)
def test_every_kind_prints_its_figures_with_an_interval(
    kind: str, place: str, counts: dict[str, int], main: str, run: Run
) -> None:
    (row,) = rows(run(kind, place, "--encoder", "mine", "--draws", "50", "--json", *ALWAYS))
    assert (row["encoder"], row["kind"], row["main"]) == ("mine", kind, main)
    assert {name: row[name] for name in counts} == counts
    low, high = row["interval"]
    assert low <= high
    assert row["interval_draws"] == 50
    table = run(kind, place, place, "--encoder", "mine", "--draws", "50", *ALWAYS)
    assert table.exit_code == 0, table.output
    shown = f"{row[main]:.{2 if kind == 'sts' else 4}f}"
    lines = [line for line in table.stdout.splitlines()[1:] if shown in line]
    assert len(lines) >= 2
    assert "95 %" in table.stdout.splitlines()[0]
    assert "dot" not in table.stdout.splitlines()[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("sts", "sets/stsb/test.tsv", "--encoder", "mine"),
        ("compare", "mine", "other", "--suite", "sets", "--only", "st*", "--rounds", "0"),
    ],
)
def test_figures_on_what_an_encoder_was_trained_on_are_noted(arguments: tuple[str, ...], run: Run) -> None:
    said = "mine was trained on all texts of 3 of 4 items"
    assert said not in run(*arguments, "--draws", "50", *ALWAYS).stderr
    learned = LearnedTexts().with_texts([text for _, *both in PAIRS[:3] for text in both], "pairs")
    Path("mine/run").mkdir()
    Path("mine/run/learned.json").write_text(json.dumps(learned.to_json()))
    result = run(*arguments, "--draws", "50", *ALWAYS)
    assert result.exit_code == 0, result.output
    assert said in result.stderr
    assert "other was trained" not in result.stderr


def test_the_keys_that_scripts_may_read_stay(run: Run) -> None:
    (row,) = rows(run("sts", "sets/stsb/test.tsv", "--encoder", "mine", "--json", *ALWAYS))
    assert {"pairs", "spearman", "pearson", "truncated", "seconds"} <= set(row)
    assert {
        f"{name}_{end}" for name in ("spearman", "pearson") for end in ("dot", "euclidean", "manhattan")
    } <= set(row)
    (row,) = rows(run("retrieval", "sets/ways", "--encoder", "mine", "--json", *ALWAYS))
    assert {
        *("name", "queries", "documents", "ndcg_at_10", "mrr_at_10", "recall_at_100"),
        *("truncated_documents", "truncated_queries", "encoding_seconds", "search_seconds"),
    } <= set(row)


def test_a_limit_says_that_it_is_a_sample(run: Run) -> None:
    result = run("sts", "sets/stsb/test.tsv", "--encoder", "mine", "--sample", "3", "--json", *ALWAYS)
    assert rows(result)[0]["pairs"] == 3
    assert result.stderr == Naming("3 of 4", "seed 0", "not comparable")


def test_of_one_set_every_similarity_is_shown(run: Run) -> None:
    result = run("pairs", "sets/asked/test.tsv", "--encoder", "mine", *ALWAYS)
    shown = [line.rsplit("  ", 1) for line in result.stdout.splitlines()]
    names = [name.strip() for name, _ in shown]
    assert {"set", "AP", "95 % interval", "AP dot", "AP euclidean", "AP manhattan"} <= {*names}
    assert "2 pairs, 1 same" in result.stdout


def test_the_thresholds_of_f1_and_of_accuracy_are_figures_of_their_own(run: Run) -> None:
    # Cosines fall from row to row: 1, 1, 0, 0, 1 is best cut by F1 below all of them, by accuracy after two.
    pairs = [("1", "cat", "cat"), *PAIRS]
    labelled = [(label, *pair[1:]) for label, pair in zip("11001", pairs, strict=True)]
    write("sets/asked/test.tsv", "label\tsentence1\tsentence2", labelled)
    (row,) = rows(run("pairs", "sets/asked/test.tsv", "--encoder", "mine", "--json", *ALWAYS))
    shown = run("pairs", "sets/asked/test.tsv", "--encoder", "mine", *ALWAYS).stdout.splitlines()
    figures = dict(line.rsplit("  ", 1) for line in shown)
    figures = {name.strip(): figure.strip() for name, figure in figures.items()}
    for name in ("F1", "accuracy"):
        assert figures[f"best {name} at"] == f"{row[f'best_{name.lower()}_threshold']:.4f}"
    assert figures["of"] == "5 pairs, 3 same"


def test_one_of_something_is_not_many(run: Run) -> None:
    assert (
        "1 query, 3 candidates" in run("reranking", "sets/lists.jsonl", "--encoder", "mine", *ALWAYS).stdout
    )


def test_a_set_that_fails_does_not_take_the_others_figures_along(run: Run) -> None:
    write("unknown.tsv", "score\tsentence1\tsentence2", [("1", "gull", "rope"), ("2", "fog", "ash")])
    result = run("sts", "sets/stsb/test.tsv", "unknown.tsv", "--encoder", "mine", "--json", *ALWAYS)
    assert result.exit_code == 1
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["stsb/test"]
    assert "not defined" in result.stderr


def test_compare_is_one_table_of_encoders_and_sets(run: Run) -> None:
    options = ("--suite", "sets", "--draws", "50", "--plot", "plot.svg", *ALWAYS)
    result = run("compare", "mine", "./other", *options)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["set", "figure", "items", "mine", "other"]
    assert [line.split()[:1] for line in lines[1:8]] == [
        [name] for name in ("asked", "lists", "nli", "pets", "stsb", "triplets", "ways")
    ]
    assert (lines[8], lines[9].split()) == ("", ["mine", "other"])
    assert [line.split()[0] for line in lines[10:]] == ["parameters", "weights", "dimension", "sentences"]
    assert "nli: accuracy" in lines[3]
    assert Path("plot.svg").read_text().startswith("<?xml")
    assert "beyond chance" in result.stderr


def test_compare_takes_some_sets_and_prints_markdown_and_json(run: Run) -> None:
    some = ("compare", "mine", "other", "--suite", "sets", "--only", "st*", "--rounds", "0", *ALWAYS)
    lines = run(*some, "--markdown").stdout.splitlines()
    assert lines[0] == "| set | figure | items | mine | other |"
    assert len([line for line in lines if line.startswith("| stsb |")]) == 1
    found = rows(run(*some, "--json"))
    assert [(row["report"], row["encoder"]) for row in found] == [
        ("compared set", "mine"),
        ("compared set", "other"),
        ("compared encoder", "mine"),
        ("compared encoder", "other"),
    ]
    assert found[2]["parameters"] == found[3]["parameters"] > 0
    assert found[1]["difference_to_first"] is not None
    shown = read_results(found)
    assert shown.rows == []
    assert [[*table[0]] for table in shown.tables] == [
        ["set", "figure", "items", "mine", "other"],
        ["", "mine", "other"],
    ]


def test_compare_tells_what_failed_and_goes_on(run: Run) -> None:
    write("sets/stsb/test.tsv", "score\tsentence1\tsentence2", [("3", "cat", "dog")] * 3)
    result = run(
        "compare", "mine", "--suite", "sets", "--only", "stsb", "--only", "ways", "--rounds", "0", *ALWAYS
    )
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1] == Naming("error", "one score")
    assert lines[2].startswith("ways")
    assert "error" not in lines[2]
    assert "1 measurement failed" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("compare", "mine", "--suite", "sets", "--only", "none"), 1, "no judged set named none"),
        (("compare", "mine", "--suite", "sets", "--markdown", "--json"), 2, "use one of them"),
        (
            ("compare", "mine", "--suite", "sets", "--plot", "x.gif"),
            1,
            "one of the endings .png, .svg",
        ),
        (("compare", "mine", "--suite", "sets", "--rounds", "1"), 1, "give 3 or more, or 0"),
        (("nli", "sets/stsb/test.tsv", "--encoder", "mine"), 1, "no train or dev file"),
        (("triplets", "sets/stsb/test.tsv", "--encoder", "mine"), 1, "'score', 'sentence1', 'sentence2'"),
        (("sts",), 2, "Missing argument"),
        (("unlabelled", "nowhere.txt"), 1, "nowhere.txt does not exist"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    arguments: tuple[str, ...], code: int, said: str, run: Run
) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_an_unlabelled_corpus_gives_proxies_and_says_what_they_do_not_show(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nearsay.training.sentence.encoder.Encoder.load",
        lambda name, **_: WordsEncoder(name=str(name), max_tokens=99),
    )
    animals = ("cat", "horse", "parrot", "elephant")
    texts = [
        {"title": f"On {name}s", "text": f"One {name} is here. " * 12 + f"It sleeps. The {name}! " * 9}
        for name in animals
    ]
    Path("pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    result = run("unlabelled", "pets.jsonl", "--encoder", "one", "--encoder", "two")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["items", "by", "chance", "one", "two"]
    assert all(line.startswith("proxy: ") for line in lines[1:5])
    assert "no quality" in result.stdout
    found = rows(run("unlabelled", "pets.jsonl", "--encoder", "one", "--json"))
    assert [row["proxy"] for row in found] == [
        *("adjacent passages", "title to body", "duplicates found again", "agreement with BM25")
    ]
    assert all(row["does_not_show"] for row in found)
    assert all(row["interval"][0] <= row["figure"] <= row["interval"][1] for row in found)
