"""Reading texts and text pairs with labels."""

import json
from collections.abc import Callable

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledText, read_labelled_texts

Write = Callable[[str, str | bytes], str]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "label\ttext\nyes\ta b\n"),
        ("a.tsv.gz", "label\ttext\nyes\ta b\n"),
        ("a.csv", 'Text,"Category",more\n"a b",yes,1\n'),
        ("a.csv", "intent;whatever\nyes;a b\n"),
        ("a.jsonl", '{"utterance": "a b", "class": "yes", "id": 7}\n'),
    ],
)
def test_texts_are_read_by_their_header(write: Write, name: str, content: str) -> None:
    found = read_labelled_texts(write(name, content))
    assert found.rows == [LabelledText("a b", None, "yes", 2 if "jsonl" not in name else 1)]
    assert not found.are_pairs


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "label\tpremise\thypothesis\nyes\ta\tb\n"),
        ("a.csv", "id,Sentence1,Sentence2,gold_label\n5,a,b,yes\n"),
        ("a.tsv", "question\tsentence\tlabel\na\tb\tyes\n"),
        ("a.tsv", "question1\tquestion2\tis_duplicate\na\tb\tyes\n"),
    ],
)
def test_pairs_are_read_by_their_header(write: Write, name: str, content: str) -> None:
    found = read_labelled_texts(write(name, content))
    assert found.rows == [LabelledText("a", "b", "yes", 2)]
    assert found.are_pairs


@pytest.mark.parametrize(
    ("header", "texts", "label"),
    [
        ("label title text", "text", "label"),  # a title and its text are no two that a label compares
        ("label claim evidence", "claim evidence", "label"),
        ("query document relation", "query document", "relation"),
        ("is_paraphrase original paraphrase", "original paraphrase", "is_paraphrase"),
        ("Passage intent year", "Passage", "intent"),
    ],
)
def test_columns_of_usual_names_are_understood(write: Write, header: str, texts: str, label: str) -> None:
    found = read_labelled_texts(
        write("a.tsv", "\n".join("\t".join(line.split()) for line in (header, "a b c")))
    )
    assert (found.columns.texts, found.columns.label) == (tuple(texts.split()), label)


def test_a_guess_is_told_and_a_choice_is_not(write: Write) -> None:
    name = write("a.tsv", "label\tpremise\thypothesis\nyes\ta\tb\n")
    assert read_labelled_texts(name).notes == [
        Naming("a.tsv", "texts = 'premise' + 'hypothesis' (guessed)", "label = 'label' (guessed)")
    ]
    chosen = read_labelled_texts(name, ("hypothesis",), "label")
    assert chosen.notes == []
    assert chosen.rows == [LabelledText("b", None, "yes", 2)]
    both = read_labelled_texts(name, ("hypothesis", "premise"), "label")
    assert both.rows == [LabelledText("b", "a", "yes", 2)]


def test_a_text_may_be_a_field_of_a_mapping(write: Write) -> None:
    name = write("a.jsonl", '{"meta": {"body": "a"}, "label": "x"}\n')
    assert read_labelled_texts(name, ("meta.body",)).rows == [LabelledText("a", None, "x", 1)]


def test_labels_may_be_whole_numbers_and_truth_values_in_json(write: Write) -> None:
    name = write(
        "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": true}\n{"text": "c", "label": " x "}\n'
    )
    assert [row.label for row in read_labelled_texts(name).rows] == ["1", "true", "x"]


def test_whole_numbers_are_one_label_however_they_are_written(write: Write) -> None:
    name = write("a.csv", "text,label\na,1\nb,1.0\nc,-2.00\n")
    assert [row.label for row in read_labelled_texts(name).rows] == ["1", "1", "-2"]
    versions = write("b.csv", "text,label\na,1\nb,1.0\nc,1.1\n")
    assert [row.label for row in read_labelled_texts(versions).rows] == ["1", "1.0", "1.1"]


def test_columns_are_told_from_more_than_the_first_row(write: Write) -> None:
    rows = [{"premise": "a", "label": "x"}, {"hypothesis": "c", "premise": "b", "label": "y"}]
    with pytest.raises(BadInputError, match=r"a\.jsonl:1: hypothesis is missing"):  # and is no single text
        read_labelled_texts(write("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)))
    with pytest.raises(BadInputError, match=r"b\.jsonl:1: label is None"):
        read_labelled_texts(write("b.jsonl", '{"text": "a"}\n{"text": "b", "label": "x"}\n'))


def test_rows_on_which_annotators_did_not_agree_are_left_out_and_counted(write: Write) -> None:
    content = "gold_label\tsentence1\tsentence2\n-\ta\tb\nneutral\tc\td\n"
    found = read_labelled_texts(write("a.tsv", content))
    assert [row.label for row in found.rows] == ["neutral"]
    assert found.notes[1] == Naming("a.tsv", "1 row", "'-'")
    other = read_labelled_texts(write("b.tsv", "label\ttext\n-\tminus\n"))
    assert [row.label for row in other.rows] == ["-"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.tsv", "label\ttext\nyes\ta\nno\t \n", r"a\.tsv:3: text is empty"),
        ("a.tsv", "label\ttext\n\ta\n", r"a\.tsv:2: label is ''"),
        ("a.tsv", "label\tpremise\thypothesis\nyes\ta\t\n", r"a\.tsv:2: hypothesis is empty"),
        ("a.tsv", "label\ttext\nyes\n", r"a\.tsv:2: 1 field.*\b2"),
        ("a.tsv", "label\ttext\n", r"a\.tsv holds no labelled texts"),
        ("a.tsv", "gold_label\ttext\n-\tx\n", r"a\.tsv holds no labelled texts"),
        ("a.tsv", "", r"a\.tsv is empty"),
        ("a.tsv", "mood\tprose\nx\ty\n", "column of the label .*.*--label"),
        ("a.tsv", "label\tone\ttwo\nx\ty\tz\n", "column of the text .*.*--text"),
        ("a.jsonl", '{"text": "a", "label": 1.5}\n', r"a\.jsonl:1: label is 1\.5"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', r"a\.jsonl:2: label is None"),
        ("a.jsonl", '{"text": ["a"], "label": "x"}\n', r"a\.jsonl:1: text is no text"),
        ("a.jsonl", '{"text": "\\ud800", "label": "x"}\n', r"a\.jsonl:1: text holds a lone surrogate"),
        ("a.xlsx", "x", "no tsv, csv or jsonl file"),
    ],
)
def test_a_bad_row_is_an_error_with_its_line(write: Write, name: str, content: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_labelled_texts(write(name, content))


def test_a_column_that_is_not_there_is_named_with_those_that_are(write: Write) -> None:
    name = write("a.tsv", "label\ttext\nyes\ta\n")
    with pytest.raises(BadInputError, match=r"'mood'.*'label', 'text'"):
        read_labelled_texts(name, label="mood")


@pytest.mark.parametrize(
    ("columns", "label", "reason"),
    [(("text", "text"), None, "each text column once"), (("text",), "text", "'text' .*text and .*label")],
)
def test_columns_that_cannot_be_are_refused(
    write: Write, columns: tuple[str, ...], label: str | None, reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_labelled_texts(write("a.tsv", "label\ttext\nyes\ta\n"), columns, label)


def test_the_number_for_no_agreement_is_no_label_of_an_entailment_set(write: Write) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": label} for label in (0, -1, 2)]
    found = read_labelled_texts(write("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows)))
    assert [row.label for row in found.rows] == ["0", "2"]
    assert found.notes[1] == Naming("a.jsonl", "1 row", "'-1'")
    moods = read_labelled_texts(write("b.tsv", "label\ttext\n-1\tbad\n1\tgood\n"))
    assert [row.label for row in moods.rows] == ["-1", "1"]
