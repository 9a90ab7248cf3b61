"""JSON encoding, and metadata fields as SQL expressions, for SQLite's JSON and PostgreSQL's jsonb alike.

If the field is missing, any expression may be NULL: use it inside CASE or COALESCE. `text` and `number` are
only valid where `is_text` and `is_number` hold. Text of up to 18 digits counts as a number.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import encoder as standard
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import FromClause

from nearsay.indexer.catalogue.tables import documents


def _writer(*, sort_keys: bool) -> Callable[[object], str]:
    """Like `json.dumps(…, ensure_ascii=False, sort_keys=sort_keys)`, in half its time for a small value.

    `JSONEncoder.encode` creates an encoder in C for each value; if Python has that encoder with CPython
    3.11's signature, it is created only once here. It does not check for cycles, since the readers limit the
    depth of values.
    """
    plain = json.JSONEncoder(ensure_ascii=False, sort_keys=sort_keys)
    make = getattr(standard, "c_make_encoder", None)
    if make is None:
        return plain.encode
    try:
        pieces = make(
            None, plain.default, standard.encode_basestring, None, ": ", ", ", sort_keys, False, True
        )
    except TypeError:  # Python does not document it
        return plain.encode

    def text(value: object) -> str:
        return "".join(pieces(value, 0))

    return text


# Names of fields are stored as they are, so that SQLite's JSON paths find them.
json_text: Final = _writer(sort_keys=False)
sorted_json_text: Final = _writer(sort_keys=True)


Condition = ColumnElement[bool]
_DIGITS = 18  # text of so many digits fits a 64-bit integer and counts as a number


@dataclass(frozen=True, slots=True)
class SqlValue:
    """One JSON value."""

    is_there: Condition  # neither missing nor null; never NULL
    is_text: Condition
    is_number: Condition  # text of digits included
    is_true: Condition
    is_false: Condition
    is_list: Condition
    text: ColumnElement[str]
    number: ColumnElement[Any]


def metadata_value(path: Sequence[str], dialect: str) -> SqlValue:
    """The value at a path of names in a document's metadata; `dialect`: sqlite or postgresql."""
    if dialect == "sqlite":
        where = _path("$", path)
        kind = sa.func.json_type(documents.c.metadata, where, type_=sa.Text)
        return _sqlite_value(kind, sa.func.json_extract(documents.c.metadata, where))
    return _postgres_value(_postgres_found(path))


def metadata_json(path: Sequence[str], dialect: str) -> ColumnElement[str]:
    """The value at a path of names, all digits kept, as the first of a JSON list; NULL or null: none."""
    if dialect == "sqlite":  # of several paths it gives a list; the second leads nowhere in an object
        return sa.func.json_extract(documents.c.metadata, _path("$", path), "$[0]", type_=sa.Text)
    return sa.cast(sa.func.jsonb_build_array(_postgres_found(path)), sa.Text)


def elements(path: Sequence[str], dialect: str) -> tuple[FromClause, SqlValue]:
    """The elements of the list at a path: the selectable, and each element.

    SQLite: only valid if the value is a list; otherwise it yields an object's members or the value itself.
    """
    if dialect == "sqlite":
        each = sa.func.json_each(documents.c.metadata, _path("$", path)).table_valued(
            "value", sa.column("type", sa.Text), joins_implicitly=True
        )
        return each, _sqlite_value(each.c.type, each.c.value)
    found = _postgres_found(path)
    kind = sa.func.jsonb_typeof(found, type_=sa.Text)
    array = sa.case((kind == "array", found), else_=sa.text("'[]'::jsonb"))
    listed = sa.func.jsonb_array_elements(array).table_valued("value", joins_implicitly=True).render_derived()
    return listed, _postgres_value(sa.type_coerce(listed.c.value, documents.c.metadata.type))


def digits(text: ColumnElement[str], dialect: str) -> Condition:
    """Whether a text counts as a number."""
    if dialect == "sqlite":
        only = text.op("NOT GLOB", is_comparison=True)("*[^0-9]*")
        return sa.and_(only, sa.func.length(text).between(1, _DIGITS))
    return text.op("~", is_comparison=True)(f"^[0-9]{{1,{_DIGITS}}}$")


def _path(root: str, path: Sequence[str]) -> str:
    # Names stand in the path as they stand in the stored text.
    return root + "".join(f".{json.dumps(name, ensure_ascii=False)}" for name in path)


def _sqlite_value(kind: ColumnElement[str], value: ColumnElement[Any]) -> SqlValue:
    """SQLite's JSON functions: https://sqlite.org/json1.html"""
    return SqlValue(
        is_there=sa.func.coalesce(kind != "null", sa.false()),
        is_text=kind == "text",
        is_number=sa.or_(kind == "integer", kind == "real", sa.and_(kind == "text", digits(value, "sqlite"))),
        is_true=kind == "true",
        is_false=kind == "false",
        is_list=kind == "array",
        text=value,
        number=sa.case((kind == "text", sa.cast(value, sa.Integer)), else_=value),
    )


def _postgres_found(path: Sequence[str]) -> ColumnElement[Any]:
    # Strict: a number in the path names a field and no element of a list, as in SQLite.
    where = sa.cast(sa.literal(_path("strict $", path), sa.Text), JSONPATH)
    return sa.func.jsonb_path_query_first(
        documents.c.metadata, where, sa.text("'{}'"), sa.true(), type_=documents.c.metadata.type
    )


def _postgres_value(value: ColumnElement[Any]) -> SqlValue:
    """PostgreSQL's jsonb: https://www.postgresql.org/docs/current/functions-json.html"""
    kind = sa.func.jsonb_typeof(value, type_=sa.Text)
    text = sa.cast(sa.func.jsonb_extract_path_text(sa.func.jsonb_build_array(value), "0"), sa.Text)
    return SqlValue(
        is_there=sa.func.coalesce(kind != "null", sa.false()),
        is_text=kind == "string",
        is_number=sa.or_(kind == "number", sa.and_(kind == "string", digits(text, "postgresql"))),
        is_true=sa.and_(kind == "boolean", text == "true"),
        is_false=sa.and_(kind == "boolean", text == "false"),
        is_list=kind == "array",
        text=text,
        number=sa.cast(text, sa.Numeric),
    )
