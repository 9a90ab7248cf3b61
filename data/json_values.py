"""Conversion of metadata values to JSON."""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Final
from uuid import UUID

import numpy as np

from nearsay.data.document import JsonValue

MAX_DEPTH: Final = 32  # lists and mappings inside one another
MAX_FIELDS: Final = 16_384  # of a row, each kept by its name; spreadsheets have as many columns at most
MAX_VALUES: Final = 100_000  # in one field, against aliases that multiply (YAML) and runaway rows


_MOST_BITS: Final = 13_288  # of a whole number, 4,000 digits: Python prints no more than 4,300


_SEEN: Final = re.compile(r"[^\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


class UnusableRowError(Exception):
    """The reason why a row cannot be used; readers turn it into a fault."""


def check_string(text: str, what: str) -> None:
    """Raise UnusableRowError if `text` contains NUL or a lone surrogate, which databases refuse."""
    if "\0" in text:
        raise UnusableRowError(f"{what} holds a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnusableRowError(f"{what} holds a lone surrogate, which is no character") from None


def text_of(value: object, what: str) -> str:
    """Check a text; UnusableRowError if it is missing, empty, not a text, or cannot be stored."""
    if not isinstance(value, str):
        if value is None or is_nan(value):
            raise UnusableRowError(f"{what} is missing")
        raise UnusableRowError(f"{what} is no text but of type {type(value).__name__}")
    if is_blank(value):
        raise UnusableRowError(f"{what} is empty")
    check_string(value, what)
    return value


def is_blank(text: str) -> bool:
    """Whether `text` consists of white space and zero-width characters."""
    return _SEEN.search(text) is None


def is_nan(value: object) -> bool:
    """Whether `value` is a floating point NaN, of Python or NumPy."""
    return isinstance(value, float | np.floating) and math.isnan(value)


def json_value(value: object, what: str, *, nan_is_none: bool = False) -> JsonValue:
    """Convert `value` to JSON types.

    Dates and times become ISO strings, decimals floats (integers if they have no fraction, as database ids),
    UUIDs strings, tuples lists, NumPy scalars and arrays Python values; keys become strings. `what` names the
    field in messages. NaN and infinity become None with `nan_is_none`; otherwise they raise UnusableRowError,
    as do bytes, sets, other objects, NUL, lone surrogates, nesting deeper than MAX_DEPTH and more than
    MAX_VALUES values.
    """
    return _Converter(what, nan_is_none=nan_is_none).convert(value, 0)


def _plain_number(value: Decimal) -> int | float:
    if value.is_nan():
        return math.nan
    return int(value) if value.as_tuple().exponent == 0 else float(value)


class _Converter:
    def __init__(self, what: str, *, nan_is_none: bool) -> None:
        self.what = what
        self.nan_is_none = nan_is_none
        self.left = MAX_VALUES

    def convert(self, value: object, depth: int) -> JsonValue:
        self.left -= 1
        if depth > MAX_DEPTH:
            raise UnusableRowError(f"{self.what} is nested deeper than {MAX_DEPTH} levels")
        if self.left < 0:
            raise UnusableRowError(f"{self.what} holds more than {MAX_VALUES:,} values")
        if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "mM":
            kind = "datetime64" if value.dtype.kind == "M" else "timedelta64"
            value = value.astype(f"{kind}[us]")  # of nanoseconds NumPy would make numbers
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if isinstance(value, Decimal):
            value = _plain_number(value)
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise UnusableRowError(f"{self.what} holds a whole number of more than 4,000 digits")
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            check_string(value, self.what)
            return str(value)
        if isinstance(value, float):
            return self._number(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.convert(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.convert(inner, depth + 1) for inner in value]
        return self._other(value)

    def _number(self, value: float) -> float | None:
        if math.isfinite(value):
            return value
        if self.nan_is_none:
            return None
        raise UnusableRowError(f"{self.what} is {value}, which JSON has no number for")

    def _key(self, key: object) -> str:
        text = key if isinstance(key, str) else str(self.convert(key, MAX_DEPTH))
        check_string(text, f"a key of {self.what}")
        return text

    def _other(self, value: object) -> str | None:
        if isinstance(value, datetime | date | time):
            text = value.isoformat()
            return None if text == "NaT" else text  # pandas' way to say none
        if isinstance(value, UUID):
            return str(value)
        raise UnusableRowError(f"{self.what} is of type {type(value).__name__}, which is no JSON value")
