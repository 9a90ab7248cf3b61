"""Texts that count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.sentence_examples.normalised_text import normalised_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  A Plane\tis taking off. ", "a plane is taking off"),
        ("Well-known, isn't it?", "well known isn t it"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ﬁve ½\u00a0\u3000…", "five 1⁄2"),
        ("cafe\u0301", "café"),
        ("«Oui» — non。", "oui non"),
        ("C++ < C", "c++ < c"),
        ("हिन्दी।", "हिन्दी"),
        ("?!", "?!"),
        ("! ?", "! ?"),
        ("", ""),
    ],
)
def test_case_forms_punctuation_and_spaces_do_not_count(text: str, expected: str) -> None:
    assert normalised_text(text) == expected


@given(st.text())
def test_a_normalised_text_stays_and_upper_case_makes_no_difference_in_ascii(text: str) -> None:
    once = normalised_text(text)
    assert normalised_text(once) == once
    if text.isascii():
        assert normalised_text(text.upper()) == once
        assert normalised_text(f" {text}\n") == once
