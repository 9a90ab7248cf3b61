"""The search."""

import sys

import numpy as np
import pytest

from nearsay.data.errors import MissingExtraError
from nearsay.training.evaluation.retrieval import nearest
from nearsay.training.sentence.negatives.mining import nearest_texts


def unit(rows: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_rows_and_scores_are_those_of_all_products_sorted() -> None:
    anchors, corpus = unit(7, 0), unit(300, 1)
    rows, scores = nearest_texts(anchors, corpus, 20)
    np.testing.assert_array_equal(rows, np.stack(list(nearest(anchors, corpus, depth=20))))
    np.testing.assert_allclose(scores, np.take_along_axis(anchors @ corpus.T, rows, axis=1), atol=1e-6)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_a_small_corpus_gives_all_it_has() -> None:
    rows, scores = nearest_texts(unit(2, 0), unit(3, 1), 20)
    assert rows.shape == scores.shape == (2, 3)


def test_equal_scores_come_in_the_order_of_their_rows() -> None:
    corpus = np.tile(np.array([[0.6, 0.8], [0.8, 0.6]], dtype=np.float32), (3, 1))
    rows, scores = nearest_texts(np.array([[1.0, 0.0]], dtype=np.float32), corpus, 6)
    assert rows.tolist() == [[1, 3, 5, 0, 2, 4]]
    np.testing.assert_allclose(scores, [[0.8, 0.8, 0.8, 0.6, 0.6, 0.6]])


def test_without_faiss_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"Mining hard negatives needs.*nearsay\[cpu\]"):
        nearest_texts(unit(1, 0), unit(2, 1), 1)
