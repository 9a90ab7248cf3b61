"""The best answers over the windows of a context."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.training.bert.heads.example import (
    ExampleTokens,
    QuestionExample,
    QuestionLengths,
    question_examples,
)
from nearsay.training.bert.heads.reader import AnswerSpan, best_spans, null_score

LOW = -9.0


def windows(tokens: ExampleTokens, context: str, **lengths: int) -> list[QuestionExample]:
    return question_examples(tokens, [("x", context)], lengths=QuestionLengths(**lengths)).examples


def logits(row: QuestionExample, first: dict[int, float], last: dict[int, float]) -> NDArray[np.float32]:
    """Scores by the context's token in the window; -1 is [CLS]."""
    found = np.full((len(row.example), 2), LOW, dtype=np.float32)
    for column, scores in enumerate((first, last)):
        for token, score in scores.items():
            found[0 if token == -1 else row.context_from + token, column] = score
    return found


def test_a_span_scores_its_first_and_its_last_token(tokens: ExampleTokens) -> None:
    (row,) = windows(tokens, "the cats sat", row=16, question=4)  # the cat ##s sat
    scores = logits(row, {0: 1.0, 1: 2.0}, {2: 3.0, 3: 0.5})
    assert best_spans([row], [scores], longest=30, count=3) == [
        AnswerSpan(4, 8, 5.0),  # cats
        AnswerSpan(0, 8, 4.0),  # the cats
        AnswerSpan(4, 12, 2.5),  # cats sat
    ]


def test_answers_do_not_end_before_they_begin_and_are_not_too_long(tokens: ExampleTokens) -> None:
    (row,) = windows(tokens, "a b c d e", row=16, question=4)
    scores = logits(row, {3: 5.0, 0: 4.0}, {0: 0.5, 2: 3.0, 4: 0.0})
    assert best_spans([row], [scores], longest=30, count=1) == [AnswerSpan(0, 5, 7.0)]  # a b c
    assert best_spans([row], [scores], longest=2, count=1) == [AnswerSpan(6, 9, 5.0)]  # d e
    assert best_spans([row], [scores], longest=1, count=1) == [AnswerSpan(0, 1, 4.5)]  # a


def test_question_and_special_tokens_never_answer(tokens: ExampleTokens) -> None:
    (row,) = windows(tokens, "a b", row=16, question=4)
    scores = logits(row, {}, {})
    scores[:2] = scores[-1] = 50.0  # [CLS], the question, the last [SEP]
    assert {(span.start, span.end) for span in best_spans([row], [scores], longest=30, count=20)} == {
        (0, 1),
        (2, 3),
        (0, 3),
    }


def test_a_span_begins_where_its_window_sees_most(tokens: ExampleTokens) -> None:
    first, second = windows(tokens, "a b c d e f g h", row=10, step=3, question=1)
    assert (first.window.start, first.window.end, first.window.own_end) == (0, 6, 5)
    assert (second.window.start, second.window.end, second.window.own_start) == (3, 8, 5)
    # f is the first window's sixth token and the second window's third; the second one owns it.
    scores = [logits(first, {5: 9.0}, {5: 9.0}), logits(second, {2: 1.0}, {2: 1.0})]
    best = best_spans([first, second], scores, longest=1, count=1)
    assert best == [AnswerSpan(10, 11, 2.0)]


def test_a_span_that_two_windows_see_counts_once(tokens: ExampleTokens) -> None:
    rows = windows(tokens, "a b c d e f g h", row=10, step=3, question=1)
    found = best_spans(rows, [logits(row, {}, {}) for row in rows], longest=30, count=100)
    places = [(span.start, span.end) for span in found]
    assert len(places) == len(set(places))


def test_the_best_of_all_pairs_are_found(tokens: ExampleTokens) -> None:
    (row,) = windows(tokens, "a b c d e f g", row=16, question=4)
    scores = np.random.default_rng(0).normal(size=(len(row.example), 2)).astype(np.float32)
    first, last = scores[row.context_from : row.context_from + 7].T.astype(float)
    every = sorted(
        (-(first[i] + last[j]), 2 * i, 2 * j + 1) for i, j in product(range(7), repeat=2) if 0 <= j - i < 4
    )
    found = best_spans([row], [scores], longest=4, count=5)
    assert [(span.start, span.end) for span in found] == [(start, end) for _, start, end in every[:5]]
    assert [span.score for span in found] == pytest.approx([-score for score, _, _ in every[:5]])


def test_no_answer_scores_as_in_its_least_sure_window(tokens: ExampleTokens) -> None:
    rows = windows(tokens, "a b c d e f g h", row=10, step=3, question=1)
    scores = [logits(rows[0], {-1: 4.0}, {-1: 1.0}), logits(rows[1], {-1: 2.0}, {-1: 2.0})]
    assert null_score(scores) == 4.0
