"""Amounts in words."""

import pytest

from nearsay.data.quantity import counted, significant, size_words


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries"), (23_300, "23,300 queries")]
)
def test_only_one_is_in_singular(count: int, said: str) -> None:
    assert counted(count, "query", "queries") == said


def test_a_plural_takes_an_s_unless_it_is_named() -> None:
    assert counted(2, "document") == "2 documents"


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (13_500, "14 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_240_000, "1.2 MB"),
        (99_949_999, "99.9 MB"),
        (99_950_000, "100 MB"),
        (3_400_000_000, "3,400 MB"),
    ],
)
def test_a_size_is_told_in_the_unit_that_shows_it(size: int, words: str) -> None:
    assert size_words(size) == words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.12344, "0.1234"),
        (12.5, "12.5"),
        (1234.56, "1,235"),
        (9999.6, "10,000"),
        (-12345.6, "-12,346"),
        (0.0, "0"),
    ],
)
def test_four_digits_count_or_all_before_the_point(value: float, said: str) -> None:
    assert significant(value) == said
