"""How alike texts are for an encoder."""

import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.app.ui.encoders.trying import cosines, explained


def test_cosines_are_those_worked_out_by_hand():
    # "a cat" is (1, 0, 1), "cat" (0, 0, 1), "a a" (2, 0, 0) before they are scaled.
    found = cosines(WordsEncoder(), ["a cat", "cat", "a a"])
    root = 1 / np.sqrt(2)
    np.testing.assert_allclose(found, [[1, root, root], [root, 1, 0], [root, 0, 1]], atol=1e-6)


def test_the_shares_of_both_texts_are_given(words):
    explanation = explained(words, "a cat", "one cat", 0.5)
    assert [word.text for word in explanation.query] == ["a", "cat"]
    assert [word.text for word in explanation.words] == ["one", "cat"]
    assert explanation.score == 0.5
    assert not explanation.exact  # the words encoder tells nothing of its tokens


@pytest.mark.parametrize("text", ["a", "naïve 日本"])
def test_a_text_is_the_same_as_itself(words, text):
    assert cosines(words, [text, text])[0, 1] == pytest.approx(1.0)
