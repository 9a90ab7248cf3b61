"""Labels and their numbers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.tagged_sentences import read_tagged_sentences
from nearsay.training.bert.heads.labels import LabelSet


def test_labels_are_in_alphabetical_order_whatever_the_file_has(write_rows: Callable[..., Path]) -> None:
    rows = [("no", "a"), ("yes", "b"), ("maybe", "c"), ("no", "d")]
    assert LabelSet.of_texts(read_labelled_texts(write_rows(rows))).names == ("maybe", "no", "yes")
    assert LabelSet.of_texts(read_labelled_texts(write_rows(rows[::-1]))).names == ("maybe", "no", "yes")


def test_labels_that_are_numbers_are_in_their_order(write_rows: Callable[..., Path]) -> None:
    rows = [("10", "a"), ("2", "b"), ("-1", "c")]
    assert LabelSet.of_texts(read_labelled_texts(write_rows(rows))).names == ("-1", "2", "10")


def test_tags_are_both_of_each_type(write_conll: Callable[..., Path]) -> None:
    sentences = read_tagged_sentences(write_conll(["a/O b/B-x", "c/I-y"]))
    assert LabelSet.of_tags(sentences).names == ("O", "B-x", "I-x", "B-y", "I-y")


def test_one_label_is_not_enough(write_rows: Callable[..., Path], write_conll: Callable[..., Path]) -> None:
    with pytest.raises(BadInputError, match="one label only, 'no'"):
        LabelSet.of_texts(read_labelled_texts(write_rows([("no", "a"), ("no", "b")])))
    with pytest.raises(BadInputError, match="every tag is O"):
        LabelSet.of_tags(read_tagged_sentences(write_conll(["a/O b/O"])))


def test_an_unknown_label_is_named_with_its_line() -> None:
    labels = LabelSet(("no", "yes"))
    assert labels.numbered([("yes", 1), ("no", 2)], "a.tsv").tolist() == [1, 0]
    with pytest.raises(BadInputError, match=r"a\.tsv:7: .*'maybe'.*\b2 .*\(no, yes\)"):
        labels.numbered([("yes", 1), ("maybe", 7)], "a.tsv")


def test_transformers_settings_go_both_ways() -> None:
    labels = LabelSet(("no", "yes"))
    settings = labels.settings()
    assert settings == {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    assert LabelSet.of_config({1: "yes", 0: "no"}) == labels
    assert LabelSet.of_config({"10": "k", "2": "c"}).names == ("c", "k")


def test_a_label_that_is_given_twice_is_refused() -> None:
    with pytest.raises(BadInputError, match="twice"):
        LabelSet(("a", "a"))
