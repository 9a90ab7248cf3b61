"""Formulas in tables."""

import pytest

from nearsay.data.formulas import defused


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(sign: str) -> None:
    assert defused(f"{sign}1+1") == f"'{sign}1+1"


@pytest.mark.parametrize("cell", ["1+1", "", "a = b", -3, 2.5, None, True])
def test_everything_else_stays_as_it_is(cell: object) -> None:
    assert defused(cell) is cell
