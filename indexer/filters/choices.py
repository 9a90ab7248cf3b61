"""Filters as choices of field values: in the filter language, as one line for a URL, and in words."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from nearsay.data.errors import BadInputError

Value: TypeAlias = str | int | float | bool

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The conditions on a field, all of which must hold."""

    values: tuple[Value, ...] = ()  # one of these; empty: any
    low: str | int | float | None = None  # minimum, inclusive: a number, or a day such as 2021-03-05
    high: str | int | float | None = None  # maximum, inclusive
    piece: str = ""  # substring of the field's text, case-sensitive

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return bool(self.values or self.piece) or self.low is not None or self.high is not None


Choices: TypeAlias = Mapping[str, Choice]  # by field, as the filter language writes its name


def read_choices(text: str) -> dict[str, Choice]:
    """Parse the output of `written`; BadInputError for anything else, since users can edit URLs."""
    if not text:
        return {}
    try:
        return {name: choice for name, each in _object(json.loads(text)).items() if (choice := _choice(each))}
    except (ValueError, TypeError, RecursionError):
        raise BadInputError("the filter in the address cannot be read. Choose it again") from None


def written(choices: Choices) -> str:
    """The choices as one short line, the same for equal choices; "" for none."""
    row: dict[str, object] = {}
    for name, choice in sorted(choices.items()):
        if not choice:
            continue
        only = replace(choice, values=())
        if choice.values and not only:
            row[name] = list(choice.values)
        else:
            parts: dict[str, object] = {"low": choice.low, "high": choice.high, "has": choice.piece or None}
            parts["in"] = list(choice.values) or None
            row[name] = {key: part for key, part in parts.items() if part is not None}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) if row else ""


def filter_text(choices: Choices, expert: str = "") -> str:
    """The choices and the expert filter in the filter language; "" for no filter.

    expert: a filter written by the user
    """
    parts = [part for name, choice in choices.items() for part in _parts(name, choice)]
    if expert.strip():
        parts.append(f"({expert.strip()})" if parts else expert.strip())
    return " and ".join(parts)


def said(name: str, choice: Choice, names: Mapping[Value, str] | None = None) -> str:
    """One field's choice in words: year 2019 to 2021.

    names: display names of values
    """
    called = names or {}
    parts = []
    if choice.values:
        parts.append(" or ".join(called.get(value, _shown(value)) for value in choice.values))
    if choice.low is not None and choice.high is not None:
        parts.append(f"{_shown(choice.low)} to {_shown(choice.high)}")
    elif choice.low is not None:
        parts.append(f"from {_shown(choice.low)}")
    elif choice.high is not None:
        parts.append(f"up to {_shown(choice.high)}")
    if choice.piece:
        parts.append(f"with “{choice.piece}”")
    return f"{name.strip('`')}: {', '.join(parts)}"


def without(choices: Choices, name: str) -> dict[str, Choice]:
    """The other fields' choices."""
    return {other: choice for other, choice in choices.items() if other != name}


def _object(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError
    return found


def _choice(given: object) -> Choice:
    if isinstance(given, list):
        return Choice(values=_values(given))
    found = _object(given)
    piece = found.get("has", "")
    if not isinstance(piece, str):
        raise TypeError
    return Choice(_values(found.get("in", [])), _bound(found.get("low")), _bound(found.get("high")), piece)


def _values(found: object) -> tuple[Value, ...]:
    if not isinstance(found, list):
        raise TypeError
    for value in found:
        if not _is_value(value):
            raise TypeError
    return tuple({(isinstance(value, bool), value): value for value in found}.values())


def _bound(found: object) -> str | int | float | None:
    if found is None:
        return None
    if (
        isinstance(found, bool)
        or not _is_value(found)
        or (isinstance(found, str) and not _DAY.fullmatch(found))
    ):
        raise TypeError
    return found


def _is_value(found: object) -> TypeGuard[Value]:
    if isinstance(found, float):
        return math.isfinite(found)
    return isinstance(found, str | int)


def _parts(name: str, choice: Choice) -> list[str]:
    parts = []
    if len(choice.values) == 1:
        parts.append(f"{name} = {_literal(choice.values[0])}")
    elif choice.values:
        parts.append(f"{name} in ({', '.join(_literal(value) for value in choice.values)})")
    for sign, bound in ((">=", choice.low), ("<=", choice.high)):
        if bound is not None:  # a day is written without quotes
            parts.append(f"{name} {sign} {bound if isinstance(bound, str) else _literal(bound)}")
    if choice.piece:
        parts.append(f"{name} contains {_literal(choice.piece)}")
    return parts


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
