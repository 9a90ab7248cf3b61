"""Groups of near-duplicates for the page, and merging them."""

import json

import pytest
from words_encoder import WordsEncoder

from nearsay.app.ui.explore.duplicates_view import (
    Groups,
    group_key,
    groups_of,
    labels_of,
    left_over,
    merged_html,
    pair_rows,
    side_html,
    still_there,
    superfluous,
)
from nearsay.indexer import Library
from nearsay.indexer.duplicates.groups import DuplicateGroup
from nearsay.indexer.duplicates.merging import difference, merged_metadata
from nearsay.indexer.duplicates.pairs import Pair, PairedPassage
from nearsay.indexer.results import every

ROWS = [
    {"id": "a", "text": "i am", "year": 2019},
    {"id": "b", "text": "i am", "year": 2020, "venue": "acl"},
    {"id": "c", "text": "the cat sat"},
]


@pytest.fixture
def papers(tmp_path):
    """Three documents, two of which say the same."""
    words = WordsEncoder()
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        yield collection


def test_a_job_and_a_look_at_once_give_the_same_groups(papers):
    found = papers.explore.duplicates(0.95)
    printed = [json.loads(json.dumps(group.to_json())) for group in found]
    assert groups_of(found).groups == (("a", "b"),)
    assert groups_of(every([*printed, "a line of text"], DuplicateGroup)) == groups_of(found)


def test_a_document_that_was_written_since_is_in_no_group_any_more(papers):
    found = Groups((("a", "b"),))
    assert still_there(papers, found, "2999-01-01T00:00:00.000+00:00") == found
    assert still_there(papers, found, "2000-01-01T00:00:00.000+00:00").groups == ()


def test_a_document_that_is_gone_is_in_no_group_any_more(papers):
    papers.remove(["b"])
    assert still_there(papers, Groups((("a", "b"),)), "2999-01-01T00:00:00.000+00:00").groups == ()


def test_a_group_that_somebody_set_apart_is_left_out():
    found = Groups((("a", "b"), ("c", "d")))
    assert left_over(found, {frozenset(("b", "a"))}) == [("c", "d")]


def test_all_but_the_first_of_each_group_can_go():
    assert superfluous([("a", "b", "c"), ("d", "e")]) == ["b", "c", "e"]


def test_the_widgets_of_two_groups_are_named_apart():
    assert group_key(("b", "a")) == group_key(("a", "b"))
    assert group_key(("a", "b")) != group_key(("a", "c"))


def test_the_central_document_is_said_to_be(papers):
    assert labels_of([papers.document("a"), papers.document("b")]) == {"a": "a: most central", "b": "b"}


def test_what_is_taken_over_and_what_is_lost_is_shown_as_text():
    html = merged_html(merged_metadata({"a": "<b>"}, [{"a": "<i>", "<u>": ["x"]}]))
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in html
    assert "&lt;b&gt; is kept; lost: &lt;i&gt;" in html
    assert "&lt;u&gt;: [&quot;x&quot;]" in html


def test_of_many_other_values_the_first_twenty_are_named():
    html = merged_html(merged_metadata({"a": "x"}, [{"a": f"y{at}"} for at in range(300)]))
    assert "y19, and 280 more" in html
    assert "y20" not in html


def side(id_: str, title: str, text: str) -> PairedPassage:
    """One of a pair."""
    return PairedPassage(id_, title, text, 0, {})


def test_a_pair_becomes_a_flat_row():
    row = pair_rows([Pair(0.987654, side("a", "A", "i am"), side("b", "A", "i am"))])[0]
    assert (row["cosine"], row["first id"], row["second id"], row["second text"]) == (
        0.9877,
        "a",
        "b",
        "i am",
    )
    assert list(row)[:3] == ["cosine", "first", "second"]


def test_a_document_without_a_title_is_called_by_its_id_in_the_table_of_pairs():
    row = pair_rows([Pair(0.9, side("a", "", "Some text."), side("b", "Bees", "Some text."))])[0]
    assert (row["first"], row["second"]) == ("a", "Bees")
    assert (row["first text"], row["second text"]) == ("Some text.", "Some text.")


def test_a_line_of_a_file_is_called_by_its_words_in_the_table_of_pairs():
    hashed = f"news.tsv#{'0' * 16}"
    row = pair_rows([Pair(1.0, side(hashed, "", "Oil is dear."), side(f"{hashed}-2", "", "Oil is dear."))])[0]
    assert (row["first"], row["second"]) == ("Oil is dear.", "Oil is dear.")


def test_markup_of_a_document_is_shown_and_not_run():
    parts = difference("<b>one</b>", "<i>two</i>").first
    html = side_html(parts, "del")
    assert "<b>" not in html
    assert "&lt;" in html
    assert "<del>" in html
