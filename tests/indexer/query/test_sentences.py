import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.indexer.query.explain import best_sentences
from nearsay.indexer.query.hit import BestSentence

QUERY = np.eye(8)[2]  # words of three letters


def test_the_nearest_sentence_of_each_passage_is_found(words: WordsEncoder) -> None:
    texts = ["Some tall oak. An elm. Such trees stand here.", "Only this one.", "The oak. Tall trees grow."]
    first, second, third = best_sentences(words, QUERY, texts)
    # "An elm." has a word of two letters, one of three and a point: cosine 1/√3
    assert first == BestSentence("An elm.", 15, 22, pytest.approx(3**-0.5))
    assert second is None
    assert third == BestSentence("The oak.", 0, 8, pytest.approx(2 / 5**0.5))


def test_all_sentences_are_encoded_at_once(words: WordsEncoder) -> None:
    best_sentences(words, QUERY, ["The oak. The elm.", "The oak. A tree."])
    assert words.encoded == ["The oak.", "The elm.", "The oak.", "A tree."]


def test_nothing_is_encoded_where_no_passage_has_two_sentences(words: WordsEncoder) -> None:
    assert best_sentences(words, QUERY, ["Only this one.", "", "  "]) == [None, None, None]
    assert words.encoded == []


def test_sentence_ends_are_those_of_the_language(words: WordsEncoder) -> None:
    (found,) = best_sentences(words, QUERY, ["今日は晴れ。 明日は雨。"], language="ja")
    assert found is not None
    assert found.text in {"今日は晴れ。", "明日は雨。"}
