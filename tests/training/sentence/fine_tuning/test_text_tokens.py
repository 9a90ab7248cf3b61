"""Token numbers and guides' vectors of the texts that are trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.step_texts import GuideVectors, TextTokens
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer


@pytest.fixture
def tokens(tiny: Encoder) -> TextTokens:
    return TextTokens(TextTokenizer(tiny._tokens._whole, 5))


def test_each_text_has_the_numbers_of_its_tokenizer_cut_at_the_limit(tokens: TextTokens) -> None:
    tokens.add(["the cat", "dog", "the cat"])
    tokens.add(["the cat sat the mat", "dog"], "query ")
    assert tokens.count == 4  # a text with a prompt is another one
    assert tokens.truncated == 1
    (fresh,) = tokens.many(["the cat"])
    dog, cat = tokens.at(tokens.places(["dog", "the cat"]))
    assert cat.tolist() == fresh.tolist()
    assert len(cat) == 4
    cut, asked = tokens.at(tokens.places(["the cat sat the mat", "dog"], "query "))
    assert len(cut) == 5
    assert asked[2] == dog[1]


def test_a_text_that_was_not_added_is_an_error(tokens: TextTokens) -> None:
    with pytest.raises(KeyError):
        tokens.places(["never"])


def test_a_guide_encodes_each_text_once_as_what_it_is(table_encoder: Callable[..., Any]) -> None:
    guide = table_encoder({"a": [1, 0], "b": [0, 1], "c": [1, 1]})
    asked = [("a", TextKind.QUERY), ("b", TextKind.PASSAGE), ("a", TextKind.QUERY), ("a", TextKind.PASSAGE)]
    told: list[tuple[int, int]] = []
    vectors = GuideVectors(guide, asked, progress=lambda done, total: told.append((done, total)))
    assert guide.kinds == [TextKind.QUERY, TextKind.PASSAGE]
    assert told == [(1, 3), (3, 3)]
    found = vectors.of([("b", TextKind.PASSAGE), ("a", TextKind.QUERY)])
    np.testing.assert_array_equal(found, [[0, 1], [1, 0]])
    assert vectors.dimension == 2
