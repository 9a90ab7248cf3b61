"""Documents from rows with named fields."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Final, NoReturn, TypeAlias
from uuid import UUID

import numpy as np

from nearsay.data.document import Document, JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.fields import MISSING, Fields, FieldSurvey, reach
from nearsay.data.json_values import MAX_FIELDS, UnusableRowError, check_string, is_blank, is_nan, json_value
from nearsay.data.lines import too_long

MAX_ID_CHARACTERS: Final = 512
_VECTOR_NAMES: Final = ("vector", "vectors", "embedding", "embeddings")
_VECTOR_NUMBERS: Final = 16  # fewer may be anything

Row: TypeAlias = tuple[int, Mapping[str, object]]  # the line it starts at, its fields


class RowDocuments:
    """Makes documents from rows with the chosen fields."""

    def __init__(
        self,
        fields: Fields,
        *,
        name: str,
        source: str | None,
        max_text_bytes: int,
        nan_is_missing: bool = False,
    ) -> None:
        """`name`: the file, for faults; `source`: for documents.

        nan_is_missing: omit metadata that are NaN, infinite or null; otherwise null is kept and the others
            are faults
        """
        self._fields = fields
        self._name = name
        self._source = source
        self._limit = max_text_bytes
        self._nan_is_missing = nan_is_missing
        self._used = frozenset({fields.text, fields.id, fields.title})
        self._inner = any("." in name for name in self._used if name)

    def documents(self, rows: Iterable[Row | Fault]) -> Iterator[Document | Fault]:
        """Convert rows to documents one by one; faults are passed on."""
        document, name = self.document, self._name
        for row in rows:
            if isinstance(row, Fault):
                yield row
                continue
            try:
                yield document(*row)
            except UnusableRowError as error:
                yield Fault(name, row[0], str(error))

    def document(self, line: int, row: Mapping[str, object]) -> Document:
        """Make one document; UnusableRowError says why it is impossible."""
        fields = self._fields
        if len(row) > MAX_FIELDS:
            raise UnusableRowError(f"the row has {len(row):,} fields, and at most {MAX_FIELDS:,} are allowed")
        text = checked_text(reach(row, fields.text), fields.text, self._limit)
        return Document(
            text,
            None if fields.id is None else row_id(reach(row, fields.id), fields.id),
            "" if fields.title is None else row_title(reach(row, fields.title), fields.title),
            self._metadata(row),
            self._source,
            line,
        )

    def _metadata(self, row: Mapping[str, object]) -> dict[str, JsonValue]:
        kept: dict[str, JsonValue] = {}
        if self._fields.metadata is not None:
            inner = row.get("metadata")
            for name in self._fields.metadata:
                value = reach(row, name)
                if value is MISSING and isinstance(inner, Mapping):
                    value = inner.get(name, MISSING)
                if value is not MISSING:
                    self._keep(kept, name, value)
            return kept
        used = self._used
        if self._inner:
            row = _without(row, used)
        for name, value in row.items():
            if name in used:
                continue
            if name == "metadata" and isinstance(value, Mapping):
                for key, inner_value in value.items():
                    if key in used or key == "metadata" or key not in row:  # the row's own metadata win
                        self._keep(kept, str(key), inner_value)
            else:
                self._keep(kept, name, value)
        return kept

    def _keep(self, kept: dict[str, JsonValue], name: str, value: object) -> None:
        check_string(name, "a field's name")
        if type(value) is str:  # most are, and need no converter
            check_string(value, f"the field {name!r}")
            kept[name] = value
            return
        usable = json_value(value, f"the field {name!r}", nan_is_none=self._nan_is_missing)
        if self._fields.metadata is None:  # else it was asked for by its name
            refuse_vector(name, usable)
        if usable is not None or not self._nan_is_missing:
            kept[name] = usable


def _without(row: Mapping[str, object], used: Set[str | None], path: str = "") -> dict[str, object]:
    """A row without the used fields, and without mappings that are then empty."""
    kept: dict[str, object] = {}
    for key, value in row.items():
        place = f"{path}{key}"
        inner = _without(value, used, f"{place}.") if isinstance(value, Mapping) else value
        if place not in used and (inner or not value):
            kept[key] = inner
    return kept


def refuse_vector(name: str, value: JsonValue) -> None:
    """Raise UnusableRowError for an embedding, because as metadata it would never be searched."""
    inner = value[0] if isinstance(value, list) and value and isinstance(value[0], list) else value
    if name.lower() not in _VECTOR_NAMES or not isinstance(inner, list) or len(inner) < _VECTOR_NUMBERS:
        return
    if all(isinstance(number, int | float) and not isinstance(number, bool) for number in inner):
        raise UnusableRowError(
            f"the field {name!r} holds a vector of {len(inner):,} numbers, and vectors are not taken: the "
            "collection's encoder embeds the text. Leave the field out, or name the fields to keep: "
            "--metadata FIELD,…, in Python ReadOptions(metadata=(…))"
        )


def checked_text(value: object, field: str, limit: int) -> str:
    """A row's text; UnusableRowError if there is none or it cannot be stored."""
    if type(value) is not str and not isinstance(value, str):
        if value is MISSING:
            raise UnusableRowError(f"no text: the field {field!r} is missing")
        if value is None or is_nan(value):  # NaN: pandas' way to say null
            raise UnusableRowError(f"no text: the field {field!r} is null")
        raise UnusableRowError(f"the text field {field!r} is {_kind(value)}, not text")
    if is_blank(value):
        raise UnusableRowError(f"the text field {field!r} is empty")
    if len(value) * 4 > limit and len(value.encode("utf-8", "surrogatepass")) > limit:
        raise UnusableRowError(too_long("the text", limit))
    check_string(value, "the text")
    return str(value)


def row_title(value: object, field: str) -> str:
    """A row's title, "" if it has none; UnusableRowError if it is invalid."""
    if isinstance(value, str):
        check_string(value, "the title")
        return str(value).strip()
    if value is None or value is MISSING or is_nan(value):
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value if isinstance(value, float) else json_value(value, "the title"))
    raise UnusableRowError(f"the title field {field!r} is {_kind(value)}, not text")


def row_id(value: object, field: str) -> str | None:
    """A row's id, None if it has none; UnusableRowError if it is invalid."""
    if isinstance(value, str):
        check_string(value, "the id")
        text = str(value)
    elif value is None or value is MISSING or is_nan(value):
        return None
    else:
        plain = json_value(value, "the id")
        if isinstance(plain, float) and plain.is_integer():
            plain = int(plain)
        if isinstance(plain, bool) or not isinstance(plain, str | int):
            raise UnusableRowError(
                f"the id field {field!r} is {_kind(plain)}, not a string or a whole number"
            )
        # a number past 512 digits may be past what Python prints, too
        text = str(plain) if isinstance(plain, str) or plain.bit_length() < 1700 else "9" * 513
    if len(text) > MAX_ID_CHARACTERS:
        raise UnusableRowError(f"the id is longer than {MAX_ID_CHARACTERS} characters")
    return text if text.strip() else None


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"of type {type(value).__name__}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


_JSON_NAME: Final = re.compile(r"\.(json|jsonl|ndjson)(\.gz)?$", re.IGNORECASE)


def signs_of_list(name: str) -> tuple[bytes, ...]:
    """How a file of that name begins if it is a JSON list of rows; (): it cannot be one.

    Standard input, and files whose name does not tell, may be text that begins with a bracket.
    """
    found = _JSON_NAME.search(name)
    return (b'[{"', b"[{}") if found is None else (b"[",) if found[1].lower() == "json" else ()


def json_rows(lines: Iterable[tuple[int, str] | Fault], name: str) -> Iterator[Row | Fault]:
    """Parse one object per line. Blank lines are skipped; anything but an object is a fault of file `name`.

    Of a duplicate name in an object the last value counts, as in Python's json and in jq. Raises
    BadInputError for a file with values over several lines, which would give a fault per line.
    """
    decode = _DECODER.raw_decode
    if _JSON_NAME.search(name):
        lines = _unless_one_value(iter(lines), name)
    for item in lines:
        if isinstance(item, Fault):
            yield item
            continue
        number, line = item
        line = line.strip()
        if not line:
            continue
        try:
            value, end = decode(line)
        except json.JSONDecodeError as error:
            yield Fault(name, number, f"not JSON: {error.msg} at column {error.colno}")
            continue
        except RecursionError:
            yield Fault(name, number, "not JSON that can be read: nested too deeply")
            continue
        except ValueError as error:  # NaN, Infinity, or a number of more digits than Python converts
            yield Fault(name, number, f"not JSON: {str(error).partition(';')[0]}")
            continue
        if end != len(line):
            yield Fault(name, number, f"not JSON: more after the value, at column {end + 1}")
        elif type(value) is not dict:
            yield Fault(name, number, f"not a JSON object: it starts with {line[:20]!r}")
        else:
            yield number, value


def _unless_one_value(
    lines: Iterator[tuple[int, str] | Fault], name: str
) -> Iterator[tuple[int, str] | Fault]:
    """The lines; BadInputError if the first begins a list, or a value that continues on the second.

    A JSON lines file is a single list only if nothing follows it; otherwise the list is a row like others.
    """
    taken: list[tuple[int, str] | Fault] = []
    filled: list[str] = []
    for item in lines:
        taken.append(item)
        if not isinstance(item, Fault) and item[1].strip():
            filled.append(item[1].strip())
        if len(filled) > 1:
            break
    starts_list = bool(filled) and filled[0].startswith("[")
    is_list = starts_list and len(filled) == 1 and not signs_of_list(name)  # whose values came one by one
    if is_list or (len(filled) > 1 and _goes_on(*filled)):
        rows = _JSON_NAME.sub(".jsonl", name)
        rows = rows if rows != name else _JSON_NAME.sub("-rows.jsonl", name)
        file = f"<(gzip -dc {shlex.quote(name)})" if name.lower().endswith(".gz") else shlex.quote(name)
        part = ".[]" if starts_list else "."
        raise BadInputError(
            f"{name} holds JSON over several lines, or a list, not one object a line. "
            f"Convert it: jq -c '{part}' {file} > {shlex.quote(rows)}"
        )
    return chain(taken, lines)


def _goes_on(first: str, second: str) -> bool:
    """Whether the first line ends within a value that continues on the second."""
    return _fails_at(first) >= len(first) and _fails_at(f"{first}\n{second}") != len(first) + 1


def _fails_at(text: str) -> int:
    """Where a text stops being a JSON value; -1 if it begins with one, or it cannot be determined."""
    try:
        _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        return error.pos if isinstance(error, json.JSONDecodeError) else -1
    return -1


SURVEYED_ROWS: Final = 100
_LOOKED_THROUGH: Final = 10_000
_SURVEYED_CHARACTERS: Final = 8 * 2**20  # fewer rows when they are long: they are held in memory


def first_rows(rows: Iterator[Row | Fault], named: Iterable[str | None] = ()) -> list[Row | Fault]:
    """The rows that fields are guessed from: 100 valid ones, or those in 8 million characters.

    named: fields named by the user; if the first 100 rows lack one, up to 10,000 are read
    """
    taken: list[Row | Fault] = []
    lacking = set(named) - {None}
    good = size = 0
    for row in rows:
        taken.append(row)
        if isinstance(row, Fault):
            size += len(row.reason)
        else:
            good += 1
            size += sum(len(value) for value in row[1].values() if isinstance(value, str))
            lacking = {name for name in lacking if name and reach(row[1], name) is MISSING}
        if good >= (_LOOKED_THROUGH if lacking else SURVEYED_ROWS) or size >= _SURVEYED_CHARACTERS:
            break
    return taken


def survey_rows(rows: Sequence[Mapping[str, object]]) -> FieldSurvey:
    """Find the fields of rows of objects, and the types of their values."""
    names: dict[str, None] = {}
    inner: dict[str, None] = {}
    texts: set[str] = set()
    ids: set[str] = set()
    for row in rows:
        for name, value in row.items():
            names[name] = None
            if isinstance(value, str):
                texts.add(name)
                ids.add(name)
            elif isinstance(value, int | np.integer | UUID) and not isinstance(value, bool):
                ids.add(name)
            elif isinstance(value, Mapping) and name == "metadata":
                inner.update((str(key), None) for key in value)
    return FieldSurvey(
        names=tuple(names),
        text_names=tuple(name for name in names if name in texts),
        id_names=tuple(name for name in names if name in ids),
        inner_names=tuple(inner),
        has=lambda name: any(reach(row, name) is not MISSING for row in rows),
    )


def survey_header(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> FieldSurvey:
    """Find the fields of a header, and the one with the longest texts in the first rows."""
    known = tuple(name for name in names if name)
    lengths = {name: sum(len(str(row.get(name, ""))) for row in rows) for name in known}
    longest = max(known, key=lambda name: lengths[name], default=None)
    return FieldSurvey(names=known, text_names=known, id_names=known, longest=longest)
