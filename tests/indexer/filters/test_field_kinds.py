"""What kind of values a field holds."""

from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Library
from nearsay.indexer.filters.expression import fields
from nearsay.indexer.filters.fields import FieldKind, FieldLook, looks_of, named_values
from nearsay.indexer.filters.parse import parse


def _look(*values: object) -> FieldLook:
    (look,) = looks_of([{"field": value} for value in values])
    return look


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["red", "green", "red"], FieldKind.CATEGORY),
        ([True, False], FieldKind.CATEGORY),
        ([["a", "b"], ["b"]], FieldKind.CATEGORY),
        ([["a", 3], "b"], FieldKind.CATEGORY),
        ([3, 2.5], FieldKind.NUMBER),
        (["2019", "2021"], FieldKind.NUMBER),
        ([2019, "2021"], FieldKind.NUMBER),
        (["2021-03-05", "2021-03-06T10:00:00Z"], FieldKind.DATE),
        (["2021-03-05", "soon"], FieldKind.CATEGORY),
        (["x" * 81], FieldKind.TEXT),
        ([f"name {number}" for number in range(13)], FieldKind.TEXT),
        ([f"name {number % 13}" for number in range(26)], FieldKind.CATEGORY),
        ([f"name {number % 201}" for number in range(1000)], FieldKind.TEXT),
    ],
)
def test_the_kind_is_what_all_values_are(values: list[object], kind: FieldKind) -> None:
    assert _look(*values).kind is kind


def test_numbers_and_dates_have_bounds_and_categories_their_values_by_count() -> None:
    assert _look("2019", 2021, 2020.5).low == 2019
    assert _look("2019", 2021, 2020.5).high == 2021
    assert _look("2021-03-05T10:00", "2020-01-02").high == "2021-03-05"
    assert _look("b", "a", "b", "c").values == ("b", "a", "c")


def test_few_numbers_are_listed_in_order_and_many_are_not() -> None:
    assert _look(3, 1, 3, "2").values == (1, 2, 3)
    assert _look(*range(13)).values == ()


def test_true_is_not_one() -> None:
    look = _look(True, 1, True, "x")
    assert [str(value) for value in look.values] == ["True", "1", "x"]


def test_fields_inside_others_are_named_as_filters_name_them() -> None:
    looks = looks_of([{"author": {"name": "Ada", "born": {"year": 1815}}, "tags": []}])
    assert [look.name for look in looks] == ["author.born.year", "author.name"]
    for look in looks:
        parse({look.name: {"!=": None}})


@pytest.mark.parametrize("row", [{"": 1}, {'a"b': 1}, {"a`b": 1}, {"a": {"b c": 1}}])
def test_a_name_that_no_filter_can_write_is_left_out(row: dict[str, object]) -> None:
    assert looks_of([row]) == []


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *(("my-field", "my-field"), ("two words", "`two words`"), ("a.b", "`a.b`"), ("1st", "`1st`")),
        *(("not-judged", "not-judged"), ("NOT-2", "NOT-2"), ("order", "order")),
    ],
)
def test_a_name_is_written_so_that_a_filter_reads_it(name: str, written: str) -> None:
    (look,) = looks_of([{name: "x"}])
    assert look.name == written
    assert fields(parse(f"{written} = 'x'")) == [(name,)]


@pytest.mark.parametrize("name", ["title", "cluster", "not", "in", "Not", "OR"])
def test_a_name_that_means_something_else_in_a_filter_is_reached_in_the_metadata(name: str) -> None:
    (look,) = looks_of([{name: "x"}])
    assert look.name == f"metadata.{name}"
    assert fields(parse(f"{look.name} = 'x'")) == [("metadata", name)]


def test_a_nested_value_is_shown_with_the_name_that_a_filter_takes() -> None:
    row = {"author": {"name": "O'Neil", "born": {"year": 1975}}, "source": {"page": 3}, "first name": "Ada"}
    assert dict(named_values(row)) == {
        "author.name": "O'Neil",
        "author.born.year": 1975,
        "metadata.source.page": 3,
        "first name": "Ada",
    }
    whole = {"empty": {}, "list": [{"a": 1}], "author": {"first name": "Ada"}, "a.b": {"c": 1}, "": {"c": 1}}
    assert dict(named_values(whole)) == whole


def test_null_and_objects_in_lists_say_nothing() -> None:
    assert looks_of([{"a": None, "b": [{"c": 1}], "d": []}]) == []


def test_what_most_documents_have_comes_first() -> None:
    looks = looks_of([{"rare": 1, "usual": 1}, {"usual": 2}])
    assert [(look.name, look.documents) for look in looks] == [("usual", 2), ("rare", 1)]


def test_bounds_of_fields_that_were_read_are_those_of_all_documents(
    tmp_path: Path, words: WordsEncoder
) -> None:
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        pets = library.collection("pets")
        rows = [{"id": str(n), "text": "cat", "n": n, "day": f"2020-01-{n:02}"} for n in range(1, 29)]
        pets.add_rows([*rows, *({"id": f"more {n}", "text": "dog", "n": 50} for n in range(1000))])
        pets.add_rows([{"id": "last", "text": "bird", "n": 99, "day": "2030-12-31T10:00:00"}])
        before = {look.name: look.high for look in pets.fields()}
        for name in ("n", "day"):
            pets.facets(name)
        after = {look.name: look.high for look in pets.fields()}
    assert before == {"n": 50, "day": "2020-01-28"}
    assert after == {"n": 99, "day": "2030-12-31"}
