import numpy as np
import pytest

from nearsay.indexer.query.explain import share_out
from nearsay.training.sentence.contributing import TextContributions


def contributions(
    vectors: list[list[float]], spans: list[tuple[int, int]], *, whole: bool = True
) -> TextContributions:
    constant = np.array([0.0, 1.0])
    return TextContributions(np.array(vectors), constant, np.array(spans).reshape(-1, 2), True, whole)


def test_a_score_is_the_sum_of_the_parts_worked_out_by_hand() -> None:
    # The vector is (3, 4), its length 5; the query points along the first axis, so the cosine is 3/5.
    parts = contributions([[0.5, 1], [2, 0], [1, 0], [-0.5, 2]], [(0, 0), (0, 3), (3, 5), (6, 9)])
    shared = share_out("catty dog", parts, np.array([1.0, 0.0]))
    assert [(part.start, part.end) for part in shared.parts] == [(0, 5), (6, 9)]
    assert [part.share for part in shared.parts] == pytest.approx([3 / 5, -0.5 / 5])
    assert shared.rest == pytest.approx(0.5 / 5)
    assert shared.score == pytest.approx(3 / 5)
    assert shared.seen == 9


def test_the_constant_is_in_the_rest() -> None:
    shared = share_out("cat", contributions([[3, 3]], [(0, 3)]), np.array([0.0, 1.0]))
    assert shared.parts[0].share == pytest.approx(3 / 5)
    assert shared.rest == pytest.approx(1 / 5)


def test_a_text_that_was_cut_is_seen_to_its_last_token() -> None:
    parts = contributions([[1, 0], [1, 0], [1, 0]], [(0, 0), (0, 3), (0, 0)], whole=False)
    assert share_out("cat and dog", parts, np.array([1.0, 0.0])).seen == 3


def test_words_are_told_in_the_stretch_of_text_that_they_stand_in() -> None:
    parts = contributions([[1, 0], [2, 0], [3, 0]], [(0, 1), (2, 5), (6, 9)])
    shared = share_out("A cat sat", parts, np.array([1.0, 0.0]))
    assert [(word.text, word.start, word.end) for word in shared.within(2, 9)] == [
        ("cat", 0, 3),
        ("sat", 4, 7),
    ]
    assert [word.text for word in shared.within(0, 2)] == ["A"]


def test_a_word_that_a_token_carries_over_the_border_is_told_where_it_begins() -> None:
    shared = share_out("ab cd", contributions([[1, 0]], [(0, 5)]), np.array([1.0, 0.0]))
    assert [(word.text, word.end) for word in shared.within(0, 3)] == [("ab ", 3)]
    assert shared.within(3, 5) == ()
