"""Sizes in words."""

import pytest

from nearsay.app.ui.sizes import size_words


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
