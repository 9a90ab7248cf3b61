"""How likely answers are among hits, against the formula by hand, and where answers are missing."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.indexer import Collection, Library
from nearsay.indexer.judgements.figures import Choices, answers_of, log_likelihoods
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextKind


@pytest.fixture
def letters(library: Library) -> Collection:
    collection = library.collection("letters")
    collection.add_rows(
        [{"id": id_, "text": text} for id_, text in (("a", "bb cc"), ("b", "ddd"), ("c", "e"))]
    )
    return collection


def asked(collection: Collection, text: str) -> NDArray[np.float32]:
    encoder = collection.library.encoder(collection.snapshot().generation.encoder.source)
    vector: NDArray[np.float32] = unit_length(encoder.encode([text], kind=TextKind.QUERY))[0]
    return vector


def test_it_is_the_mean_logarithm_of_the_softmax_of_all_scores(letters: Collection) -> None:
    hits = letters.search("bb", 3, mode="hybrid", with_vectors=True)
    query = asked(letters, "bb")
    scores = {hit.id: hit.score for hit in hits}
    assert set(scores) == {"a", "b", "c"}
    assert hits[0].score > float(hits[0].vector @ query) + 0.01  # words add something
    shares = np.exp(20 * np.array([scores["a"], scores["b"], scores["c"]]))
    shares /= shares.sum()
    vectors = {hit.id: hit.vector for hit in hits}
    both = Choices.of(hits, query, {("a", 0): vectors["a"], ("c", 0): vectors["c"]})
    assert both.log_likelihood(query) == pytest.approx(np.log(shares[[0, 2]]).mean(), abs=1e-5)
    words = scores["a"] - float(vectors["a"] @ query)  # stays when the query moves, the cosines change
    moved = 20 * np.array([words, 0, 1])
    expected = moved[[0, 2]].mean() - np.logaddexp.reduce(moved)
    assert log_likelihoods([both], vectors["c"][None, :]) == pytest.approx([expected], abs=1e-5)


def test_an_answer_that_was_not_found_counts_by_its_cosine(letters: Collection) -> None:
    hits = letters.search("bb", 1, with_vectors=True)
    query = asked(letters, "bb")
    answer = -query
    found = Choices.of(hits, query, {("elsewhere", 0): answer}).log_likelihood(query)
    assert found == pytest.approx(-20 - np.logaddexp(-20, 20 * hits[0].score), abs=1e-4)
    assert Choices.of(hits, query, {}).log_likelihood(query) == 0.0


def test_answers_are_the_relevant_passages_that_are_there(letters: Collection) -> None:
    judged = {"one": {("a", 0): True, ("b", 0): False}, "two": {("gone", 0): True, ("c", 7): True}}
    snapshot = letters.snapshot()
    of_one, of_two = answers_of(letters.library.store, snapshot, judged)
    assert [*of_one] == [("a", 0)]
    hit = letters.search("bb cc", 1, with_vectors=True)[0]
    assert (hit.id, hit.passage) == ("a", 0)
    assert hit.vector is not None
    assert of_one["a", 0].tolist() == hit.vector.tolist()
    assert of_two == {}
