"""Dates in metadata, the periods they fall into, and the dates of documents.

A date has the precision that it is written in: "2019" is a year and falls into no month. A value in no known
form is unreadable; nothing is guessed.

    text      2019, 2019-03, 2019-03-08, 20190308, 2019-W10, 2019-W10-5, 2019-03-08T10:30, …:30.5Z, …+02:00
    numbers   2019 (four digits: a year), 20190308 (eight: a day), 1552003200 (nine to eleven: seconds since
              1970), 1552003200000 (twelve to fourteen: milliseconds), both negative before 1970, with or
              without a fraction; whole numbers as text, too
"""

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.field_values import added_moments, document_values
from nearsay.indexer.filters.parse import parse_field
from nearsay.indexer.filters.sql import metadata_path

_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_WEEK = re.compile(r"[0-9]{4}-?W[0-9]{2}")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECONDS: Final = range(9, 12)  # digits
_MILLISECONDS: Final = range(12, 15)
_YEAR_DIGITS, _DAY_DIGITS = 4, 8
_MOST_PERIODS = 2_000  # of a chart
# The longest span, in days, for which the default period is a day, a week, a month.
_BY_DAY, _BY_WEEK, _BY_MONTH = 45, 400, 1500


class Period(StrEnum):
    """The length of a period of time, shortest first."""

    DAY = "day"
    WEEK = "week"  # ISO 8601: from Monday, W01 has the year's first Thursday
    MONTH = "month"
    YEAR = "year"

    def holds(self, dated: "Dated") -> bool:
        """Whether the whole date lies in one such period, so that it can be counted there."""
        return self.start(dated.first) == self.start(dated.last)

    def start(self, day: dt.date) -> dt.date:
        """The first day of the period that contains a day."""
        if self is Period.WEEK:
            return dt.date.fromordinal(max(1, day.toordinal() - day.weekday()))
        if self is Period.DAY:
            return day
        return day.replace(day=1) if self is Period.MONTH else day.replace(month=1, day=1)

    def label(self, start: dt.date) -> str:
        """2019-03-08, 2019-W10, 2019-03 or 2019."""
        if self is Period.WEEK:
            year, week, _ = start.isocalendar()
            return f"{year:04}-W{week:02}"
        return start.isoformat()[: {Period.DAY: 10, Period.MONTH: 7, Period.YEAR: 4}[self]]

    def after(self, start: dt.date) -> dt.date | None:
        """The first day of the next period; None at the end of the calendar."""
        days = {Period.DAY: 1, Period.WEEK: 7, Period.MONTH: 31, Period.YEAR: 366}[self]
        if start.toordinal() + days > dt.date.max.toordinal():
            return None
        return self.start(start + dt.timedelta(days))


@dataclass(frozen=True, slots=True)
class Dated:
    """The range of days that a written date may mean."""

    first: dt.date
    last: dt.date


def read_date(value: object) -> Dated | None:
    """Parse a metadata value as a date, in UTC if it names a zone; None if it is not a date."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):  # a timestamp may have a fraction, a year may not
        value = math.floor(value) if value.is_integer() or 1e8 <= abs(value) < 1e14 else value
    if isinstance(value, dt.datetime):
        return _day(_in_utc(value).date())
    if isinstance(value, dt.date):
        return _day(value)
    if not isinstance(value, str | int | float):
        return None
    try:
        return _read(str(value).strip())
    except (ValueError, OverflowError):
        return None


def finest(dates: Sequence[Dated]) -> Period:
    """The default period of a chart of these dates: by their span, and not shorter than any date."""
    span = (max(date.last for date in dates) - min(date.first for date in dates)).days
    limits = ((Period.DAY, _BY_DAY), (Period.WEEK, _BY_WEEK), (Period.MONTH, _BY_MONTH))
    # A period shorter than some date's precision would drop that date from the chart.
    for period, longest in limits:
        if span <= longest and all(period.holds(date) for date in dates):
            return period
    return Period.YEAR


def period_names(by: Period, first: dt.date, last: dt.date) -> dict[dt.date, str]:
    """The labels of all periods between two days by their first day, empty periods too.

    Raises BadInputError if there are more than 2,000.
    """
    names: dict[dt.date, str] = {}
    start: dt.date | None = by.start(first)
    while start is not None and start <= last:
        names[start] = by.label(start)
        if len(names) > _MOST_PERIODS:
            raise BadInputError(
                f"there are more than {_MOST_PERIODS:,} periods of a {by} from {first} to {last}. "
                "Choose a longer period, or exclude stray dates with a filter"
            )
        start = by.after(start)
    return names


def _read(text: str) -> Dated | None:
    if text.isascii() and text.removeprefix("-").isdigit():
        return _from_digits(text)
    if (found := _MONTH.fullmatch(text)) is not None:
        return _span(dt.date(int(found[1]), int(found[2]), 1), Period.MONTH)
    if _WEEK.fullmatch(text):
        return _span(dt.date.fromisoformat(f"{text}-1" if text[4] == "-" else f"{text}1"), Period.WEEK)
    if not text[:4].isdigit():
        return None
    return _day(_in_utc(dt.datetime.fromisoformat(text)).date())


def _from_digits(text: str) -> Dated | None:
    digits = len(text.removeprefix("-"))
    if len(text) == digits == _YEAR_DIGITS:
        return _span(dt.date(int(text), 1, 1), Period.YEAR)
    if len(text) == digits == _DAY_DIGITS:
        return _day(dt.date.fromisoformat(text))
    if digits in _SECONDS:
        return _day((_EPOCH + dt.timedelta(seconds=int(text))).date())
    if digits in _MILLISECONDS:
        return _day((_EPOCH + dt.timedelta(milliseconds=int(text))).date())
    return None


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _day(day: dt.date) -> Dated:
    return Dated(day, day)


def _span(start: dt.date, period: Period) -> Dated:
    after = period.after(start)
    return Dated(start, dt.date.max if after is None else after - dt.timedelta(1))


MISSING = -1
UNREADABLE = -2
_EXAMPLES = 3
_LONGEST_EXAMPLE = 40  # characters


@dataclass(frozen=True, slots=True)
class DocumentTimes:
    """The dates of some documents."""

    field: str  # "added" for the time of addition
    documents: NDArray[np.int64]  # (n,) document numbers, ascending
    codes: NDArray[np.int32]  # (n,) indices into `dates`, MISSING or UNREADABLE
    dates: tuple[Dated, ...]  # the distinct dates
    examples: tuple[str, ...]  # unreadable values, sorted, three at most

    @property
    def missing(self) -> int:
        """The number of documents whose field is missing or empty."""
        return int(np.count_nonzero(self.codes == MISSING))

    @property
    def unreadable(self) -> int:
        """The number of documents whose field holds no date."""
        return int(np.count_nonzero(self.codes == UNREADABLE))

    def notes(self) -> tuple[str, ...]:
        """Notes on the documents that have no date."""
        notes = []
        if self.missing:
            notes.append(f"not counted: {counted(self.missing, 'document')} without {self.field}")
        if self.unreadable:
            shown = ", ".join(f"'{example}'" for example in self.examples)
            notes.append(
                f"not counted: {counted(self.unreadable, 'document')} with no date in {self.field}, "
                f"such as {shown}. Write dates as 2019, 2019-03 or 2019-03-08"
            )
        return tuple(notes)

    def require_some(self) -> None:
        """Raise BadInputError if no document has a date."""
        if not self.dates:
            reason = "; ".join(self.notes()) or "there are no documents"
            raise BadInputError(f"no document has a date: {reason}. Choose another field or filter")


def document_times(
    connection: sa.Connection,
    collection_id: int,
    field: str | None,
    documents: NDArray[np.int64],
) -> DocumentTimes:
    """Read the dates of documents.

    field:     a metadata field as in a filter; None = the time of addition
    documents: (n,) document numbers, ascending

    Raises BadFilterError for an invalid field name, BadInputError for `text`.
    """
    values: Iterable[tuple[int, object]]
    if field is None:
        values = added_moments(connection, collection_id)
    else:
        path = metadata_path(parse_field(field))
        if path is None:
            raise BadInputError(f"'{field}' is not a metadata field. Name the field that holds the dates")
        values = document_values(connection, collection_id, path)
    codes = np.full(documents.size, MISSING, dtype=np.int32)
    place = dict(zip(documents.tolist(), range(documents.size), strict=True))
    known: dict[object, int] = {}
    dates: dict[Dated, int] = {}
    unreadable: set[str] = set()
    for number, value in values:
        row = place.get(number)
        if row is None or value == "":
            continue
        key = (type(value), value)
        if key not in known:
            date = read_date(value)
            known[key] = UNREADABLE if date is None else dates.setdefault(date, len(dates))
            if date is None:
                unreadable.add("a list or an object" if value is None else str(value)[:_LONGEST_EXAMPLE])
        codes[row] = known[key]
    examples = tuple(sorted(unreadable)[:_EXAMPLES])
    return DocumentTimes(field or "added", documents, codes, tuple(dates), examples)


_SHARE = 0.9  # of a field's values must be dates
_SPAN = range(1500, 2200)  # years; a number outside this range is more likely a count


def date_fields(rows: Iterable[Mapping[str, JsonValue]]) -> list[str]:
    """The fields of which nine in ten values are dates of the years 1500 to 2199, by number of dates.

    rows: the metadata of documents. Nested fields are named as in a filter: author.born.
    """
    values: dict[str, int] = {}
    dated: dict[str, int] = {}
    for row in rows:
        for name, value in _flat(row):
            if value is None or value == "" or isinstance(value, list):
                continue
            values[name] = values.get(name, 0) + 1
            found = None if isinstance(value, bool) else read_date(value)
            if found is not None and found.first.year in _SPAN:
                dated[name] = dated.get(name, 0) + 1
    sure = [name for name, count in dated.items() if count >= _SHARE * values[name]]
    return sorted(sure, key=lambda name: (-dated[name], name))


def _flat(row: Mapping[str, JsonValue], before: str = "") -> Iterable[tuple[str, JsonValue]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
