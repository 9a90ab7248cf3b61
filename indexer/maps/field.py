"""One metadata field of everything on a map, as what it can be coloured by: categories, numbers or dates."""

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue

__all__ = ["Field", "FieldKind", "field_of", "value_at"]

_BLANK = "(empty)"
_LONGEST = 120  # characters of a value that is shown
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:$|[T ])")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d+)?$")
_MOST_EXACT = 2**53  # larger whole numbers are names of things, and a page would round them
_MOST = 1e100  # of other numbers; with larger ones nothing can be reckoned
_EPOCH = dt.date(1970, 1, 1).toordinal()


class FieldKind(StrEnum):
    """What a field's values are."""

    CATEGORY = "category"
    NUMBER = "number"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Field:
    """A value for each passage, or none."""

    name: str
    kind: FieldKind
    values: tuple[str, ...]  # of categories: the commonest first, ties by name
    codes: NDArray[np.int32]  # (n,) which of them, -1 = none; of numbers and dates empty
    numbers: NDArray[np.float64]  # (n,) of dates: days since 1970; NaN = none; of categories empty

    @property
    def missing(self) -> int:
        """How many have no value."""
        gone = self.codes < 0 if self.kind is FieldKind.CATEGORY else np.isnan(self.numbers)
        return int(gone.sum())

    @property
    def span(self) -> tuple[float, float]:
        """Of numbers and dates: from where to where colours run; a hundredth at either end is beyond."""
        low, high = np.nanquantile(self.numbers, (0.01, 0.99), method="inverted_cdf").tolist()
        return low, high


def value_at(metadata: Mapping[str, JsonValue], path: Sequence[str]) -> JsonValue:
    """What stands at a path of names, from the metadata inwards; None if nothing does."""
    found: JsonValue = dict(metadata)
    for name in path:
        if not isinstance(found, dict) or name not in found:
            return None
        found = found[name]
    return found


def field_of(name: str, found: Sequence[JsonValue]) -> Field:
    """The field with these values, None = none.

    Numbers are those of which all are numbers, or text that is a number (a year is often text); dates those
    of which all begin as 2024-05-17. All others are categories: truth values, lists, whole numbers beyond
    2^53, which are most often names of things.
    """
    there = [value for value in found if value is not None]
    empty = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float64)
    if there and all(_is_number(value) for value in there):
        numbers = np.array([np.nan if value is None else float(str(value)) for value in found])
        return Field(name, FieldKind.NUMBER, (), empty[0], numbers)
    days = [_day(value) for value in found]
    if there and sum(day is not None for day in days) == len(there):
        numbers = np.array([np.nan if day is None else day for day in days], dtype=np.float64)
        return Field(name, FieldKind.DATE, (), empty[0], numbers)
    texts = [None if value is None else _text(value) for value in found]
    counted = Counter(text for text in texts if text is not None)
    values = tuple(sorted(counted, key=lambda text: (-counted[text], text)))
    code = {text: at for at, text in enumerate(values)}
    codes = np.array([-1 if text is None else code[text] for text in texts], dtype=np.int32)
    return Field(name, FieldKind.CATEGORY, values, codes, empty[1])


def _is_number(value: JsonValue) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return _NUMBER.match(value) is not None
    if isinstance(value, int):
        return abs(value) <= _MOST_EXACT
    return isinstance(value, float) and abs(value) <= _MOST


def _day(value: JsonValue) -> float | None:
    """Days since 1970; None for what is no date."""
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        return float(dt.date.fromisoformat(value[:10]).toordinal() - _EPOCH)
    except ValueError:
        return None


def _text(value: JsonValue) -> str:
    if isinstance(value, list):
        text = ", ".join(_text(each) for each in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.strip():
        return _BLANK
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
