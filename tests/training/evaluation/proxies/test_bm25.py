import re
from math import log

import bm25s
import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.proxies.panel import Bm25

TEXTS = ["the cat sat on the mat", "a dog", "the dog and the cat", "rain, rain, rain again in Spain"]
QUERIES = ["cat", "the dog", "RAIN rain", "elephants", ""]


def test_it_is_worked_by_hand() -> None:
    # "dog" is in 2 of 4 texts; the second text has 2 words of 20 in all.
    idf = log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    mean = (6 + 2 + 5 + 6) / 4
    assert Bm25(TEXTS).scores(["dog"])[0, 1] == pytest.approx(idf / (1 + 1.2 * (0.25 + 0.75 * 2 / mean)))


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (2.0, 0.0)])
def test_it_agrees_with_bm25s(k1: float, b: float) -> None:
    words = [re.findall(r"\w+", text.lower()) for text in TEXTS]
    theirs = bm25s.BM25(method="lucene", k1=k1, b=b)
    theirs.index(words, show_progress=False)
    ours = Bm25(TEXTS, k1=k1, b=b).scores(QUERIES)
    for query, scores in zip(QUERIES[:3], ours, strict=False):
        np.testing.assert_allclose(scores, theirs.get_scores(re.findall(r"\w+", query.lower())), rtol=1e-5)
    assert not ours[3:].any()


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(BadInputError, match="2 texts hold no words"):
        Bm25(["…", "!"])
