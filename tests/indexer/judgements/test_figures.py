"""How likely answers are among hits, against the formula by hand, and where answers are missing."""

import numpy as np
import pytest

from nearsay.indexer import Collection, Library
from nearsay.indexer.judgements.figures import answers_of, log_likelihoods


@pytest.fixture
def letters(library: Library) -> Collection:
    collection = library.collection("letters")
    collection.add_rows(
        [{"id": id_, "text": text} for id_, text in (("a", "bb cc"), ("b", "ddd"), ("c", "e"))]
    )
    return collection


def test_it_is_the_mean_logarithm_of_the_softmax_of_all_scores(letters: Collection) -> None:
    hits = letters.search("bb", 3)
    scores = {hit.id: hit.score for hit in hits}
    assert set(scores) == {"a", "b", "c"}
    shares = np.exp(20 * np.array([scores["a"], scores["b"], scores["c"]]))
    shares /= shares.sum()
    anything = np.zeros(3, dtype=np.float32)
    answers = [{("a", 0): anything, ("c", 0): anything}, {("b", 0): anything}]
    found = log_likelihoods([hits, hits], np.zeros((2, 3), dtype=np.float32), answers)
    assert found == pytest.approx([np.log(shares[[0, 2]]).mean(), np.log(shares[1])])


def test_an_answer_that_was_not_found_counts_by_its_cosine(letters: Collection) -> None:
    hits = letters.search("bb", 1)
    query = np.array([0.6, 0.8], dtype=np.float32)
    answer = np.array([0.0, 1.0], dtype=np.float32)
    (found,) = log_likelihoods([hits], query[None, :], [{("elsewhere", 0): answer}])
    assert found == pytest.approx(20 * 0.8 - np.logaddexp(20 * 0.8, 20 * hits[0].score), abs=1e-5)
    assert log_likelihoods([hits], query[None, :], [{}]).tolist() == [0.0]


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
