"""Exact match and F1 of answers."""

import pytest

from nearsay.data.answered_questions import Answer, AnsweredQuestion
from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.squad import (
    SquadReport,
    answer_f1,
    best_null_threshold,
    evaluate_answers,
    exact_match,
    normalised_answer,
)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("The  Blue, cat!", "blue cat"),
        ("a-b c", "ab c"),
        ("An apple a day", "apple day"),
        ("theatre another", "theatre another"),
        ("«Été»", "«été»"),  # only ASCII punctuation goes
        ("U.S.", "us"),
        ("the", ""),
    ],
)
def test_answers_are_compared_without_case_punctuation_and_articles(text: str, bare: str) -> None:
    assert normalised_answer(text) == bare


def test_exact_match_is_with_any_answer() -> None:
    assert exact_match("the Cat.", ["dog", "cat"]) == 1.0
    assert exact_match("cats", ["dog", "cat"]) == 0.0


def test_f1_counts_words_as_often_as_they_occur_and_takes_the_best_answer() -> None:
    # "cat cat sat" and "cat sat sat": cat once and sat once are common: 2·2/(3+3)
    assert answer_f1("cat cat sat", ["cat sat sat"]) == pytest.approx(2 / 3)
    assert answer_f1("blue cat", ["red dog", "the big blue cat"]) == pytest.approx(2 * 2 / (2 + 3))
    assert answer_f1("blue", ["red"]) == 0.0


@pytest.mark.parametrize(
    ("said", "answers", "right"),
    [("", [], 1.0), ("the", [], 1.0), ("cat", [], 0.0), ("", ["cat"], 0.0), ("", ["the"], 1.0)],
)
def test_saying_nothing_is_right_where_there_is_no_answer(
    said: str, answers: list[str], right: float
) -> None:
    assert exact_match(said, answers) == right
    assert answer_f1(said, answers) == right


def question(name: str, *answers: str) -> AnsweredQuestion:
    return AnsweredQuestion(name, "?", "context", tuple(Answer(text, 0) for text in answers))


def test_a_report_is_in_percent_and_splits_by_whether_there_is_an_answer() -> None:
    questions = [question("1", "blue cat"), question("2", "dog"), question("3"), question("4")]
    report = evaluate_answers(questions, {"1": "cat", "2": "The dog", "3": "", "4": "x", "other": "y"})
    assert report == SquadReport(
        questions=4,
        exact_match=50.0,
        f1=pytest.approx(100 * (2 / 3 + 1 + 1 + 0) / 4),
        with_answer=2,
        with_answer_exact_match=50.0,
        with_answer_f1=pytest.approx(100 * (2 / 3 + 1) / 2),
        without_answer=2,
        without_answer_accuracy=50.0,
    )


def test_a_question_that_was_not_answered_counts_as_wrong() -> None:
    report = evaluate_answers([question("1", "cat"), question("2", "dog")], {"1": "cat"})
    assert report.exact_match == 50.0
    assert (report.without_answer, report.without_answer_accuracy) == (0, None)


def test_no_questions_are_refused() -> None:
    with pytest.raises(BadInputError, match="no questions"):
        evaluate_answers([], {})


def test_the_threshold_is_where_saying_nothing_to_the_rest_gains_most() -> None:
    questions = [question("1", "cat"), question("2"), question("3", "dog"), question("4")]
    said = {"1": "cat", "2": "x", "3": "dog", "4": "y"}
    # From the surest span: 1 right, then 3 right, then 2 and 4 are better left unanswered.
    differences = {"1": -5.0, "3": -1.0, "2": 0.5, "4": 3.0}
    assert best_null_threshold(questions, said, differences) == -1.0
    # Question 3 is behind 2: taking both gains as much as it loses, so the lower threshold stays.
    assert best_null_threshold(questions, said, {**differences, "3": 1.0}) == -5.0


def test_equal_differences_are_on_one_side() -> None:
    questions = [question("1", "cat"), question("2"), question("3")]
    said = {"1": "cat", "2": "x", "3": "y"}
    assert best_null_threshold(questions, said, dict.fromkeys("123", 2.0)) == 1.0  # say nothing at all
    assert best_null_threshold(questions[:1], said, {"1": 2.0}) == 2.0
    assert best_null_threshold(questions, said, {}) == 0.0
