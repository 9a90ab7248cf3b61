"""Exact match and F1 of answers, by the rules of SQuAD."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from nearsay.data.answered_questions import AnsweredQuestion
from nearsay.data.errors import BadInputError
from nearsay.data.report import Report

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class SquadReport(Report):
    """What a reader reached; means over the questions, 0 to 100, as the field reports them."""

    REPORT: ClassVar = "answers measured"

    questions: int
    exact_match: float
    f1: float
    with_answer: int  # questions that the context answers
    with_answer_exact_match: float | None  # None: there is no such question
    with_answer_f1: float | None
    without_answer: int
    without_answer_accuracy: float | None  # of which the reader said so; None: there is no such question


def normalised_answer(text: str) -> str:
    """An answer as it is compared: lower case, without ASCII punctuation, articles and spare blanks."""
    bare = _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))
    return " ".join(bare.split())


def exact_match(predicted: str, answers: Sequence[str]) -> float:
    """Return whether an answer is one of those that people gave, 1 or 0.

    answers: what people said; () means that there is no answer, which only "" matches
    """
    wanted = {normalised_answer(answer) for answer in answers} or {""}
    return float(normalised_answer(predicted) in wanted)


def answer_f1(predicted: str, answers: Sequence[str]) -> float:
    """Return the best overlap in words with one of the answers, 0 to 1.

    F1 = 2 · words in common / (words of the one + words of the other), each word as often as it occurs.
    An answer without words (none is there, or articles alone) matches only another one: 1 or 0, as SQuAD
    2.0's script has it.
    """
    return max((_overlap(predicted, answer) for answer in answers), default=_overlap(predicted, ""))


def evaluate_answers(questions: Sequence[AnsweredQuestion], predicted: Mapping[str, str]) -> SquadReport:
    """Score predicted answers, by question id; "" says that the context holds no answer.

    A question without a prediction counts as answered with "". Raises BadInputError when there are no
    questions. Where a question's answers are all empty after normalising, it has no answer, as in SQuAD 2.0.

    Rajpurkar et al. 2016, section 6.1, https://arxiv.org/abs/1606.05250; 2018,
    https://arxiv.org/abs/1806.03822; https://worksheets.codalab.org/worksheets/0x6b567e1cf2e041ec80d7098f031c5c9e
    """
    if not questions:
        raise BadInputError("there are no questions to score; give a file with some")
    exact: dict[bool, list[float]] = {True: [], False: []}
    overlap: dict[bool, list[float]] = {True: [], False: []}
    for question in questions:
        answers = [answer.text for answer in question.answers if normalised_answer(answer.text)]
        said = predicted.get(question.id, "")
        exact[bool(answers)].append(exact_match(said, answers))
        overlap[bool(answers)].append(answer_f1(said, answers))
    return SquadReport(
        questions=len(questions),
        exact_match=_percentage([*exact[True], *exact[False]]) or 0.0,
        f1=_percentage([*overlap[True], *overlap[False]]) or 0.0,
        with_answer=len(exact[True]),
        with_answer_exact_match=_percentage(exact[True]),
        with_answer_f1=_percentage(overlap[True]),
        without_answer=len(exact[False]),
        without_answer_accuracy=_percentage(exact[False]),
    )


def best_null_threshold(
    questions: Sequence[AnsweredQuestion],
    predicted: Mapping[str, str],
    null_differences: Mapping[str, float],
) -> float:
    """Choose the threshold of "there is no answer" that gives the highest F1.

    predicted:        the best span of each question, by id
    null_differences: score of "no answer" less the score of that span; above the threshold, "" is said
    returns: one of the differences, or 1 below the lowest where it is best to say nothing at all; of equals
             the lowest. 0 where there are no differences

    Devlin et al. 2019, section 4.3: "the threshold is selected on the dev set to maximize F1"
    """
    known = [question for question in questions if question.id in null_differences]
    if not known:
        return 0.0
    gains = []  # of saying the span instead of nothing
    total = 0.0
    for question in known:
        answers = [answer.text for answer in question.answers if normalised_answer(answer.text)]
        nothing = answer_f1("", answers)
        total += nothing
        gains.append((null_differences[question.id], answer_f1(predicted[question.id], answers) - nothing))
    gains.sort()
    best, best_total = gains[0][0] - 1.0, total  # nothing is said to any question
    for place, (difference, gain) in enumerate(gains):
        total += gain
        last_of_equals = place + 1 == len(gains) or gains[place + 1][0] > difference
        if last_of_equals and total > best_total:
            best, best_total = difference, total
    return best


def _percentage(figures: Sequence[float]) -> float | None:
    return 100 * sum(figures) / len(figures) if figures else None


def _overlap(predicted: str, answer: str) -> float:
    said, wanted = normalised_answer(predicted).split(), normalised_answer(answer).split()
    if not said or not wanted:
        return float(said == wanted)
    common = (Counter(said) & Counter(wanted)).total()
    return 2 * common / (len(said) + len(wanted))
