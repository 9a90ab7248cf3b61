"""Token numbers and guides' vectors of the texts that are trained on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nearsay.data.sentence_examples.text_rows import TextRows
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.step_texts import GuideVectors, TextTokens
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer


@pytest.fixture
def tokenizer(tiny: Encoder) -> TextTokenizer:
    return TextTokenizer(tiny._tokens._whole, 5)


def test_each_text_has_the_numbers_of_its_tokenizer_cut_at_the_limit(tokenizer: TextTokenizer) -> None:
    rows = TextRows.of([("the cat", "the cat sat the mat"), ("dog", "dog"), ("the cat", "dog")], 2)
    tokens = TextTokens(tokenizer, rows, ["", "query "])
    assert tokens.count == 4  # a text with a prompt is another one
    assert tokens.truncated == 1
    first, second = tokens.of(np.array([2, 0, 1]))
    (fresh,) = tokens.fresh(["the cat"], 0)
    assert first[0].tolist() == first[1].tolist() == fresh.tolist()
    assert len(first[0]) == 4
    assert len(second[1]) == 5
    assert second[0].tolist() == second[2].tolist()
    assert second[2][2] == first[2][1]


def test_a_row_that_is_not_there_is_an_error(tokenizer: TextTokenizer) -> None:
    with pytest.raises(IndexError):
        TextTokens(tokenizer, TextRows.of([("a",)], 1), [""]).of(np.array([1]))


def test_a_text_in_two_columns_of_one_prompt_is_tokenized_once(tokenizer: TextTokenizer) -> None:
    tokens = TextTokens(tokenizer, TextRows.of([("a", "b"), ("b", "c"), ("c", "a")], 2), ["", ""])
    assert tokens.count == 3
    columns = [[ids.tolist() for ids in column] for column in tokens.of(np.arange(3))]
    assert columns[1] == [*columns[0][1:], columns[0][0]]


def test_a_guide_encodes_each_text_once_as_what_it_is(table_encoder: Callable[..., Any]) -> None:
    guide = table_encoder({"a": [1, 0], "b": [0, 1], "c": [1, 1]})
    rows = TextRows.of([("a", "b"), ("a", "a"), ("a", "b")], 2)
    told: list[tuple[int, int]] = []
    kinds = [TextKind.QUERY, TextKind.PASSAGE]
    vectors = GuideVectors(guide, rows, kinds, progress=lambda done, total: told.append((done, total)))
    assert guide.kinds == [TextKind.QUERY, TextKind.PASSAGE]
    assert told == [(1, 3), (3, 3)]
    found = vectors.of(np.array([2, 1]), [0, 1])
    np.testing.assert_array_equal(found, [[1, 0], [1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(vectors.of(np.array([0]), [1]), [[0, 1]])
    assert vectors.dimension == 2
