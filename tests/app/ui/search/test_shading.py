"""Words shaded by their share."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.app.ui.card import Marks, marks_of, shaded
from nearsay.indexer.query.hit import BestSentence, Explanation, MatchedWord, WordShare

_TEXT = "Cats chase mice."


def _word(start: int, end: int, share: float) -> WordShare:
    return WordShare(_TEXT[start:end], start, end, share)


def _explanation() -> Explanation:
    return Explanation(
        words=(_word(0, 4, 0.4), _word(5, 10, 0.2), _word(11, 15, -0.1), _word(15, 16, 0.3)),
        title=(WordShare("Cats", 0, 4, 0.1),),
        rest=0.0,
        query=(),
        query_rest=0.0,
        score=0.9,
        rounding=0.0,
        exact=True,
        seen=16,
        matched=("mice",),
        matches=(MatchedWord("Cats", 0, 4, in_title=True), MatchedWord("mice", 11, 15, in_title=False)),
        sentence=BestSentence(_TEXT, 0, 16, 0.9),
    )


def test_opacity_is_the_share_relative_to_the_strongest_and_matches_are_underlined() -> None:
    title, marks = marks_of(_explanation())
    assert shaded(_TEXT, marks) == (
        '<span class="ns-best">'
        '<mark style="background: rgba(255, 176, 32, 0.5)">Cats</mark> '
        '<mark style="background: rgba(255, 176, 32, 0.25)">chase</mark> '
        "<u>mice</u>.</span>"
    )
    assert shaded("Cats", title) == ('<mark style="background: rgba(255, 176, 32, 0.12)"><u>Cats</u></mark>')


def test_two_strong_words_side_by_side_are_two_marks() -> None:
    marks = Marks((WordShare("ab", 0, 2, 1.0), WordShare("cd", 2, 4, 1.0)), 1.0)
    assert shaded("abcd", marks).count("<mark") == 2


def test_a_stretch_of_the_text_keeps_its_marks() -> None:
    marks = Marks((_word(5, 10, 1.0),), 1.0)
    assert re.sub(r' style="[^"]*"', "", shaded(_TEXT, marks, 7)) == "<mark>ase</mark> mice."
    assert shaded(_TEXT, marks, 0, 5) == "Cats "


def test_without_an_explanation_the_querys_words_are_underlined() -> None:
    title, marks = marks_of(None, _explanation().matches)
    assert shaded("Cats", title) == "<u>Cats</u>"
    assert shaded(_TEXT, marks) == "Cats chase <u>mice</u>."


def test_nothing_positive_is_nothing_shaded() -> None:
    assert shaded(_TEXT, Marks((_word(0, 4, -0.2),), -0.2)) == _TEXT


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 45), st.integers(0, 45)), max_size=4))
def test_marks_change_nothing_of_what_is_read_and_let_no_markup_through(
    text: str, places: list[tuple[int, int]]
) -> None:
    spans = [(min(place), max(place)) for place in places]
    words = tuple(WordShare("x", start, end, 1.0) for start, end in spans)
    made = shaded(text, Marks(words, 1.0, tuple(spans), spans[0] if spans else None))
    import html

    assert html.unescape(re.sub(r"<[^>]*>", "", made)) == text


def test_function_words_and_punctuation_are_not_shaded_whatever_their_share() -> None:
    text = "The cats that chase."
    words = tuple(
        WordShare(found[0], found.start(), found.end(), 0.9 if found[0] in ("The", "that", ".") else 0.3)
        for found in re.finditer(r"\w+|\.", text)
    )
    found = replace(_explanation(), words=words, title=(), matches=(), sentence=None)
    _, marks = marks_of(found)
    assert re.findall(r"<mark[^>]*>(\w+)", shaded(text, marks)) == ["cats", "chase"]
    assert marks.strongest == 0.3
    assert found.strongest_words() == [("cats", 0.3), ("chase", 0.3)]


def test_words_are_named_by_what_their_places_add_up_to() -> None:
    assert _explanation().strongest_words(2) == [("cats", 0.5), ("chase", 0.2)]
    assert [word for word, _ in _explanation().strongest_words()] == ["cats", "chase"]


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "&lt;b&gt;"])
def test_markup_of_a_document_is_text(text: str) -> None:
    assert "<" not in shaded(text, Marks())
