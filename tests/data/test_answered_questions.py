"""Reading questions with the spans that answer them."""

import json
from collections.abc import Callable

import pytest

from nearsay.data import row_files
from nearsay.data.answered_questions import Answer, AnsweredQuestion, read_answered_questions
from nearsay.data.errors import BadInputError

Write = Callable[[str, str | bytes], str]
CONTEXT = "Ada 😀 wrote notes. Notes 😀 stay."


def asked(context: str = CONTEXT, **question: object) -> str:
    entry: dict[str, object] = {
        "id": "q1",
        "question": "Who?",
        "answers": [{"text": "Ada", "answer_start": 0}],
    }
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [entry | question]}]}]})


def answered(text: str, start: object) -> dict[str, object]:
    return {"answers": [{"text": text, "answer_start": start}]}


def test_a_question_is_read_with_all_its_answers(write: Write) -> None:
    answers = [{"text": "notes", "answer_start": 12}, {"text": "Notes", "answer_start": 19}]
    found = read_answered_questions(write("a.json", asked(answers=answers)))
    assert found.questions == [
        AnsweredQuestion("q1", "Who?", CONTEXT, (Answer("notes", 12), Answer("Notes", 19)))
    ]
    assert found.questions[0].has_answer
    assert not found.some_have_no_answer


@pytest.mark.parametrize("name", ["a.json.gz", "a.json"])
def test_a_question_without_an_answer_says_so(write: Write, name: str) -> None:
    plausible = [{"text": "Ada", "answer_start": 0}]
    content = asked(is_impossible=True, answers=[], plausible_answers=plausible)
    found = read_answered_questions(write(name, content))
    assert found.questions[0].answers == ()
    assert found.some_have_no_answer


def test_a_file_over_many_lines_and_with_a_byte_order_mark_is_read(write: Write) -> None:
    spread = json.dumps(json.loads(asked()), indent=1)
    assert len(read_answered_questions(write("a.json", b"\xef\xbb\xbf" + spread.encode())).questions) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            asked(**answered("notes", 11)),
            (r"a\.json: data\[0\]\.paragraphs\[0\]\.qas\[0\] \(id q1\): .*' note' .*\b11, not 'notes'.*\b12"),
        ),
        (asked(**answered("novel", 3)), "is not in the context"),
        (asked(**answered("notes", -1)), "answer_start is -1"),
        (asked(**answered("notes", "12")), "answer_start is '12'"),
        (asked(**answered("notes", True)), "answer_start is True"),
        (asked(**answered("", 0)), "'text' is empty"),
        (asked(answers=[]), "it has no answers"),
        (asked(answers=None), "no list 'answers'"),
        (asked(is_impossible="no"), "is_impossible is 'no'"),
        (asked(id=None), "no 'id'"),
        (asked(question=" "), "'question' is empty"),
        (asked(context=" "), r"a\.json: data\[0\]\.paragraphs\[0\]: 'context' is empty"),
        (asked(question="\ud800"), "'question' holds a lone surrogate"),
        ('{"data": []}', "holds no questions"),
        ('{"data": [5]}', r"data\[0\]: no JSON object"),
        ("[]", r"a\.json: no JSON object"),
        ('{"data":\n [1,}', r"a\.json:2: not JSON"),
        ("", r"a\.json:1: not JSON"),
        ("[" * 100_000, r"a\.json: not JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(write: Write, content: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_answered_questions(write("a.json", content))


def test_ids_given_twice_are_refused(write: Write) -> None:
    content = json.loads(asked())
    content["data"].append(content["data"][0])
    with pytest.raises(BadInputError, match=r"data\[1\]\.paragraphs\[0\].*'q1'.*twice"):
        read_answered_questions(write("a.json", json.dumps(content)))


def test_a_file_of_one_line_may_be_longer_than_a_row(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "MAX_ROW_BYTES", 20)
    assert len(read_answered_questions(write("a.json", asked()))) == 1
