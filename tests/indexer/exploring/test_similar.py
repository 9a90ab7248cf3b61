"""Like these and not like those."""

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.exploring.similar import AWAY, rocchio
from nearsay.indexer.vectors.errors import UnknownDocumentError


@pytest.fixture
def collection(library: Library) -> Collection:
    """Texts along the axes, and between them: e1, e2, e3, (e1+e2)/√2, (e1+e3)/√2, (e2+e3)/√2."""
    collection = library.collection("texts")
    texts = {"one": "a", "two": "bb", "three": "ccc", "12": "a bb", "13": "a ccc", "23": "bb ccc"}
    collection.add_rows([{"id": id_, "text": text} for id_, text in texts.items()])
    return collection


def test_several_documents_are_taken_by_their_mean(collection: Collection) -> None:
    hits = collection.similar(["one", "two"], 2)
    # (e1 + e2)/√2 is "12" itself; 1/2 with the two that share one of the axes.
    assert [hit.id for hit in hits] == ["12", "13"]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.5], abs=1e-6)


def test_those_that_are_not_wanted_push_away(collection: Collection) -> None:
    hits = collection.similar("12", 9, without="two", away=0.5)
    # e1/√2 + (1/√2 - 1/2) e2 has length √(1/2 + (1/√2 - 1/2)²).
    rest = 0.5**0.5 - 0.5
    length = (0.5 + rest**2) ** 0.5
    expected = {"one": 0.5**0.5 / length, "13": 0.5 / length, "23": rest * 0.5**0.5 / length, "three": 0.0}
    assert [hit.id for hit in hits] == list(expected)
    assert [hit.score for hit in hits] == pytest.approx(list(expected.values()), abs=1e-6)


def test_the_usual_weight_is_a_third_of_a_mean() -> None:
    axes = np.eye(3, dtype=np.float32)
    found = rocchio(axes[:2], axes[2:], AWAY)
    # (1/2, 1/2, -0.3) over √0.59
    assert found.tolist() == pytest.approx([0.5 / 0.59**0.5, 0.5 / 0.59**0.5, -0.3 / 0.59**0.5], abs=1e-6)


def test_more_weight_moves_farther_away_and_none_does_not_move() -> None:
    wanted = np.array([[0.6, 0.8]], dtype=np.float32)
    unwanted = np.array([[0.0, 1.0]], dtype=np.float32)
    cosines = [float(rocchio(wanted, unwanted, away) @ unwanted[0]) for away in (0.0, 0.2, 0.5, 1.0)]
    assert cosines[0] == pytest.approx(0.8)
    assert cosines == sorted(cosines, reverse=True)
    assert len(set(cosines)) == 4


def test_documents_on_neither_side_are_found(collection: Collection) -> None:
    found = {hit.id for hit in collection.similar(["one", "two"], 9, without=["three", "23"])}
    assert found == {"12", "13"}


def test_without_weight_they_are_only_left_out(collection: Collection) -> None:
    plain = {hit.id: hit.score for hit in collection.similar("one", 9)}
    left_out = {hit.id: hit.score for hit in collection.similar("one", 9, without=["12"], away=0)}
    assert left_out == {id_: score for id_, score in plain.items() if id_ != "12"}


def test_an_id_named_twice_counts_once_and_the_order_says_nothing(collection: Collection) -> None:
    first = collection.similar(["one", "two", "one"], 9, without=["three", "13"])
    second = collection.similar(["two", "one"], 9, without=["13", "three", "13"])
    assert [(hit.id, hit.score) for hit in first] == [(hit.id, hit.score) for hit in second]


def test_an_id_on_both_sides_is_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError) as raised:
        collection.similar(["one", "two"], without=["two"])
    assert str(raised.value) == Naming("'two'", "wanted", "unwanted")


def test_unknown_documents_are_named_on_either_side(collection: Collection) -> None:
    with pytest.raises(UnknownDocumentError, match="has no document 'x'"):
        collection.similar(["one", "x"])
    with pytest.raises(UnknownDocumentError, match="has no document 'y'"):
        collection.similar("one", without=["two", "y"])


def test_vectors_that_cancel_out_are_said(collection: Collection) -> None:
    collection.add_rows([{"id": "again", "text": "a"}])
    with pytest.raises(BadInputError, match=r"cancel .*less weight"):
        collection.similar("one", without="again", away=1.0)
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]], dtype=np.float32)
    with pytest.raises(BadInputError, match=r"cancel .*other documents"):
        rocchio(opposite, None, AWAY)


@pytest.mark.parametrize("away", [-0.1, 11.0, float("nan")])
def test_a_weight_out_of_range_is_refused(collection: Collection, away: float) -> None:
    with pytest.raises(BadInputError, match="away is"):
        collection.similar("one", without="two", away=away)


def test_nothing_to_start_from_is_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError, match="at least one id"):
        collection.similar([], without=["one"])
