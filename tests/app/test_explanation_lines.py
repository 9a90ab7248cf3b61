import re
import sys
from dataclasses import replace

import pytest
from naming import Naming

from nearsay.app.cli.printing import explanation_lines, takes_colour
from nearsay.indexer.query.hit import BestSentence, Explanation, WordShare

TEXT = "The old oak fell. It hit a car."


def shares(text: str, values: list[float]) -> tuple[WordShare, ...]:
    found = re.finditer(r"\w+|[^\w\s]", text)
    return tuple(
        WordShare(match[0], match.start(), match.end(), value)
        for match, value in zip(found, values, strict=True)
    )


EXPLANATION = Explanation(
    words=shares(TEXT, [0.0, 0.05, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0, -0.1, 0.0]),
    title=shares("Storm", [0.1]),
    rest=0.05,
    query=(),
    query_rest=0.5,
    score=0.5,
    rounding=0.0,
    exact=True,
    seen=len(TEXT),
    matched=("oaks",),
    matches=(),
    sentence=BestSentence("The old oak fell.", 0, 17, 0.61),
)


def plain(line: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", line)


def test_the_score_is_written_as_the_sum_of_its_largest_words_and_the_rest() -> None:
    assert explanation_lines(TEXT, EXPLANATION, width=200) == [
        TEXT,
        ("cosine 0.500 = oak +0.300, fell +0.100, storm +0.100, old +0.050, other words -0.100, rest +0.050"),
        "same words: oaks",
        Naming("nearest sentence", "0.610", "The old oak fell."),
    ]


def test_a_word_is_named_once_with_the_sum_of_its_places_and_no_function_word_is() -> None:
    explanation = replace(EXPLANATION, words=shares("The oak is the Oak", [0.2, 0.1, 0.2, 0.2, 0.05]))
    assert "= oak +0.150, storm +0.100, other words +0.600," in explanation_lines(TEXT, explanation)[1]


def test_the_parts_that_are_written_sum_to_the_score() -> None:
    (line,) = [line for line in explanation_lines(TEXT, EXPLANATION, width=999) if " = " in line]
    score, parts = line.removeprefix("cosine ").split(" = ")
    assert sum(map(float, re.findall(r"[+-]\d\.\d+", parts))) == pytest.approx(float(score))


def test_an_approximation_and_a_rounding_are_told() -> None:
    lines = explanation_lines(TEXT, replace(EXPLANATION, exact=False, rounding=-0.001), width=300)
    assert lines[1].endswith("rest +0.050, rounding -0.001 (an approximation)")


def test_what_the_encoder_did_not_take_is_told() -> None:
    lines = explanation_lines(TEXT, replace(EXPLANATION, seen=17), width=300)
    assert lines[-1] == Naming("17 of 31 characters")


def test_without_colour_no_line_has_a_control_character_or_is_too_long() -> None:
    text = "oak \x1b[31m\x07 " + "wood" * 40 + " end"
    explanation = replace(
        EXPLANATION,
        words=(WordShare("\x1b[31m", 4, 9, 0.3),),
        seen=len(text),
        matched=("a\x1b[2J",),
        sentence=BestSentence("x\x9b5m y", 0, 6, 0.1),
    )
    for line in explanation_lines(text, explanation, width=40):
        assert line.isprintable()
        assert len(line) <= 42  # with the two that tell of what is left out


def test_colour_marks_words_by_their_shares_and_changes_no_character() -> None:
    text = f"{TEXT} {'It was a quiet day. ' * 30}"
    marked = explanation_lines(text, EXPLANATION, width=60, in_colour=True)
    unmarked = explanation_lines(text, EXPLANATION, width=60)
    assert [plain(line) for line in marked] == unmarked
    assert "\x1b[48;5;226moak\x1b[0m" in marked[0]  # the most
    assert re.search("\x1b\\[48;5;2(30|29|28)mfell\x1b", marked[0])  # less
    assert "\x1b[48;5;224mcar\x1b[0m" in marked[0]  # against
    assert marked[0].startswith("The ")
    assert not any("\x1b" in line for line in unmarked)


def test_a_documents_own_escape_sequences_do_not_reach_the_terminal() -> None:
    text = "\x1b[8mhidden oak"
    explanation = replace(
        EXPLANATION, words=(WordShare("hidden", 4, 10, 0.1), WordShare("oak", 11, 14, 0.9)), seen=14
    )
    (first, *_) = explanation_lines(text, explanation, in_colour=True)
    assert "\x1b[8m" not in first
    assert plain(first) == "[8mhidden oak"


def test_a_long_passage_is_shown_from_its_best_sentence_on() -> None:
    text = "Nothing to see. " * 60 + "The oak fell." + " More." * 200
    start = text.index("The oak")
    explanation = replace(
        EXPLANATION, words=(), seen=len(text), sentence=BestSentence("The oak fell.", start, start + 13, 0.7)
    )
    shown = [line for line in explanation_lines(text, explanation) if not line.startswith(("cosine", "same"))]
    assert shown[0].startswith("… The oak fell. More.")
    assert any(line.endswith("…") for line in shown)


def test_an_empty_passage_is_explained_by_its_title() -> None:
    explanation = replace(EXPLANATION, words=(), seen=0, matched=(), sentence=None)
    assert explanation_lines("", explanation) == ["cosine 0.500 = storm +0.100, rest +0.050"]


@pytest.mark.parametrize(
    ("terminal", "settings", "expected"),
    [
        (True, {"TERM": "xterm-256color"}, True),
        (False, {"TERM": "xterm-256color"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    terminal: bool, settings: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert takes_colour() is expected
