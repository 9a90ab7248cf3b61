"""The passages of a collection that are least like any other."""

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.vectors.progress import Progress

# (1, 1, 0), (2, 1, 0) and (1, 2, 0) lie together; (0, 0, 1) is alone.
ROWS = [
    {"id": "near", "text": "a bb", "kind": "x"},
    {"id": "twice", "text": "a a bb", "kind": "x"},
    {"id": "other", "text": "a bb bb", "kind": "y"},
    {"id": "alone", "text": "ccc", "kind": "y"},
]


def test_the_loneliest_come_first_with_what_is_nearest_to_them(either_library: Library) -> None:
    collection = either_library.collection("texts")
    collection.add_rows(ROWS)
    found = collection.explore.outliers()
    # Means over all three others: alone 0; twice (3/√10 + 4/5) / 3, other the same; near 6/√10 / 3.
    assert [(each.rank, each.id) for each in found] == [(1, "alone"), (2, "other"), (3, "twice"), (4, "near")]
    far = (3 / 10**0.5 + 0.8) / 3
    assert [each.score for each in found] == pytest.approx([0, far, far, 2 / 10**0.5], abs=1e-6)
    assert (found[1].text, found[1].metadata, found[1].passage) == ("a bb bb", {"kind": "y"}, 0)
    nearest = found[1].nearest
    assert nearest is not None
    assert (nearest.id, nearest.text, nearest.cosine) == (
        "near",
        "a bb",
        pytest.approx(3 / 10**0.5, abs=1e-6),
    )
    assert found.looked_at == 4
    assert found.notes == (
        Naming("4 of the 20", "only 4"),
        Naming("only 3 passages", "other documents"),
    )


def test_passages_of_the_same_document_do_not_hide_each_other(library: Library) -> None:
    collection = library.collection("texts", chunking="sentences")
    collection.add_rows([*ROWS[:3], {"id": "alone", "text": "Ccc. Ccc. Ccc."}])
    found = collection.explore.outliers(3)
    # The full stop is a word of one letter: (1, 0, 1) with (2, 1, 0), say, is 2/√10.
    assert [(each.id, each.passage) for each in found] == [("alone", 0), ("alone", 1), ("alone", 2)]


def test_a_filter_says_what_is_compared(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    found = collection.explore.outliers(1, "kind = 'x'")
    assert [(each.id, each.score) for each in found] == [("near", pytest.approx(3 / 10**0.5, abs=1e-6))]
    assert found.looked_at == 2
    nothing = collection.explore.outliers(where="kind = 'z'")
    assert (list(nothing), nothing.notes) == ([], (Naming("nothing found", "filter"),))


def test_the_order_of_adding_says_nothing(library: Library) -> None:
    rows = [*ROWS, {"id": "again", "text": "a bb bb", "kind": "z"}]
    one, two = library.collection("one"), library.collection("two")
    one.add_rows(rows)
    two.add_rows(rows[::-1])
    assert list(one.explore.outliers()) == list(two.explore.outliers())


def test_removed_documents_are_no_company(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    collection.remove(["near"])
    assert [each.id for each in collection.explore.outliers(1)] == ["alone"]
    assert collection.explore.outliers(4).looked_at == 3


def test_an_empty_collection_is_said_to_be_empty(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    collection.remove([row["id"] for row in ROWS])
    said = "nothing found: 'texts' holds no passages. Add some: nearsay documents add texts FILE"
    assert collection.explore.outliers().notes == (said,)
    assert collection.explore.diverse().notes == (said,)


@pytest.mark.parametrize("explore", ["outliers", "diverse", "new_since"])
def test_what_is_removed_while_it_is_looked_for_is_said(library: Library, explore: str) -> None:
    collection = library.collection("texts")
    collection.add_rows([{**row, "year": 2020 if row["id"] == "alone" else 2010} for row in ROWS])

    def remove(_: Progress) -> None:
        if "alone" in {document.id for document in collection.documents()}:
            collection.remove(["alone"])

    since = {"when": "2020", "field": "year"} if explore == "new_since" else {}
    found = getattr(collection.explore, explore)(count=4, progress=remove, **since)
    assert Naming(f"1 of the {1 if since else 4}", "removed") in found.notes


def test_one_document_alone_cannot_be_an_outlier(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS[:1])
    with pytest.raises(BadInputError, match="one document"):
        collection.explore.outliers()


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_count_out_of_range_is_refused(library: Library, count: int) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    with pytest.raises(BadInputError, match=f"count is {count}"):
        collection.explore.outliers(count)
