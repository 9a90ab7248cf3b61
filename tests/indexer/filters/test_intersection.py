"""An `and` of declared fields, worked out list by list, lets through what it does document by document."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearsay.indexer import Collection, Library
from nearsay.indexer.filters.expression import And, Compare, Expression, Operator, Scalar
from nearsay.indexer.filters.intersection import intersection
from nearsay.indexer.filters.known_selections import Key, known_selections, state_of
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.filters.selection import declared_of

ROWS: list[dict[str, object]] = [
    {
        "id": str(i),
        "text": f"words {i}",
        "size": i % 7,
        "flag": i % 2 == 0,
        "tags": [f"t{i % 3}", f"t{i % 4}"],
    }
    for i in range(40)
]
SIGNS: Mapping[Operator, Callable[[float, float], bool]] = {
    Operator.LESS: lambda a, b: a < b,
    Operator.LESS_OR_EQUAL: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.GREATER_OR_EQUAL: lambda a, b: a >= b,
    Operator.EQUAL: lambda a, b: a == b,
}


@pytest.fixture
def notes(open_library: Callable[[], Library]) -> Collection:
    """Forty documents with three declared fields."""
    collection = open_library().collection("notes")
    collection.add_rows(ROWS)
    collection.declare_fields(["size", "flag", "tags"])
    return collection


def found(collection: Collection, expression: Expression, most: int = 1000) -> list[int] | None:
    with collection.library.store.database.reading() as connection:
        collection_id = collection.snapshot().collection.id
        declared, state = declared_of(connection, collection_id), state_of(connection, collection_id)
        numbers = intersection(connection, expression, declared, state, most)
    return None if numbers is None else [int(number) - 1 for number in numbers]


def holds(row: Mapping[str, object], part: Compare) -> bool:
    value = row[part.field[0]]
    if isinstance(value, list):
        return part.value in value
    if isinstance(value, bool):
        return value is part.value
    assert isinstance(value, int)
    assert isinstance(part.value, int)
    return SIGNS[part.operator](value, part.value)


def compare(name: str, operator: Operator, value: Scalar) -> Compare:
    return Compare((name,), operator, value)


PARTS = (
    st.builds(compare, st.just("size"), st.sampled_from(Operator), st.integers(-1, 7))
    | st.builds(compare, st.just("flag"), st.just(Operator.EQUAL), st.booleans())
    | st.builds(compare, st.just("tags"), st.just(Operator.EQUAL), st.sampled_from(["t0", "t1", "t3", "no"]))
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, min_size=2, max_size=4))
def test_lists_intersected_are_what_passes_row_by_row(notes: Collection, parts: list[Compare]) -> None:
    numbers = found(notes, And(tuple(parts)))
    if numbers is not None:  # bounds of one field alone are one comparison
        assert numbers == [i for i, row in enumerate(ROWS) if all(holds(row, part) for part in parts)]
    bounds = [part.operator is not Operator.EQUAL for part in parts]
    assert (numbers is None) == all(bounds)


def test_documents_by_hand(notes: Collection) -> None:
    assert found(notes, parse("flag = true and size = 6")) == [6, 20, 34]
    assert found(notes, parse("flag = true and tags = 't1' and size >= 5")) == [
        i for i in range(0, 40, 2) if (i % 3 == 1 or i % 4 == 1) and i % 7 >= 5
    ]


def test_what_lets_too_many_through_or_is_no_plain_and_is_left_to_sql(notes: Collection) -> None:
    both = parse("flag = true and size = 6")
    assert found(notes, both, most=20) == [6, 20, 34]
    notes.add_rows([{"id": "new", "text": "another", "flag": True, "size": 6}])  # a commit: all is asked anew
    assert found(notes, both, most=20) is None
    for where in ("flag = true", "flag = true or size = 6", "flag = true and not size = 6"):
        assert found(notes, parse(where)) is None
    assert found(notes, parse("flag = true and undeclared = 6")) is None
    assert found(notes, parse("flag = true and tags contains 't1'")) is None  # it may be a piece of a text


def test_what_a_comparison_lets_through_is_remembered(notes: Collection) -> None:
    found(notes, parse("flag = true and size = 6"))
    with notes.library.store.database.reading() as connection:
        state = state_of(connection, notes.snapshot().collection.id)
        kept = known_selections(connection)
        key = Key(state, f"documents of {compare('size', Operator.EQUAL, 6)!r}")
        is_known, numbers = kept.get(key)
    assert is_known
    assert numbers is not None
    assert numbers.tolist() == [i + 1 for i in range(40) if i % 7 == 6]
