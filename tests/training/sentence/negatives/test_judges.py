"""An encoder as judge."""

from typing import Any

import numpy as np

from nearsay.training.sentence.negatives.cross_encoder import EncoderJudge
from nearsay.training.sentence.text_encoder import TextKind

TABLE = {"a": (2.0, 0.0), "b": (0.6, 0.8), "c": (0.0, 3.0)}


def test_the_score_is_the_cosine_whatever_the_lengths(table_encoder: type) -> None:
    judge = EncoderJudge(table_encoder(TABLE))
    scores = judge.scores([("a", "b"), ("c", "b"), ("a", "c"), ("b", "a")])
    np.testing.assert_allclose(scores, [0.6, 0.8, 0.0, 0.6], atol=1e-6)
    assert scores.dtype == np.float32
    assert judge.name == "table"


def test_anchors_are_queries_texts_are_passages_and_each_is_encoded_once(words: Any) -> None:
    kinds: list[TextKind] = []
    stream = words.stream
    words.stream = lambda windows, kind: (kinds.append(kind), stream(windows, kind=kind))[1]
    judge = EncoderJudge(words)
    judge.scores([("one two", "three"), ("one two", "four"), ("six", "three")])
    judge.scores([("six", "three"), ("one two", "four")])
    assert kinds == [TextKind.QUERY, TextKind.PASSAGE]
    assert words.encoded == ["three", "four"]


def test_no_pairs_have_no_scores(words: Any) -> None:
    assert EncoderJudge(words).scores([]).shape == (0,)
