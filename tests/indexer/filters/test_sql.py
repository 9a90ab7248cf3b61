"""A filter lets through the same documents in SQLite, in PostgreSQL and in plain Python."""

import contextlib
import json
from collections.abc import Iterator, Sequence

import pytest
import sqlalchemy as sa
from filter_expressions import CHARACTERS, NUMBERS, TEXTS, Row, expressions, passes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import documents
from nearsay.indexer.filters.expression import (
    Compare,
    Expression,
    Not,
    Operator,
    Present,
)
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.selection import narrowest
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.vectors.errors import BadFilterError

# The databases


class UndoneError(Exception):
    """Ends a transaction without a trace."""


@contextlib.contextmanager
def undone(database: Database) -> Iterator[sa.Connection]:
    with contextlib.suppress(UndoneError), database.writing() as connection:
        yield connection
        raise UndoneError


def enter(connection: sa.Connection, rows: Sequence[Row]) -> int:
    collection = collections.create(connection, "c", "none", "")
    same = {"content_hash": "", "row_hash": "", "named_by_content": False, "added_at": "", "updated_at": ""}
    values = [
        {"collection_id": collection.id, "number": number, "id": row.id, "title": row.title, "text": row.text}
        | {"metadata": dict(row.metadata), "source": row.source, **same}
        for number, row in enumerate(rows)
    ]
    connection.execute(documents.insert(), values)
    return collection.id


def answers(database: Database, rows: Sequence[Row], expression: Expression) -> list[bool]:
    """What SQL says of each row; fails on NULL, and where WHERE, NOT or what narrows it say otherwise."""
    condition_ = condition(expression, database.dialect)
    opposite = condition(Not(expression), database.dialect)
    statement = sa.select(documents.c.number, condition_.label("yes"), opposite.label("no"))
    got: list[bool] = []
    with undone(database) as connection:
        collection_id = enter(connection, rows)
        answered = connection.execute(statement.order_by(documents.c.number)).all()
        numbers = sa.select(documents.c.number)
        chosen = set(connection.execute(numbers.where(condition_)).scalars())
        for part, those in ((expression, chosen), (Not(expression), set(range(len(rows))) - chosen)):
            narrowed = narrowest(connection, collection_id, part, 1000)
            if narrowed is not None:
                statement = numbers.where(documents.c.number.in_(narrowed.numbers()))
                if narrowed.rest is not None:
                    statement = statement.where(condition(narrowed.rest, database.dialect))
                assert set(connection.execute(statement).scalars()) == those
        for number, yes, no in answered:
            assert yes is not None
            assert no is not None
            assert bool(yes) is not bool(no)
            assert bool(yes) is (number in chosen)
            got.append(bool(yes))
    return got


def passing(database: Database, rows: Sequence[Row], where: Where) -> list[str]:
    expression = parse(where)
    got = answers(database, rows, expression)
    assert got == [passes(row, expression) for row in rows]
    return [row.id for row, yes in zip(rows, got, strict=True) if yes]


# Worked by hand

PAPERS = [
    Row({"year": 2019, "venue": "acl", "tags": ["sts", 2019, True], "author": {"name": "Ä"}}, id="1"),
    Row({"year": "2020", "venue": None, "tags": [], "open": True, "size": 1.5}, id="2", title="Two"),
    Row({"venue": "ACL", "tags": "sts and nli", "open": False, "size": 2}, id="x", source="/f.txt"),
    Row({"date": "2021-03-05", "größe": 3, "a.b": 1, "a": {"b": 2, "0": "zero"}, "back\\slash": 1}, id="y"),
    Row({"date": "2021-03-05T10:30:00Z", "a": [5, [6], {"b": 2}], "venue": ""}, id="z", text="Text here"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("year >= 2019", "12"),  # text of digits counts as a number
        ("year = 2020", "2"),
        ("year = '2020'", "2"),
        ("year != 2019", "2xyz"),  # true where the year is missing
        ("year < 2019", ""),
        ("not year < 2019", "12xyz"),
        ("year > 'a'", ""),  # another kind
        ("venue = 'acl'", "1"),  # case counts
        ("venue in ('acl', 'ACL')", "1x"),
        ("venue not in ('acl', 'ACL')", "2yz"),
        ("venue is missing", "2y"),  # null counts as missing, "" does not
        ("venue is not missing", "1xz"),
        ("tags contains 'sts'", "1x"),  # an element, or a piece of text
        ("tags contains 'nli'", "x"),
        ("tags = 'sts'", "1"),
        ("tags = 2019 and tags = true", "1"),
        ("tags contains 1", ""),  # true is no number
        ("open = true", "2"),
        ("open != true", "1xyz"),
        ("open = 1", ""),
        ("size > 1 and size <= 1.5", "2"),
        ("size in (1.5, 2, 'x')", "2x"),
        ("author.name = 'Ä'", "1"),
        ("author.name > 'Z'", "1"),
        ("author = 'Ä'", ""),
        ("metadata.author.name contains 'Ä'", "1"),
        ("größe = 3", "y"),
        ("`a.b` = 1", "y"),
        ("a.b = 2", "y"),  # a path does not reach into lists
        ("a = 5", "z"),
        ("a = 6", ""),
        ({"a.0": "zero"}, "y"),
        ({"a.0": 5}, ""),
        ("`back\\slash` = 1", "y"),
        ("date = 2021-03-05", "yz"),  # by its day
        ("date > 2021-03-04", "yz"),
        ("date <= 2021-03-05", "yz"),
        ("date >= 2021-03-05T10:30:00Z", "z"),
        ("date = '2021-03-05'", "y"),
        ("venue < 2021-03-05", ""),
        ("id = 'x'", "x"),
        ("id = 1", "1"),  # text of digits
        ("id in (2, 'x')", "2x"),
        ("id < 2", "1"),
        ("id in ('1', 'x', 'no')", "1x"),
        ("title = 'Two'", "2"),
        ("title is missing", "1xyz"),
        ("text contains 'here'", "z"),
        ("text contains 'HERE'", ""),
        ("source is missing", "12yz"),
        ("source != '/f.txt'", "12yz"),
        ("source contains '/'", "x"),
        ("metadata.id = 1", ""),
        ("no.such.field = 1", ""),
        ("not no.such.field = 1", "12xyz"),
        ({"year": []}, ""),
        ({}, "12xyz"),
    ],
    ids=str,
)
def test_each_comparison_lets_through_what_it_says(database: Database, where: Where, ids: str) -> None:
    assert "".join(passing(database, PAPERS, where)) == ids


INJECTIONS = [
    "x' OR 1=1 --",
    "'; DROP TABLE documents; --",
    "') OR ('1'='1",
    "$",
    "$.year",
    "[0]",
    "a].b",
    "*",
    "**",
    "a[*]",
    "$[last]",
    "%",
    "_",
    ":number",
    "%(number)s",
    "?",
    "a\\",
    "\\u0061",
    "\n\t\r\x01\x7f",
    "@ ? (1 == 1)",
    "𝔘ñïcode\u2028",
    "strict",
    "{}",
]


@pytest.mark.long
@pytest.mark.parametrize("name", INJECTIONS, ids=ascii)
def test_a_value_or_a_name_is_never_taken_for_sql(database: Database, name: str) -> None:
    rows = [
        Row({name: 1, "v": name, "list": [name]}, id=name),
        Row({"year": 1, "a": [1], "v": "x"}, id="other"),
    ]
    key = name.replace("`", "")
    for expression in (
        Compare((key,), Operator.EQUAL, 1),
        Present((key,)),
        parse({"v": name}),
        parse({"v": {"contains": name}}),
        parse({"list": name}),
        parse({"id": name}),
        parse({"v": [name, "no"]}),
    ):
        assert answers(database, rows, expression) == [True, False]
    assert answers(database, rows, Compare(("nested", key), Operator.EQUAL, 1)) == [False, False]


def test_a_name_with_a_quote_is_refused_whoever_made_the_expression() -> None:
    with pytest.raises(BadFilterError, match="Remove the quotes"):
        condition(Compare(('a"', "b"), Operator.EQUAL, 1), "sqlite")


@pytest.mark.long
@pytest.mark.parametrize(
    "where",
    [
        {"v": [f"v{i}" for i in range(100_000)]},
        {"id": [f"v{i}" for i in range(300_000)]},
        {"v": {"not in": [*range(50_000), *(i + 0.5 for i in range(50_000))]}},
        {"or": [{"v": {">": 1_000_000 + i}} for i in range(500)]},
        {"and": [{f"f{i}": {"!=": i}} for i in range(500)]},
        "not " * 19 + "v in (1, 'a')",
        "not (a = 1 and " * 9 + "v not in (1, 'a')" + ")" * 9,
        "(a in ('x', 'y') or (b not in (1, 2) and " * 9 + "v contains 'a'" + "))" * 9,
    ],
    ids=range(8),
)
def test_long_and_deep_filters_fit_every_database(database: Database, where: Where) -> None:
    rows = [
        Row({"v": "v7"}, id="v8"),
        Row({"v": 7}),
        Row({"v": ["v9", 1.5]}, id="v9"),
        Row({"v": None}, id="n"),
    ]
    expression = parse(where)
    statement = sa.select(documents.c.id).where(condition(expression, database.dialect))
    chosen: set[str] = set()
    with undone(database) as connection:
        enter(connection, rows)
        chosen.update(connection.execute(statement).scalars())
    assert chosen == {row.id for row in rows if passes(row, expression)}


@pytest.mark.long
def test_text_is_ordered_by_code_point_everywhere(database: Database) -> None:
    texts = ["", "10", "9", "A", "B", "Z", "_", "a", "aB", "aa", "b", "z", "ß", "à", "ä", "\uffff", "𝔘"]
    assert texts == sorted(texts)
    rows = [Row({"v": text}, id=text, title=text) for text in texts]
    for i, text in enumerate(texts):
        for name in ("v", "id", "title"):
            path = (name,)
            assert answers(database, rows, Compare(path, Operator.LESS, text)) == [n < i for n in range(17)]
            assert answers(database, rows, Compare(path, Operator.EQUAL, text)) == [n == i for n in range(17)]


def test_numbers_keep_every_digit(database: Database) -> None:
    numbers = [-(2**63), -1, 0, 0.1, 0.1 + 0.2, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 + 3, 1e300]
    rows = [Row({"n": number}, id=str(number)) for number in numbers]
    for i, number in enumerate(numbers[1:8], 1):
        assert answers(database, rows, Compare(("n",), Operator.EQUAL, number)) == [n == i for n in range(11)]
        assert answers(database, rows, Compare(("n",), Operator.LESS, number)) == [n < i for n in range(11)]


# Against the oracle

NAMES = [
    "year",
    "author",
    "größe",
    "a b",
    "x.y",
    "a\\b",
    "'; --",
    "$",
    "[0]",
    "*",
    "0",
    "list",
    "id",
    "title",
    "é",
]
PATHS = st.sampled_from(
    [(name,) for name in NAMES]
    + [("author", "name"), ("author", "0"), ("list", "0"), ("metadata", "id"), ("metadata", "year")]
    + [("metadata", "author", "name"), ("metadata",), ("text",), ("source",), ("nowhere",), ("author", "")]
)
JSON_SCALARS = (
    st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from([2**63, 2**64 + 3, 1e300, -(2**63)])
)
JSON_VALUES = JSON_SCALARS | st.recursive(
    JSON_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "0", "", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)
STRINGS = TEXTS | st.text(CHARACTERS, max_size=12)
ROWS = st.lists(
    st.builds(
        Row,
        st.dictionaries(st.sampled_from([*NAMES, "metadata"]), JSON_VALUES, max_size=6),
        id=STRINGS,
        title=STRINGS,
        text=STRINGS,
        source=st.none() | STRINGS,
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row.id,
)


@pytest.mark.long
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, expressions(PATHS))
def test_sqlite_lets_through_what_the_algebra_says(
    sqlite: Database, rows: list[Row], expression: Expression
) -> None:
    assert answers(sqlite, rows, expression) == [passes(row, expression) for row in rows]


@pytest.mark.long
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, expressions(PATHS))
def test_postgresql_lets_through_what_the_algebra_says(
    postgresql: Database, rows: list[Row], expression: Expression
) -> None:
    assert answers(postgresql, rows, expression) == [passes(row, expression) for row in rows]


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(CHARACTERS, max_size=5).map(lambda name: name.replace('"', "")), JSON_SCALARS))
def test_every_name_that_metadata_can_have_is_found(sqlite: Database, metadata: dict[str, JsonValue]) -> None:
    rows = [Row(metadata), Row(json.loads("{}"), id="empty")]
    for name, value in metadata.items():
        if name not in ("id", "title", "text", "source"):
            assert answers(sqlite, rows, Present((name,))) == [value is not None, False]
