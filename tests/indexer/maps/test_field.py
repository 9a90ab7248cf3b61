"""Metadata fields as colours."""

import numpy as np
import pytest

from nearsay.indexer.filters.fields import value_at
from nearsay.indexer.maps.drawing import FieldKind, field_of


def test_numbers_and_years_written_as_text_are_numbers() -> None:
    field = field_of("year", ["2019", None, "2021"])
    assert field.kind is FieldKind.NUMBER
    assert field.numbers.tolist()[::2] == [2019.0, 2021.0]
    assert np.isnan(field.numbers[1])
    assert field.missing == 1
    assert field_of("share", [0.5, -2]).kind is FieldKind.NUMBER


def test_dates_are_days() -> None:
    field = field_of("date", ["1970-01-02", "2024-02-29T12:00:00Z", None])
    assert (field.kind, field.numbers.tolist()[:2], field.missing) == (FieldKind.DATE, [1.0, 19782.0], 1)


@pytest.mark.parametrize(
    "values",
    [
        ["2024-02-30"],
        ["2024-02-01", "soon"],
        ["1", "one"],
        [True],
        ["1e999999"],
        [10**20],
        [1, 10**400],
        [1e200],
    ],
)
def test_whatever_is_neither_is_a_category(values: list[object]) -> None:
    assert field_of("field", values).kind is FieldKind.CATEGORY


def test_categories_stand_by_how_common_they_are() -> None:
    field = field_of("venue", ["b", "a", None, "b", "a", True, ["x", "y"], {"z": 1}, "c" * 300])
    assert field.values == ("a", "b", "c" * 119 + "…", "true", "x, y", '{"z": 1}')
    assert field.codes.tolist() == [1, 0, -1, 1, 0, 3, 4, 5, 2]
    assert field.missing == 1


def test_numbers_as_large_as_can_be_told_apart_are_numbers() -> None:
    assert field_of("n", [2**53, -(2**53), 6.02e23]).kind is FieldKind.NUMBER
    assert field_of("n", [2**53 + 1]).values == ("9007199254740993",)


def test_a_blank_value_has_a_name() -> None:
    assert field_of("n", ["", "a", "a", []]).values == ("(empty)", "a")


def test_nothing_but_nothing_is_an_empty_category() -> None:
    field = field_of("none", [None, None])
    assert (field.values, field.codes.tolist(), field.missing) == ((), [-1, -1], 2)


def test_colours_run_over_all_but_the_ends() -> None:
    assert field_of("words", [*range(1, 100), 9000]).span == (1.0, 99.0)
    assert field_of("words", [3]).span == (3.0, 3.0)


def test_a_path_leads_into_the_metadata() -> None:
    metadata = {"a": {"b": 1}, "c": "d"}
    assert [value_at(metadata, path) for path in (("a", "b"), ("c",), ("c", "d"), ("e",))] == [
        1,
        "d",
        None,
        None,
    ]
