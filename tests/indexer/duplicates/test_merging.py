"""What a document takes over from its near-duplicates."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.indexer import Library, VectorsOnly
from nearsay.indexer.duplicates.merging import Conflict, merge, merged_metadata

_VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]), st.just([]))
ONES = np.eye(2, 4, dtype=np.float32)
_ROWS = st.dictionaries(st.sampled_from("abc"), _VALUES)


def test_what_is_missing_is_filled_from_the_first_that_has_it():
    merged = merged_metadata({"year": 2019}, [{"venue": "acl"}, {"venue": "emnlp", "pages": 8}])
    assert merged.metadata == {"year": 2019, "venue": "acl", "pages": 8}
    assert merged.filled == ("venue", "pages")
    assert merged.conflicts == (Conflict("venue", "acl", ("emnlp",)),)


def test_what_it_says_itself_is_never_overwritten():
    merged = merged_metadata({"year": 2019}, [{"year": 2020}, {"year": 2020}, {"year": 2021}])
    assert merged.metadata == {"year": 2019}
    assert not merged.filled
    assert merged.conflicts == (Conflict("year", 2019, (2020, 2021)),)


def test_null_and_empty_values_are_missing_but_zero_and_false_are_not():
    kept = {"a": None, "b": "", "c": [], "d": {}, "e": 0, "f": False}
    other = dict.fromkeys("abcdef", 7)
    merged = merged_metadata(kept, [other])
    assert merged.metadata == {"a": 7, "b": 7, "c": 7, "d": 7, "e": 0, "f": False}
    assert [conflict.field for conflict in merged.conflicts] == ["e", "f"]


def test_true_is_not_one():
    assert merged_metadata({"a": 1}, [{"a": True}]).conflicts == (Conflict("a", 1, (True,)),)


def test_an_empty_field_that_nobody_fills_stays():
    assert merged_metadata({"a": None}, [{"a": ""}]).metadata == {"a": None}


@given(_ROWS, st.lists(_ROWS, max_size=3))
def test_nothing_that_was_there_is_lost_and_everything_new_is_told(kept, others):
    merged = merged_metadata(kept, others)
    lacking = (None, "", [])
    for name, value in kept.items():
        if value not in lacking or value is False or value == 0:
            assert merged.metadata[name] == value
            assert type(merged.metadata[name]) is type(value)
    assert set(merged.metadata) == set(kept) | set(merged.filled)
    for other in others:
        for name, value in other.items():
            told = any(conflict.field == name and value in conflict.others for conflict in merged.conflicts)
            assert value in lacking or merged.metadata[name] == value or told


def test_documents_whose_vectors_are_made_elsewhere_are_merged_too(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        papers = library.collection("papers", encoder=VectorsOnly("elsewhere", 4))
        papers.add_rows([{"id": "a", "text": "one"}, {"id": "b", "text": "two", "year": 1}], vectors=ONES)
        assert merge(papers, "a", ["b"]) == 1
        assert [(each.id, each.metadata) for each in papers.documents()] == [("a", {"year": 1})]


def test_the_one_that_stays_takes_over_what_it_lacks(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "i am", "year": 2019},
        {"id": "b", "text": "i am", "year": 2020, "venue": "acl"},
        {"id": "c", "text": "the cat sat"},
    ]
    words = WordsEncoder()
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        papers = library.collection("papers")
        papers.add_rows(rows)
        assert merge(papers, "a", ["b"]) == 1
        assert papers.document("a").metadata == {"year": 2019, "venue": "acl"}
        assert [document.id for document in papers.documents()] == ["a", "c"]
