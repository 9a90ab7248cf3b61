"""Reports: frozen dataclasses with a JSON form."""

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, Union, cast

from nearsay.data.document import JsonValue

Row = dict[str, str | int | float]


def column(title: str, form: str | Callable[[Any], str] = "") -> Mapping[str, Any]:
    """Metadata of a field that tables show; form: as for `format`, or a function that formats the value."""
    return {"title": title, "form": form}


def table(rows: Iterable[Any]) -> list[Row]:
    """A row per dataclass, with the fields that are columns, without columns that are empty in all rows."""
    found = [
        {each.metadata["title"]: _cell(row, each) for each in fields(row) if each.metadata} for row in rows
    ]
    filled = {title for row in found for title, cell in row.items() if cell != ""}
    return [{title: cell for title, cell in row.items() if title in filled} for row in found]


def _cell(row: object, part: Field[Any]) -> str | int | float:
    value, form = getattr(row, part.name), part.metadata["form"]
    if value is None or form == "":
        return "" if value is None else cast("str | int | float", value)
    return format(value, form) if isinstance(form, str) else str(form(value))


class Report:
    """The base of all reports: commands print `to_json()`, jobs store it, `from_json` restores it.

    Its JSON object begins with the kind, as in {"report": "added", …}, followed by each field.
    """

    __slots__ = ()
    REPORT: ClassVar[str]  # the kind; `nearsay.indexer.results` lists all

    def to_json(self) -> dict[str, JsonValue]:
        """The report in JSON types: lists for tuples, strings for paths and enums."""
        found = as_json(self)
        assert isinstance(found, dict)  # noqa: S101 - for the type checker: a dataclass is one
        return {"report": self.REPORT, **found}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Restore a report from `to_json`; unknown keys are ignored.

        Raises ValueError, KeyError or TypeError for anything else.
        """
        return cast("Self", of_json(cls, row))


@dataclass(frozen=True, slots=True)
class Done(Report):
    """How many of something a command removed, wrote, ended or switched on."""

    REPORT: ClassVar = "done"

    action: str  # removed, would remove (a dry run), written, pushed, ended, taken back, switched on
    what: str  # documents, collections, jobs …
    count: int
    to: str | None = None  # the file or address that it was written to

    def lines(self) -> list[str]:
        """The report as a sentence."""
        return [f"{self.action} {self.count:,} {self.what}" + (f" to {self.to}" if self.to else "")]


@dataclass(frozen=True, slots=True)
class Finding(Report):
    """The result of one check of the doctor."""

    REPORT: ClassVar = "finding"

    subject: str
    detail: str
    sound: bool

    def lines(self) -> list[str]:
        """The finding as a line."""
        return [f"{'ok   ' if self.sound else 'WRONG'} {self.subject}: {self.detail}"]


def as_json(value: object) -> JsonValue:
    """Convert a value of a report to JSON types."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if value is None or isinstance(value, str | int | float):  # bool is an int
        return value
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(as_json(name)): as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    if hasattr(value, "item"):  # a number of NumPy's
        return as_json(value.item())
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def of_json(kind: Any, value: Any) -> Any:  # noqa: ANN401 - whatever the type says
    """Restore a value of a given type from `as_json`."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(parts, value)
    if origin is Literal or kind is Any or isinstance(kind, typing.ForwardRef):
        return value
    if origin is tuple and parts[-1:] != (Ellipsis,):
        return tuple(of_json(part, one) for part, one in zip(parts, value, strict=True))
    if origin is tuple:
        return tuple(of_json(parts[0], one) for one in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_key(parts[0], name): of_json(parts[1], one) for name, one in value.items()}
    return [of_json(parts[0], one) for one in value] if isinstance(origin, type) else _plain(kind, value)


def _plain(kind: Any, value: Any) -> Any:  # noqa: ANN401
    """A value of a type without parts."""
    if is_dataclass(kind):
        known = _fields(cast("type", kind))
        return kind(**{name: of_json(known[name], one) for name, one in value.items() if name in known})  # type: ignore[operator]
    if kind in (int, float, str, bool):
        return float(value) if kind is float and value is not None else value
    return kind(value)  # a choice, a path


def _one_of(parts: tuple[Any, ...], value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    others = [part for part in parts if part is not type(None)]
    if len(others) == 1:
        return of_json(others[0], value)
    return value  # of several plain types, as int | float | str


def _key(kind: Any, name: str) -> Any:  # noqa: ANN401
    return int(name) if kind is int else of_json(kind, name)


@cache
def _fields(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.init}
