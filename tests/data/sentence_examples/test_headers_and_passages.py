"""A first line that is a row is not taken as the header, and lists of passages are read or refused."""

import json
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs

BELOW = [
    ("red apple", "green apple"),
    ("old dog", "young dog"),
    ("a cat", "the cat"),
    ("hot tea", "iced tea"),
]


def written(path: Path, rows: list[tuple[str, ...]]) -> Path:
    between = "\t" if path.suffix == ".tsv" else ","
    path.write_text("".join(between.join(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
@pytest.mark.parametrize(
    ("rows", "value"),
    [
        (
            [("A man eats a pear.", "One eats.", "4.5"), *((*row, "3.1") for row in BELOW)],
            "A man eats a pear.",
        ),
        ([("pear", "fruit", "4.5"), *((*row, f"{n}.5") for n, row in enumerate(BELOW))], "4.5"),
        ([("0", "pear", "fruit"), *((str(n % 2), *row) for n, row in enumerate(BELOW))], "0"),
        (
            [("pear", "fruit", "same"), *((*row, ("same", "other")[n % 2]) for n, row in enumerate(BELOW))],
            "same",
        ),
        ([("big old house", "small new house"), *BELOW], "big old house"),
        (
            [("big old house", "a small house", "one blue house"), *((*row, "x y") for row in BELOW)],
            "big old house",
        ),
    ],
)
def test_a_first_line_that_is_a_row_is_no_header(
    rows: list[tuple[str, ...]], value: str, suffix: str, tmp_path: Path
) -> None:
    path = written(tmp_path / f"rows.{suffix}", rows)
    for read in (read_sentence_examples, read_labelled_texts, read_scored_pairs):
        with pytest.raises(BadInputError) as refused:
            read(path)
        option = "--label" if read is read_labelled_texts else "--columns"
        assert str(refused.value) == Naming(str(path), repr(value), "header", option)


@pytest.mark.parametrize(
    "rows",
    [
        [("Preferred term", "Synonym term"), ("cat", "feline"), ("dog", "hound")],
        [("First product", "Second product"), *BELOW],
        [("english", "german"), ("english", "Englisch"), ("house", "Haus")],
        [("en", "de"), ("en", "de"), ("house", "Haus")],
    ],
)
def test_a_header_of_unusual_names_is_no_row(rows: list[tuple[str, ...]], tmp_path: Path) -> None:
    found = read_sentence_examples(written(tmp_path / "rows.csv", rows))
    assert len(found) == len(rows) - 1
    assert found.notes[0] == Naming("the first line is taken as the header")


def test_a_header_of_unusual_names_is_said_to_be_one(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.tsv", [("english", "german"), *BELOW])
    assert read_sentence_examples(path).notes[0] == Naming("'english' + 'german'", "the first line")
    usual = written(tmp_path / "usual.tsv", [("query", "wording"), *BELOW])
    assert "the first line" not in read_sentence_examples(usual).notes[0]


def test_a_header_of_several_words_is_one_when_its_columns_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", [("the first house", "the second house"), *BELOW])
    assert len(read_sentence_examples(path, columns=("the first house", "the second house"))) == len(BELOW)


def test_columns_that_pandas_numbered_are_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", [("0", "1"), *BELOW])
    assert len(read_sentence_examples(path)) == len(BELOW)


def passages(*texts: str) -> list[dict[str, str]]:
    return [{"docid": text, "title": "T" * (text == "b"), "text": text} for text in texts]


@pytest.mark.parametrize(
    ("positives", "negatives"),
    [
        ("positive_passages", ("negative_passages",)),
        ("positive_ctxs", ("hard_negative_ctxs", "negative_ctxs")),
        ("pos", ("neg",)),
    ],
)
def test_passages_with_titles_are_positives_and_negatives(
    positives: str, negatives: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "train.jsonl"
    beside = dict.fromkeys(negatives[1:], passages())
    row = {
        "query_id": "1",
        "query": "a",
        positives: passages("b"),
        negatives[0]: passages("c", "d"),
        **beside,
    }
    path.write_text(json.dumps(row) + "\n", "utf-8")
    found = read_sentence_examples(path)
    assert (found.kind, found.texts) == (ExampleKind.TUPLES, (("a", "T b", "c", "d"),))


def test_positive_passages_alone_are_pairs(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"query": "a", "positive_passages": passages("b", "c")}) + "\n", "utf-8")
    found = read_sentence_examples(path)
    assert (found.kind, found.texts) == (ExampleKind.PAIRS, (("a", "T b"), ("a", "c")))


def test_queries_are_not_learned_from_without_their_passages(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"query": "a", "ctxs": passages("b", "c")}) + "\n", "utf-8")
    with pytest.raises(BadInputError) as refused:
        read_sentence_examples(path)
    assert str(refused.value) == Naming("train.jsonl", "'ctxs'", "positive_passages", "--kind texts")
    assert len(read_sentence_examples(path, kind=ExampleKind.TEXTS)) == 1


@pytest.mark.parametrize(
    ("labels", "names"),
    [(["1", "1.0", "0", "0.0"], ("1", "0")), (["1", "1.0", "1.1", "1"], ("1", "1.0", "1.1"))],
)
def test_whole_numbers_are_one_class_however_they_are_written(
    labels: list[str], names: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [(f"text {n}", label) for n, label in enumerate(labels)]
    path = written(tmp_path / "rows.csv", [("text", "label"), *rows])
    assert read_sentence_examples(path, kind=ExampleKind.CLASSES).label_names == names
    assert len({row.label for row in read_labelled_texts(path).rows}) == len(names)


def test_passages_that_are_never_negative_ask_for_pairs(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    row = {"query": "a", "positive_passages": passages("c"), "negative_passages": []}
    path.write_text(json.dumps(row) + "\n", "utf-8")
    with pytest.raises(BadInputError, match=r"train\.jsonl:1.*--kind pairs"):
        read_sentence_examples(path)
    assert read_sentence_examples(path, kind=ExampleKind.PAIRS).texts == (("a", "c"),)


def test_numbers_of_a_column_without_a_name_are_not_passed_over(tmp_path: Path) -> None:
    scores = written(
        tmp_path / "a.csv",
        [("text1", "text2", ""), *((*row, ("0", "0.01", "0.5", "1")[n]) for n, row in enumerate(BELOW))],
    )
    with pytest.raises(BadInputError) as refused:
        read_sentence_examples(scores)
    assert str(refused.value) == Naming("a.csv", "0.01", "header", "--kind pairs")
    assert len(read_sentence_examples(scores, kind=ExampleKind.PAIRS)) == len(BELOW)
    index = written(
        tmp_path / "b.csv", [("", "text1", "text2"), *((str(n), *row) for n, row in enumerate(BELOW))]
    )
    assert read_sentence_examples(index).kind is ExampleKind.PAIRS


def test_rows_of_all_splits_are_said_to_be_taken(tmp_path: Path) -> None:
    rows = [(f"a {n}", f"b {n}", "train") for n in range(300)]
    path = written(tmp_path / "a.csv", [("text1", "text2", "split"), *rows, ("c", "d", "test")])
    assert read_sentence_examples(path).notes[-1] == Naming("a.csv", "'split'", "test and train")
    assert len(read_sentence_examples(path, where={"split": "train"}).notes) == 1
    one = written(tmp_path / "b.csv", [("text1", "text2", "split"), *rows])
    assert len(read_sentence_examples(one).notes) == 1
