"""Filters in widgets, in the address and in the filter language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.filters.choices import Choice, filter_text, read_choices, said, without, written
from nearsay.indexer.filters.expression import And, Compare, Contains, Moment, Operator
from nearsay.indexer.filters.parse import parse

_VALUES = st.one_of(st.text(max_size=8), st.integers(-5, 5), st.booleans(), st.floats(-9, 9, width=32))
_BOUNDS = st.one_of(st.none(), st.integers(-5, 5), st.just("2021-03-05"))
_CHOICES = st.builds(
    Choice,
    values=st.lists(_VALUES, max_size=3, unique_by=lambda value: (isinstance(value, bool), value)).map(tuple),
    low=_BOUNDS,
    high=_BOUNDS,
    piece=st.text(max_size=8),
)


@given(st.dictionaries(st.text(max_size=6), _CHOICES, max_size=3))
def test_an_address_says_what_was_chosen(choices: dict[str, Choice]) -> None:
    assert read_choices(written(choices)) == {name: choice for name, choice in choices.items() if choice}


def test_the_address_is_short_and_the_same_for_the_same_choices() -> None:
    one = {"year": Choice(low=2019, high=2021), "venue": Choice(values=("acl", "emnlp"))}
    other = dict(reversed(one.items()))
    assert written(one) == written(other) == '{"venue":["acl","emnlp"],"year":{"low":2019,"high":2021}}'
    assert written({"year": Choice()}) == ""


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "3",
        '{"a": 3}',
        '{"a": [[1]]}',
        '{"a": [null]}',
        '{"a": [NaN]}',
        '{"a": {"low": "tomorrow"}}',
        '{"a": {"low": true}}',
        '{"a": {"has": 3}}',
        '{"a": {"in": "x"}}',
        "[" * 100_000,
    ],
)
def test_an_address_that_makes_no_sense_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadInputError, match="filter in the address"):
        read_choices(text)


def test_the_filter_says_all_that_was_chosen() -> None:
    text = filter_text(
        {
            "venue": Choice(values=("acl", "it's")),
            "year": Choice(low=2019, high=2021.5),
            "`two words`": Choice(values=(True,)),
            "day": Choice(low="2021-03-05"),
            "title": Choice(piece="O'Hara"),
        },
        "cluster = 3 or cluster = 4",
    )
    assert text == (
        "venue in ('acl', 'it''s') and year >= 2019 and year <= 2021.5 and `two words` = true "
        "and day >= 2021-03-05 and title contains 'O''Hara' and (cluster = 3 or cluster = 4)"
    )
    parsed = parse(text)
    assert isinstance(parsed, And)
    assert parsed.operands[3] == Compare(("two words",), Operator.EQUAL, True)
    assert parsed.operands[4] == Compare(("day",), Operator.GREATER_OR_EQUAL, Moment("2021-03-05"))
    assert parsed.operands[5] == Contains(("title",), "O'Hara")


@given(st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text))
def test_any_value_is_read_back_by_the_filter_language(value: str) -> None:
    if value.encode("utf-8", "replace").decode() != value:  # a lone surrogate stands in no address
        return
    assert parse(filter_text({"a": Choice(values=(value,))})) == Compare(("a",), Operator.EQUAL, value)
    assert parse(filter_text({"a": Choice(piece=value)})) == Contains(("a",), value)


def test_nothing_chosen_is_no_filter() -> None:
    assert filter_text({}) == ""
    assert filter_text({"a": Choice()}, "  ") == ""
    assert filter_text({}, " year = 3 ") == "year = 3"


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(values=("acl", True)), "venue: acl or true"),
        (Choice(low=1, high=2), "venue: 1 to 2"),
        (Choice(low="2021-03-05"), "venue: from 2021-03-05"),
        (Choice(high=2), "venue: up to 2"),
        (Choice(values=(3,), piece="x"), "venue: three or not, with “x”"),
    ],
)
def test_a_choice_is_said_in_words(choice: Choice, words: str) -> None:
    assert said("`venue`", choice, {3: "three or not"}) == words


def test_one_field_can_be_left_out() -> None:
    choices = {"a": Choice(low=1), "b": Choice(low=2)}
    assert without(choices, "a") == {"b": Choice(low=2)}
    assert without(choices, "c") == choices
