"""Options that are called the same can be told apart."""

from hypothesis import given
from hypothesis import strategies as st

from nearsay.app.ui.escaping import distinct_labels


def test_labels_that_differ_stay_as_they_are():
    assert distinct_labels({1: "rain", 2: "snow"}) == {1: "rain", 2: "snow"}


def test_options_with_one_label_are_told_apart_by_what_they_are():
    assert distinct_labels({3: "rain", 7: "rain", 8: "snow"}) == {3: "rain · 3", 7: "rain · 7", 8: "snow"}


def test_options_that_are_written_the_same_are_numbered():
    assert distinct_labels({1: "one", "1": "one"}) == {1: "one · 1", "1": "one · 1 · 2"}


@given(st.dictionaries(st.integers(0, 30), st.sampled_from(["a", "a · 1", "a · 1 · 2", "b"])))
def test_no_two_labels_are_the_same(labels):
    found = distinct_labels(labels, lambda _: "1")
    assert list(found) == list(labels)
    assert len(set(found.values())) == len(labels)
