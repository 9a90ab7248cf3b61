"""What users write becomes the expression they mean, or a message that says where it went wrong."""

import datetime as dt
import string
import threading
from collections.abc import Mapping

import pytest
from filter_expressions import expressions, written
from hypothesis import example, given
from hypothesis import strategies as st
from naming import Naming

from nearsay.indexer.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    Moment,
    Not,
    Operator,
    Or,
    Present,
    Scalar,
    fields,
)
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.vectors.errors import BadFilterError

EQUAL = Operator.EQUAL


def equal(name: str, value: Scalar) -> Compare:
    return Compare((name,), EQUAL, value)


A, B, C = equal("a", 1), equal("b", 2), equal("c", 3)

FORMS: list[tuple[str, Expression]] = [
    ("a = 1", A),
    ("a == 1", A),
    ("a=1", A),
    ("  a\n=\t1 ", A),
    ("(((a = 1)))", A),
    ("a != 1", Not(A)),
    ("a <> 1", Not(A)),
    ("a < 1", Compare(("a",), Operator.LESS, 1)),
    ("a <= 1", Compare(("a",), Operator.LESS_OR_EQUAL, 1)),
    ("a > 1", Compare(("a",), Operator.GREATER, 1)),
    ("a >= 1", Compare(("a",), Operator.GREATER_OR_EQUAL, 1)),
    ("a in (1)", Or((A,))),
    ("a in (1, 'x', true)", Or((A, equal("a", "x"), equal("a", True)))),
    ("a not in (1, 2)", Not(Or((A, equal("a", 2))))),
    ("not a in (1, 2)", Not(Or((A, equal("a", 2))))),
    ("a contains 'x'", Contains(("a",), "x")),
    ("a is missing", Not(Present(("a",)))),
    ("a is not missing", Present(("a",))),
    ("not a is missing", Not(Not(Present(("a",))))),
    ("not a = 1", Not(A)),
    ("not not a = 1", Not(Not(A))),
    # NOT binds closest, then AND, then OR
    ("not a = 1 and b = 2", And((Not(A), B))),
    ("not (a = 1 and b = 2)", Not(And((A, B)))),
    ("a = 1 or b = 2 and c = 3", Or((A, And((B, C))))),
    ("a = 1 and b = 2 or c = 3", Or((And((A, B)), C))),
    ("(a = 1 or b = 2) and c = 3", And((Or((A, B)), C))),
    ("a = 1 and b = 2 and c = 3", And((A, B, C))),
    ("a = 1 and (b = 2 and c = 3)", And((A, And((B, C))))),
    # keywords in any case
    ("NOT a = 1 AND b = 2 Or c = 3", Or((And((Not(A), B)), C))),
    ("a IN (1) and a NoT iN (1)", And((Or((A,)), Not(Or((A,)))))),
    ("a CONTAINS TRUE or a Is Not MISSING", Or((Contains(("a",), True), Present(("a",))))),
    # names
    ("order = 1", equal("order", 1)),
    ("notes = 1 and android = 2", And((equal("notes", 1), equal("android", 2)))),
    ("in = 1 and contains = 2", And((equal("in", 1), equal("contains", 2)))),
    ("größe = 1", equal("größe", 1)),
    ("first-page = 1", equal("first-page", 1)),
    ("not-judged = 1", equal("not-judged", 1)),
    ("not not-judged = 1", Not(equal("not-judged", 1))),
    ("not.a = 1", Compare(("not", "a"), EQUAL, 1)),
    ("author.name = 'x'", Compare(("author", "name"), EQUAL, "x")),
    ("a.b-c.d_2 = 1", Compare(("a", "b-c", "d_2"), EQUAL, 1)),
    ("`author.name` = 'x'", equal("author.name", "x")),
    ("`not` = 1", equal("not", 1)),
    ("`2 words; -- $[0].*'` = 1", equal("2 words; -- $[0].*'", 1)),
    # values
    ("a = -1", equal("a", -1)),
    ("a = +1", A),
    ("a = 1.", equal("a", 1.0)),
    ("a = .5", equal("a", 0.5)),
    ("a = -1.5e-3", equal("a", -0.0015)),
    ("a = 1E3", equal("a", 1000.0)),
    ("a = 9223372036854775807", equal("a", 2**63 - 1)),
    ("a = 'it''s'", equal("a", "it's")),
    ('a = "it\'s ""so"""', equal("a", 'it\'s "so"')),
    ("a = ''", equal("a", "")),
    ("a = ' and not (b = 2'", equal("a", " and not (b = 2")),
    ("a = 'two\nlines'", equal("a", "two\nlines")),
    ("a = 2021-03-05", equal("a", Moment("2021-03-05"))),
    ("a >= 2021-03-05T10:30", Compare(("a",), Operator.GREATER_OR_EQUAL, Moment("2021-03-05T10:30"))),
    ("a = 2021-03-05T10:30:00.25+02:00", equal("a", Moment("2021-03-05T10:30:00.25+02:00"))),
    ("a = 2021-03-05T10:30:00Z", equal("a", Moment("2021-03-05T10:30:00Z"))),
    ("a = '2021-03-05'", equal("a", "2021-03-05")),
    ("a = true and b = FALSE", And((equal("a", True), equal("b", False)))),
]


@pytest.mark.parametrize(("text", "meant"), FORMS, ids=[text for text, _ in FORMS])
def test_each_form_says_what_it_should(text: str, meant: Expression) -> None:
    assert repr(parse(text)) == repr(meant)  # repr: 1, 1.0 and True are not the same here


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        ({"a": 1}, "a = 1"),
        ({"a": "x"}, "a = 'x'"),
        ({"a": True}, "a = true"),
        ({"a": None}, "a is missing"),
        ({"a": {"!=": None}}, "a is not missing"),
        ({"a": {"missing": True}}, "a is missing"),
        ({"a": {"missing": False}}, "a is not missing"),
        ({"a": ["x", "y"]}, "a in ('x', 'y')"),
        ({"a": ("x",)}, "a in ('x')"),
        ({"a": {"in": [1, 2]}}, "a in (1, 2)"),
        ({"a": {"not in": [1, 2]}}, "a not in (1, 2)"),
        ({"a": {"contains": "x"}}, "a contains 'x'"),
        ({"a": {"=": 1}}, "a = 1"),
        ({"a": {"==": 1}}, "a == 1"),
        ({"a": {"!=": 1}}, "a != 1"),
        ({"a": {"<>": 1}}, "a <> 1"),
        ({"a": {">=": 1, "<": 3}}, "a >= 1 and a < 3"),
        ({"author.name": "x"}, "author.name = 'x'"),
        ({"a": 1, "b": 2}, "a = 1 and b = 2"),
        ({"not": {"a": 1}}, "not a = 1"),
        ({"or": [{"a": 1}, {"b": 2}]}, "a = 1 or b = 2"),
        ({"and": [{"a": 1}, {"b": 2}]}, "a = 1 and b = 2"),
        ({"or": [{"a": 1, "b": 2}, {"not": {"c": 3}}]}, "(a = 1 and b = 2) or not c = 3"),
        ({"a": dt.date(2021, 3, 5)}, "a = 2021-03-05"),
        ({"a": {">": dt.datetime(2021, 3, 5, 10, 30, tzinfo=dt.UTC)}}, "a > 2021-03-05T10:30:00+00:00"),
        (
            {"year": {">=": 2019}, "venue": ["acl", "emnlp"], "not": {"retracted": True}},
            "year >= 2019 and venue in ('acl', 'emnlp') and not retracted = true",
        ),
    ],
)
def test_a_mapping_says_the_same_as_the_text(mapping: Mapping[str, object], text: str) -> None:
    assert repr(parse(mapping)) == repr(parse(text))


def test_empty_mappings_and_lists_let_everything_or_nothing_through() -> None:
    assert parse({}) == And(())
    assert parse({"a": []}) == Or(())
    assert parse({"a": {}}) == And(())


def test_the_fields_of_an_expression_come_once_each_in_order() -> None:
    assert fields(parse("b = 1 and (not a.x is missing or b > 2) and c contains 1")) == [
        ("b",),
        ("a", "x"),
        ("c",),
    ]


@pytest.mark.parametrize(
    ("where", "told", "remedy"),
    [
        ("", "read at its end. ", "Write, for example"),
        ("year >=", "read at its end. ", "Write, for example"),
        ("year >= 2019 andd b = 2", "column 14, near 'andd b = 2'", "Write, for example"),
        ("a = 1\nand b @ 2", "column 13, near '@ 2'", "Write, for example"),
        ("a = 'open", "column 5, near ''open'", "Write, for example"),
        ("a in ()", "column 7, near ')'", "Write, for example"),
        ("(a = 1", "read at its end. ", "Write, for example"),
        ("a = 1)", "column 6, near ')'", "Write, for example"),
        ("a = b", "column 5, near 'b'", "Write text in quotes: 'b'"),
        ("1 = a", "column 1, near '1 = a'", "Write, for example"),
        ("a = null", "column 5, near 'null'", "venue is missing"),
        ("a is null", "column 6, near 'null'", "venue is missing"),
        ("a is not NULL", "column 10, near 'NULL'", "venue is missing"),
        ("draft", "read at its end. ", "draft = true"),
        ("x" * 1000, "read at its end. ", "x = true"),
        ("not (draft or b = 1)", "column 12, near 'or b = 1)'", "draft = true"),
        ("(a = 1 and `my draft`)", "column 22, near ')'", "`my draft` = true"),
        ("name = 'O'Neil'", "column 11, near 'Neil''", 'in double quotes: "O\'Neil"'),
        ("a = 1; drop table documents", "column 6, near '; drop table documen'", "Write, for example"),
        ("`` = 1", "column 1", "Write, for example"),
        ('`a"b` = 1', "column 1", "Write, for example"),
        ("`\ud800` = 1", "'\\ud800' is not a valid field name", "Write, for example"),
        ("a = 2021-02-30", "2021-02-30 is not a date", "Write it as 2021-03-05"),
        ("a = 2021-13-01T10:00", "2021-13-01T10:00 is not a date", "Write it as"),
        ("a = 9223372036854775808", "9223372036854775808 is out of range", "Use a number below 2^63"),
        ("a = -1e300", "-1e+300 is out of range", "Use a number below"),
        ("a = 1e999", "inf is out of range", "Use a number below"),
        ("a = " + "9" * 5000, "out of range", "Use a number below"),
        ("a > true", "a > true: true and false have no order", "Use ="),
        ("a = 'x\ud800'", "lone surrogates", "Remove them"),
        ("a = 'x\0'", "NUL", "Remove them"),
        (17, "not int", "Write, for example"),
        (None, "not NoneType", "Write, for example"),
        ({"": 1}, "'' is not a valid field name", "Write, for example"),
        ({"Nr.": 1}, "'Nr.' is not a valid field name", "`Nr.`, in backquotes"),
        ({".": 1}, "'.' is not a valid field name", "Write, for example"),
        ({'a"b': 1}, "is not a valid field name", "Write, for example"),
        ({"a\0": 1}, "is not a valid field name", "Write, for example"),
        ({"\udcff": 1}, "is not a valid field name", "Write, for example"),
        ({7: 1}, "not int", "Write, for example"),
        ({"a": {"~": 1}}, "'~' is not an operator", "Use one of ="),
        ({"a": {7: 1}}, "a: an operator must be text, not int", "Write, for example"),
        ({"a": {"<": True}}, "a < true", "Use ="),
        ({"a": {"in": "x"}}, "'in' takes a list, not str", "Write, for example"),
        ({"and": {"a": 1}}, "'and' takes a list, not dict", "Write, for example"),
        ({"or": ["a"]}, "'or' takes mappings, not str", "Write, for example"),
        ({"not": ["a"]}, "'not' takes mappings, not list", "Write, for example"),
        ({"a": float("nan")}, "nan is out of range", "Use a number"),
        ({"a": 10**5000}, "a number so large is out of range", "Use a number below"),
        ({"a": 2**63}, "9223372036854775808 is out of range", "Use a number below"),
        ({"a": b"x"}, "type bytes", "Use text, a number"),
        ({"a": [None]}, "type NoneType", "Use text, a number"),
        ({"a": [[1]]}, "type list", "Use text, a number"),
    ],
    ids=lambda value: ascii(value)[:40] if not isinstance(value, dict) else None,
)
def test_every_error_names_the_place_or_the_value_and_the_remedy(
    where: object, told: str, remedy: str
) -> None:
    with pytest.raises(BadFilterError) as caught:
        parse(where)
    assert told in str(caught.value)
    assert remedy in str(caught.value)
    assert len(str(caught.value)) < 300


def nested_mapping(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {"a": 1}
    for _ in range(depth):
        inner = {"not": inner}
    return inner


def nested_list(depth: int) -> list[object]:
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.long
@pytest.mark.parametrize(
    "where",
    [
        "(" * 50_000,
        "(" * 400 + "a = 1" + ")" * 399,
        "not " * 20_000 + "a = 1",
        "not (" * 5_000 + "a = 1" + ")" * 5_000,
        "(b = 1 or (c = 1 and " * 2_000 + "a = 1" + "))" * 2_000,
        "not " * 21 + "a = 1",
        "a" * 100_001 + " = 1",
        nested_mapping(21),
        nested_mapping(5_000),
        {"a": nested_list(50_000)},
        {"and": [nested_mapping(20), {"b": 1}]},
        " and ".join(f"a > {i}" for i in range(501)),
        " or ".join(f"a{i} = 1" for i in range(501)),
    ],
    ids=range(13),
)
def test_what_is_too_deep_or_too_long_is_refused_and_never_exhausts_the_stack(where: object) -> None:
    with pytest.raises(BadFilterError):
        parse(where)


@pytest.mark.long
@pytest.mark.parametrize("where", ["not " * 24_000 + "a = 1", nested_mapping(100_000)], ids=range(2))
def test_a_deep_filter_needs_no_deep_stack(where: object) -> None:
    refused = list[str]()

    def read() -> None:
        with pytest.raises(BadFilterError) as raised:
            parse(where)
        refused.append(str(raised.value))

    before = threading.stack_size(256 * 1024)
    try:
        reading = threading.Thread(target=read)
        reading.start()
    finally:
        threading.stack_size(before)
    reading.join()
    assert refused == [Naming(20, "not, and, or")]


def test_depth_is_counted_by_meaning_not_by_signs() -> None:
    ids = ", ".join(f"'note-not-(({i}'" for i in range(1000))
    assert len(parse(f"id in ({ids})").operands) == 1000
    assert parse("(" * 1000 + "a = 1" + ")" * 1000) == A
    many = " and ".join(f"(a not in ({i}))" for i in range(500))
    assert len(parse(many).operands) == 500
    assert parse("not " * 20 + "a = 1") == parse(nested_mapping(20))


NAMES = st.sampled_from(["a", "year", "größe", "x-y", "_z", "in", "and", "true", "missing"])
SINGLE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters='\0"`'), min_size=1, max_size=8
).map(lambda name: (name,))
PATHS = SINGLE | st.lists(NAMES, min_size=1, max_size=3).map(tuple)


@given(expressions(PATHS), st.data())
def test_an_expression_that_is_written_down_is_read_back_the_same(
    expression: Expression, data: st.DataObject
) -> None:
    text = written(expression, lambda ways: data.draw(st.integers(0, ways - 1)))
    assert repr(parse(text)) == repr(expression)


TOKENS = st.sampled_from(
    [
        "a",
        "not",
        "and",
        "or",
        "in",
        "is",
        "missing",
        "contains",
        "(",
        ")",
        ",",
        "=",
        "<",
        "!=",
        "1",
        "'x'",
        "'",
        '"',
        "`",
        "2021-03-05",
        "2021-99-99",
        "true",
        ".",
        "-",
        "٣",
        "２０２１-01-01",
        "1e999",
        ";",
        "--",
    ]
)


@example("a = ²")
@example("a = ٣")
@example("a = 2021-03-05T")
@given(st.text() | st.text(string.printable) | st.lists(TOKENS, max_size=12).map(" ".join))
def test_whatever_is_typed_gives_an_expression_or_a_bad_filter_error(text: str) -> None:
    try:
        parse(text)
    except BadFilterError as error:
        assert str(error)  # noqa: PT017 - both ends are right


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.text() | st.sampled_from(["and", "or", "not", "a", "a.b", "."]) | st.integers()


@pytest.mark.long
@given(st.dictionaries(KEYS, VALUES | st.dictionaries(st.sampled_from(["<", "in", "!=", "missing"]), VALUES)))
def test_whatever_mapping_is_given_makes_an_expression_or_a_bad_filter_error(
    where: dict[object, object],
) -> None:
    try:
        parse(where)
    except BadFilterError as error:
        assert str(error)  # noqa: PT017 - both ends are right


def test_a_sign_that_a_page_made_of_two_characters_is_understood() -> None:
    assert parse("year ≥ 2019 and year ≤ 2021") == parse("year >= 2019 and year <= 2021")
    assert parse("year ≠ 2019") == parse("year != 2019")
    assert parse({"year": {"≥": 2019}}) == parse({"year": {">=": 2019}})
    assert parse({"year": {"≠": 2019}}) == parse({"year": {"!=": 2019}})
    assert parse({"year": {"≠": None}}) == parse({"year": {"!=": None}})
