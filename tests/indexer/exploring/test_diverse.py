"""A few passages that show what is in a collection."""

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections, refinements
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.exploring import diverse
from nearsay.indexer.exploring.diverse import typicality
from nearsay.indexer.neighbours.points import Points
from nearsay.training.sentence.query_adapter import QueryAdapter

# Four around (1, 1, 0, 0), three around (0, 0, 1, 1), and one alone.
ROWS = [
    {"id": "a1", "text": "a bb", "side": "a"},
    {"id": "a2", "text": "a a bb", "side": "a"},
    {"id": "a3", "text": "a bb bb", "side": "a"},
    {"id": "a4", "text": "a bb a bb a", "side": "a"},
    {"id": "c1", "text": "ccc dddd", "side": "c"},
    {"id": "c2", "text": "ccc ccc dddd", "side": "c"},
    {"id": "c3", "text": "ccc dddd dddd", "side": "c"},
    {"id": "alone", "text": "eeeeeee", "side": "e"},
]


def test_company_is_the_mean_cosine_to_the_nearest_drawn_worked_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(diverse, "_NEIGHBOURS", 2)
    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], dtype="f4")
    points = Points.from_array(np.arange(1, 5), vectors)
    # The first two are of one document; the last is not drawn.
    found = typicality(points, np.array([7, 7, 8, 9]), np.array([0, 1, 2]))
    assert found.tolist() == pytest.approx([0.6, 0.96, (0.6 + 0.96) / 2, (0.6 + 0.8) / 2], abs=1e-6)


def test_what_has_nothing_to_be_compared_with_has_no_company() -> None:
    points = Points.from_array(np.arange(1, 3), np.eye(2, dtype="f4"))
    assert typicality(points, np.array([4, 4]), np.array([0, 1])).tolist() == [0.0, 0.0]


def test_one_of_each_kind_is_chosen_and_what_is_alone_last(either_library: Library) -> None:
    collection = either_library.collection("texts")
    collection.add_rows(ROWS)
    found = collection.explore.diverse(3)
    assert [each.metadata["side"] for each in found] == ["a", "c", "e"]
    assert [each.rank for each in found] == [1, 2, 3]
    assert [each.stands_for for each in found] == [4, 3, 1]
    assert [each.likeness for each in found] == [None, pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6)]
    for each in found:
        assert each.score == pytest.approx(0.5 * each.relevance - 0.5 * (each.likeness or 0.0), abs=2e-6)


def test_with_a_query_the_relevance_is_its_cosine(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    found = collection.explore.diverse(2, query="x yy", balance=1.0)
    assert [(each.id, each.relevance) for each in found] == [
        ("a1", pytest.approx(1.0, abs=1e-6)),
        ("a4", pytest.approx(5 / 26**0.5, abs=1e-6)),
    ]
    unlike = collection.explore.diverse(2, query="x yy", balance=0.0)
    assert [unlike[0].id, unlike[1].likeness] == ["a1", pytest.approx(0.0, abs=1e-6)]


def test_with_a_query_only_what_is_near_to_it_is_chosen_from(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows([{"id": f"n{n:02}", "text": "a bb" + " a" * n} for n in range(20)] + ROWS[4:])
    found = collection.explore.diverse(4, query="x yy", balance=0.1)
    assert {each.id[0] for each in found} == {"n"}
    assert found.notes == (Naming(20, 24, "nearest"),)


def test_a_filter_says_what_is_chosen_from(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    found = collection.explore.diverse(9, where="side = 'c'")
    assert {each.id for each in found} == {"c1", "c2", "c3"}
    assert found.notes == (Naming("3 of the 9", "only 3"),)
    assert list(collection.explore.diverse(where="side = 'z'")) == []


def test_the_order_of_adding_says_nothing(library: Library) -> None:
    rows = [*ROWS, *({**row, "id": f"{row['id']}-copy"} for row in ROWS)]
    one, two = library.collection("one"), library.collection("two")
    one.add_rows(rows)
    two.add_rows(rows[::-1])
    for query in (None, "x yy"):
        first, second = (each.explore.diverse(6, query=query) for each in (one, two))
        assert [(each.id, each.score) for each in first] == [(each.id, each.score) for each in second]


def test_one_document_alone_is_its_own_sample(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS[:1])
    assert [(each.id, each.stands_for) for each in collection.explore.diverse(1)] == [("a1", 1)]


@pytest.mark.parametrize("balance", [-0.1, 1.1, float("nan")])
def test_a_balance_out_of_range_is_refused(library: Library, balance: float) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    with pytest.raises(BadInputError, match="balance is"):
        collection.explore.diverse(balance=balance)


def test_an_empty_query_is_refused(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    with pytest.raises(BadInputError, match="the query is empty"):
        collection.explore.diverse(query="  ")


def test_a_refined_query_finds_what_a_search_for_it_finds(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    adapter = QueryAdapter(np.random.default_rng(3).normal(0, 1, (8, 8)).astype(np.float32))
    plain = collection.search("x yy", 3, mode="dense")
    with library.store.database.writing() as connection:
        collection_id = collection.snapshot().collection.id
        refinements.add(connection, collection_id, 1, Refinement(0, adapter, None, {}, ""))
        collections.changed(connection, collection_id)
    collection.snapshot()  # what another wrote may be searched a tenth of a second later
    hits = collection.search("x yy", 3, mode="dense")
    assert [hit.id for hit in hits] != [hit.id for hit in plain]
    found = collection.explore.diverse(3, query="x yy", balance=1.0)
    assert [(each.id, each.relevance) for each in found] == [
        (hit.id, pytest.approx(hit.score, abs=2e-6)) for hit in hits
    ]
