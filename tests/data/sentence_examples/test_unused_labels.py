"""Columns that say which pairs do not belong together are not passed over."""

from pathlib import Path

import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.examples import ExampleKind
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


def test_words_for_labels_say_what_to_write_instead(tmp_path: Path) -> None:
    path = written(tmp_path, "sentence1\tsentence2\tlabel", ["alike", "unlike", "alike", "unlike"])
    with pytest.raises(BadInputError, match=r"\b1 .*same.*\b0 .*different"):
        read_sentence_examples(path)
