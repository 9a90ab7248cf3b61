"""The most similar pairs of collections."""

from collections.abc import Callable

import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.duplicates.pairs import Pairs
from nearsay.indexer.vectors.errors import BadFilterError, EncoderMismatchError, UnknownDocumentError
from nearsay.indexer.vectors.progress import Progress

ROWS = [  # words of one letter, of two, of three
    {"id": "a", "text": "i am", "kind": "x"},  # (1, 1, 0)
    {"id": "b", "text": "oh i", "kind": "y"},  # (1, 1, 0)
    {"id": "c", "text": "i am it", "kind": "x"},  # (1, 2, 0)
    {"id": "d", "text": "the cat", "kind": "y", "title": "pets"},  # (0, 0, 2) and a word of four
]


@pytest.fixture
def papers(library: Library) -> Collection:
    """Four documents of a passage each."""
    collection = library.collection("papers")
    collection.add_rows(ROWS)
    return collection


def named(pairs: Pairs) -> list[tuple[str, str, float]]:
    return [(pair.first.id, pair.second.id, round(pair.cosine, 4)) for pair in pairs]


def test_the_most_similar_pairs_come_first(papers: Collection) -> None:
    # 3 / (sqrt 2 · sqrt 5) = .9487
    pairs = papers.explore.pairs(3)
    assert named(pairs) == [("a", "b", 1.0), ("a", "c", 0.9487), ("b", "c", 0.9487)]
    assert (pairs.exact, pairs.looked_at, pairs.notes) == (True, 4, ())
    assert pairs[np.argmin(pairs.cosines)] == pairs[1]
    assert (pairs[0].first.text, pairs[0].first.ordinal, pairs[0].first.metadata) == (
        "i am",
        0,
        {"kind": "x"},
    )


def test_a_threshold_and_a_filter_leave_pairs_out(papers: Collection) -> None:
    assert named(papers.explore.pairs(threshold=0.95)) == [("a", "b", 1.0)]
    assert named(papers.explore.pairs(where="kind = 'x'")) == [("a", "c", 0.9487)]
    assert named(papers.explore.pairs(1, threshold=0.5)) == [("a", "b", 1.0)]
    assert len(papers.explore.pairs(where="kind = 'z'")) == 0
    with pytest.raises(BadFilterError):
        papers.explore.pairs(where="kind =")
    with pytest.raises(BadInputError, match="top is 0"):
        papers.explore.pairs(0)


def test_removed_documents_are_in_no_pair(papers: Collection) -> None:
    before = papers.explore.pairs()
    papers.remove(["a"])
    assert named(papers.explore.pairs(1)) == [("b", "c", 0.9487)]
    assert next(iter(before)).first.id == "b"  # what was found before shows what is left
    with pytest.raises(UnknownDocumentError, match="Find the pairs again"):
        before[0]


def test_passages_of_one_document_are_pairs_only_if_asked_for(library: Library) -> None:
    collection = library.collection("long", chunking="sentences")
    collection.add_rows([{"id": "a", "text": "We saw it. You ate it."}, {"id": "b", "text": "We saw a cat."}])
    both = collection.explore.pairs(same_document=True)
    # By letters: (1, 2, 1) and (1, 1, 2) in a, (2, 1, 2) in b.
    assert [round(pair.cosine, 4) for pair in both] == [0.9526, 0.8333, 0.8165]
    assert {(pair.first.id, pair.second.id) for pair in both} == {("a", "a"), ("a", "b")}
    assert len(both) == 3
    assert {(pair.first.id, pair.second.id) for pair in collection.explore.pairs()} == {("a", "b")}


def test_between_collections_the_first_is_of_the_one_that_was_asked(
    papers: Collection, library: Library
) -> None:
    notes = library.collection("notes")
    notes.add_rows([{"id": "n", "text": "it is a", "kind": "x"}, {"id": "m", "text": "a b", "kind": "y"}])
    pairs = papers.explore.pairs(2, other=notes)
    assert named(pairs) == [("c", "n", 1.0), ("a", "n", 0.9487)]
    assert pairs.looked_at == 6
    filtered = papers.explore.pairs(1, other=notes, where="kind = 'y'", other_where="kind = 'y'")
    assert named(filtered) == [("b", "m", 0.7071)]
    assert named(notes.explore.pairs(1, other=papers)) == [("n", "c", 1.0)]


def test_what_cannot_be_compared_is_refused_with_a_remedy(papers: Collection, library: Library) -> None:
    with pytest.raises(BadInputError, match=r"'papers' .*itself"):
        papers.explore.pairs(other=papers)
    wide = library.collection("wide", encoder=WordsEncoder("wide", dimension=9))
    wide.add_rows(ROWS)
    with pytest.raises(EncoderMismatchError, match="nearsay index rebuild wide --encoder words"):
        papers.explore.pairs(other=wide)


def test_the_progress_is_told_and_can_stop_it(papers: Collection) -> None:
    seen: list[Progress] = []
    papers.explore.pairs(2, progress=seen.append)
    assert seen[-1] == Progress(3, 3, "comparing", "pairs")  # of three different vectors

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        papers.explore.pairs(2, progress=stop)


def test_pairs_through_lists_say_so(open_table: Callable[[], Collection]) -> None:
    table = open_table()
    exact, listed = table.explore.pairs(200), table.explore.pairs(200, exact=False)
    assert not listed.exact
    assert "some pairs may be missing" in listed.notes[0]
    assert len(set(named(exact)) & set(named(listed))) >= 190
