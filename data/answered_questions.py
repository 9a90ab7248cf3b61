"""Extractive question answering files in SQuAD's format."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError, text_of
from nearsay.data.row_files import file_lines

_SHOWN: Final = 40  # characters of a text in a message
_LONGEST: Final = 2**32  # bytes of a line: the whole of SQuAD is one


@dataclass(frozen=True, slots=True)
class Answer:
    """A span of the context."""

    text: str
    start: int  # index of its first character in the context


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with its context and reference answers."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]  # () = the context contains no answer (SQuAD 2.0)

    @property
    def has_answer(self) -> bool:
        """Whether the context contains an answer."""
        return bool(self.answers)


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """A file of questions with their answers."""

    source: str  # the file as the user gave it
    sha256: str  # of the file, hexadecimal; the data hash of a run
    questions: list[AnsweredQuestion]

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def some_have_no_answer(self) -> bool:
        """Whether there are unanswerable questions, as in SQuAD 2.0."""
        return any(not question.has_answer for question in self.questions)


def read_answered_questions(path: str | Path) -> AnsweredQuestions:
    """Read a JSON file (or its .gz) in the format of SQuAD 1.1 or 2.0.

    A question with `is_impossible` has no answer; its plausible answers are ignored. Raises BadInputError,
    naming the question, if an answer is not in the context at its position, and for any other error.

    Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250, and 2018, https://arxiv.org/abs/1806.03822
    """
    content = _parsed(path)
    questions: list[AnsweredQuestion] = []
    seen: set[str] = set()
    for a, article in enumerate(_list(content, "data", f"{path}")):
        for p, paragraph in enumerate(_list(article, "paragraphs", f"{path}: data[{a}]")):
            place = f"{path}: data[{a}].paragraphs[{p}]"
            context = _text(paragraph, "context", place)
            for question in _questions(paragraph, context, place):
                if question.id in seen:
                    raise BadInputError(
                        f"{place}: the id {question.id!r} occurs twice; give each question its own"
                    )
                seen.add(question.id)
                questions.append(question)
    if not questions:
        raise BadInputError(f"{path} holds no questions; give a file in SQuAD's format")
    return AnsweredQuestions(str(path), file_sha256(Path(path)), questions)


def _parsed(path: str | Path) -> object:
    text = "\n".join(line for _, line in file_lines(path, longest=_LONGEST))
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"{path}:{error.lineno}: not JSON: {error.msg} at column {error.colno}; "
            "give a file in SQuAD's format"
        ) from error
    except (RecursionError, ValueError) as error:
        raise BadInputError(f"{path}: not JSON that can be read; give a file in SQuAD's format") from error


def _questions(paragraph: object, context: str, place: str) -> Iterator[AnsweredQuestion]:
    for q, entry in enumerate(_list(paragraph, "qas", place)):
        here = f"{place}.qas[{q}]"
        row_id = _field(entry, "id", here)
        if isinstance(row_id, int) and not isinstance(row_id, bool):
            row_id = str(row_id)
        if not isinstance(row_id, str) or not row_id:
            raise BadInputError(f"{here}: no 'id'; give each question an id of its own")
        where = f"{here} (id {row_id})"
        question = _text(entry, "question", where)
        impossible = _field(entry, "is_impossible", where, default=False)
        if not isinstance(impossible, bool):
            raise BadInputError(f"{where}: is_impossible is {impossible!r}; write true or false")
        answers: tuple[Answer, ...] = ()
        if not impossible:
            answers = tuple(_answer(answer, context, where) for answer in _list(entry, "answers", where))
            if not answers:
                raise BadInputError(
                    f"{where}: it has no answers; add one, or say is_impossible when the text holds none"
                )
        yield AnsweredQuestion(row_id, question, context, answers)


def _answer(entry: object, context: str, where: str) -> Answer:
    text = _text(entry, "text", where)
    start = _field(entry, "answer_start", where)
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise BadInputError(
            f"{where}: answer_start is {start!r}; give the character of the context where the answer begins"
        )
    there = context[start : start + len(text)]
    if there != text:
        raise BadInputError(
            f"{where}: the context says {_short(there)} at answer_start {start}, not {_short(text)}; "
            f"{_remedy(text, context, start)}"
        )
    return Answer(text, start)


def _remedy(text: str, context: str, start: int) -> str:
    places = [place for place in range(len(context)) if context.startswith(text, place)]
    if not places:
        return "the answer is not in the context: fix its text, or remove the question"
    return f"the nearest occurrence is at {min(places, key=lambda place: abs(place - start))}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _field(value: object, name: str, place: str, *, default: object = None) -> object:
    if not isinstance(value, Mapping):
        raise BadInputError(f"{place}: no JSON object where one is meant; give a file in SQuAD's format")
    return value.get(name, default)


def _list(value: object, name: str, place: str) -> list[object]:
    found = _field(value, name, place)
    if not isinstance(found, list):
        raise BadInputError(f"{place}: no list {name!r}; give a file in SQuAD's format")
    return found


def _text(value: object, name: str, place: str) -> str:
    try:
        return text_of(_field(value, name, place), repr(name))
    except UnusableRowError as error:
        raise BadInputError(f"{place}: {error}; fix or remove it") from error
