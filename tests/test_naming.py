"""What `Naming` takes for a message that names its values, and what it does not."""

import pytest
from naming import Naming


@pytest.mark.parametrize(
    ("values", "text", "named"),
    [
        (("a.csv", 2), "a.csv: 2 rows lack a text", True),
        (("a.csv", 2), "other\na.csv:7: 2", True),
        (("a.csv", 2), "2 rows of a.csv", False),
        (("a.csv", 2), "a.csv\n2 rows", False),
        ((2,), "12 rows, 2.5 or 2,000 of 0.2", False),
        (("row",), "rows", False),
        (("(2, 2)", "--strict"), "of shape (2, 2) (--strict)", True),
        (("-0.020",), "0.480 against 0.500: -0.020.", True),
    ],
)
def test_values_are_named_whole_in_their_order_and_on_one_line(
    values: tuple[object, ...], text: str, named: bool
) -> None:
    assert (text == Naming(*values)) is named
    assert ([text] == [Naming(*values)]) is named


def test_what_is_no_text_names_nothing() -> None:
    assert Naming("None") != None  # noqa: E711 - the comparison itself is tried
    assert Naming(7) != 7
