import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.indexer.query.explain import matched_terms


def test_the_querys_words_are_found_with_their_places_in_title_and_text() -> None:
    (found,) = matched_terms("running a café", [("Cafés of Oslo", "She runs the old café there.")])
    assert found.terms == ("running", "café")
    assert [(word.text, word.start, word.end, word.in_title) for word in found.words] == [
        ("Cafés", 0, 5, True),
        ("runs", 4, 8, False),
        ("café", 17, 21, False),
    ]


@pytest.mark.parametrize(
    ("query", "text", "matched"),
    [
        ("CONNECTIONS", "one connection failed", ["connection"]),  # case, ending
        ("naive", "a naïve plan", ["naïve"]),  # accents
        ("don't", "I don't", ["don", "t"]),  # a word breaks at its apostrophe, as in the index
        ('say "NEAR" AND (apple*)', "near this apple", ["apple"]),  # nothing of a query is syntax
        ("don't feed the cat's 'kitten'", "that kitten, don't feed the cat", ["kitten", "feed", "cat"]),
        ("what is the reason that a bank fails", "that is a bank, the reason", ["bank", "reason"]),
        ("the who", "who is the band", ["who", "the"]),  # a query that has nothing else
        ("warum der Hund bellt", "der Hund, der nicht bellt", ["Hund", "bellt"]),
        ("two old dogs", "an old dog and two cats", ["old", "dog", "two"]),
        ("snake_case", "a case of snakes", ["case", "snakes"]),
        ("cafe\u0301", "the café", ["café"]),
        ("dog", "a cat", []),
        ("?!", "a cat?!", []),
        ("привет", "Привет, мир", ["Привет"]),
        ("е\u0308лка", "наша ёлка", ["ёлка"]),  # a letter and its accent, in the query or in the text
        ("ёлка", "наша е\u0308лка", ["е\u0308лка"]),
    ],
)
def test_words_match_as_in_the_lexical_index(query: str, text: str, matched: list[str]) -> None:
    (found,) = matched_terms(query, [("", text)])
    assert [word.text for word in found.words] == matched


def test_each_passage_has_its_own_matches_and_a_word_is_named_once() -> None:
    first, second, third = matched_terms("Red red apples", [("", "an apple"), ("", "red"), ("", "pear")])
    assert (first.terms, second.terms, third.terms) == (("apples",), ("Red",), ())


def test_a_text_with_the_signs_that_mark_matches_keeps_its_places() -> None:
    (found,) = matched_terms("cat", [("", "\x02a\x03 \x00cat")])
    assert [(word.start, word.end) for word in found.words] == [(5, 8)]


def test_a_query_of_very_many_words_is_no_error() -> None:
    query = " ".join(f"word{i}" for i in range(2_000))
    (found,) = matched_terms(query, [("", "word7 word1999")])
    assert found.terms == ("word7",)


@given(query=st.text(max_size=30), text=st.text(max_size=30))
def test_places_are_right_for_any_text(query: str, text: str) -> None:
    (found,) = matched_terms(query, [(text, text)])
    for word in found.words:
        assert text[word.start : word.end] == word.text
        assert word.text.strip()


@given(text=st.text(max_size=30))
def test_a_text_has_all_of_its_own_words(text: str) -> None:
    (found,) = matched_terms(text, [("", text)])
    assert bool(found.words) == bool(found.terms)
