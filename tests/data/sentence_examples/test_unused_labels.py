"""Columns that say which pairs do not belong together are not passed over."""

import json
from pathlib import Path
from typing import Any

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.columns import UnusedColumns, choose_columns
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples


def written(folder: Path, header: str, values: list[str]) -> Path:
    path = folder / "pairs.tsv"
    rows = [f"the {number}th left\tthe {number}th right\t{value}" for number, value in enumerate(values)]
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (["0.1", "0.9", "0.5", "0.9", "0.1", "0.5"], "0.1, 0.5, 0.9"),
        (["0,5", "4,0", "0,5", "4,0"], "0,5, 4,0"),
        (["same", "different", "same", "different"], "different, same"),
    ],
)
def test_a_column_that_looks_like_a_label_is_asked_about(
    values: list[str], shown: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "text_1\ttext_2\tsim it", values)
    with pytest.raises(BadInputError, match=rf"'sim it' \({shown}\).*--label 'sim it'"):
        read_sentence_examples(path)
    examples = read_sentence_examples(path, kind=ExampleKind.PAIRS)  # the person has said so
    assert examples.kind is ExampleKind.PAIRS
    assert len(examples) == len(values)


@pytest.mark.parametrize(
    "values",
    [
        ["17", "18", "19", "20", "21", "22"],  # numbers of rows
        ["news", "news", "news", "news"],  # all the same
        ["a long remark", "another remark of many words", "a long remark", "another remark of many words"],
    ],
)
def test_other_columns_are_passed_over(values: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, "sentence1\tsentence2\tother", values)
    assert read_sentence_examples(path).kind is ExampleKind.PAIRS


@pytest.mark.parametrize(("name", "values"), [("lang", ["de", "en"]), ("Year", ["2019", "2020"])])
def test_what_is_never_a_label_is_not_asked_about(name: str, values: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, f"title\tabstract\t{name}", values * 5)
    assert read_sentence_examples(path).columns == ("title", "abstract")


def test_words_for_labels_say_what_to_write_instead(tmp_path: Path) -> None:
    path = written(tmp_path, "sentence1\tsentence2\tlabel", ["alike", "unlike", "alike", "unlike"])
    with pytest.raises(BadInputError, match=r"\b1 .*same.*\b0 .*different"):
        read_sentence_examples(path)


def test_a_label_that_begins_with_many_of_one_kind_is_asked_about(tmp_path: Path) -> None:
    values = ["1"] * 300 + ["0"] * 300  # sorted: the first rows say nothing
    path = written(tmp_path, "text_1\ttext_2\tmatch", values)
    with pytest.raises(BadInputError, match=r"'match' \(0, 1\).*--label match"):
        read_sentence_examples(path)
    assert len(read_sentence_examples(path, kind=ExampleKind.PAIRS)) == 600
    other = written(tmp_path, "text_1\ttext_2\tremark", ["news"] * 300 + [f"number {n}" for n in range(2000)])
    assert read_sentence_examples(other).kind is ExampleKind.PAIRS


def late(folder: Path, first: dict[str, object], then: dict[str, object]) -> Path:
    path = folder / "late.jsonl"
    rows = [{"anchor": f"a {n}", "positive": f"b {n}"} | (then if n >= 300 else first) for n in range(400)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_a_label_that_only_later_rows_have_is_asked_about(tmp_path: Path) -> None:
    path = late(tmp_path, {}, {"label": 1})
    with pytest.raises(BadInputError, match=r"late\.jsonl:301: .*'label'.*--kind pairs"):
        read_sentence_examples(path)
    assert len(read_sentence_examples(path, kind=ExampleKind.PAIRS)) == 400


def test_rows_with_a_column_of_their_own_each_are_asked_for_their_own_alone() -> None:
    asked = 0

    class Row(dict[str, object]):
        def get(self, *given: Any) -> Any:
            nonlocal asked
            asked += 1
            return super().get(*given)

    sample = [{"text1": "a", "text2": "b"}]
    unused = UnusedColumns(
        sample, choose_columns(sample, kind=None, columns=None, label=None, path="a.jsonl")
    )
    rows = [(line, Row({"text1": "a", "text2": "b", f"of {line}": line})) for line in range(2, 1000)]
    assert list(unused.seen(iter(rows))) == rows
    assert asked <= sum(len(row) for _, row in rows)
    unused.refuse_labels("a.jsonl")  # one value each


def test_negatives_that_only_later_rows_have_are_said_to_be_left_out(tmp_path: Path) -> None:
    path = late(tmp_path, {}, {"negative": "c", "remark": "x"})
    examples = read_sentence_examples(path)
    assert examples.kind is ExampleKind.PAIRS
    assert [note for note in examples.notes if "301" in note] == [Naming("late.jsonl:301", "'negative'")]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text(lines[-1] + "".join(lines[:-1]), "utf-8")
    first = read_sentence_examples(path)
    assert (first.kind, len(first)) == (ExampleKind.TUPLES, 100)


@pytest.mark.parametrize(
    ("header", "usual", "other"),
    [
        ("sentence1\tsentence2\tlabel", ("0", "1"), "0.7"),
        ("sentence1\tsentence2\tlabel", ("0", "1"), "3"),
        ("premise\thypothesis\tlabel", ("0", "1", "2"), "7"),
    ],
)
def test_a_stray_number_makes_no_scores_of_labels(
    header: str, usual: tuple[str, ...], other: str, tmp_path: Path
) -> None:
    values = [usual[n % len(usual)] for n in range(60)]
    path = written(tmp_path, header, [*values[:40], other, *values[40:]])
    with pytest.raises(BadInputError, match=rf"'label'.*'{other}' in line 42\b.*\b1 of 61\b.*scored"):
        read_sentence_examples(path)
    assert len(read_sentence_examples(path, kind=ExampleKind.SCORED)) == 61
    kind = ExampleKind.NLI if len(usual) > 2 else ExampleKind.LABELLED
    named = read_sentence_examples(path, kind=kind)
    assert len(named) == 60
    assert named.notes[-1] == Naming("pairs.tsv:42", f"'{other}'")
    several = written(tmp_path, header, [*values, *[other] * 10])
    assert read_sentence_examples(several).kind is ExampleKind.SCORED
