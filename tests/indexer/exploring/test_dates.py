"""What is a date, and which period it falls into."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.indexer.exploring.dates import Dated, Period, date_fields, finest, period_names, read_date
from nearsay.indexer.vectors.errors import chosen


def day(text: str) -> Dated:
    return Dated(dt.date.fromisoformat(text), dt.date.fromisoformat(text))


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        (2019, "2019-01-01", "2019-12-31"),
        ("2019", "2019-01-01", "2019-12-31"),
        (2019.0, "2019-01-01", "2019-12-31"),
        ("2020-02", "2020-02-01", "2020-02-29"),
        ("2020-12", "2020-12-01", "2020-12-31"),
        ("2019-W10", "2019-03-04", "2019-03-10"),
        ("2019W10", "2019-03-04", "2019-03-10"),
        ("9999", "9999-01-01", "9999-12-31"),
        ("2019-03-08", "2019-03-08", "2019-03-08"),
        (" 2019-03-08 ", "2019-03-08", "2019-03-08"),
        ("20190308", "2019-03-08", "2019-03-08"),
        (20190308, "2019-03-08", "2019-03-08"),
        ("2019-W10-5", "2019-03-08", "2019-03-08"),
        ("2019-03-08T10:30:00.5Z", "2019-03-08", "2019-03-08"),
        ("2019-03-08 10:30", "2019-03-08", "2019-03-08"),
        ("2019-03-08T23:30:00-05:00", "2019-03-09", "2019-03-09"),
        (1552003200, "2019-03-08", "2019-03-08"),
        ("1552003200000", "2019-03-08", "2019-03-08"),
        (1552003200.0, "2019-03-08", "2019-03-08"),
        (1552003200.25, "2019-03-08", "2019-03-08"),
        (-315619200, "1960-01-01", "1960-01-01"),
        ("-315619201", "1959-12-31", "1959-12-31"),
        (-315619200.25, "1959-12-31", "1959-12-31"),
        (-315619200000, "1960-01-01", "1960-01-01"),
        (dt.date(2019, 3, 8), "2019-03-08", "2019-03-08"),
        (dt.datetime(2019, 3, 8, 23, tzinfo=dt.timezone(-dt.timedelta(hours=5))), "2019-03-09", "2019-03-09"),
    ],
)
def test_a_date_is_as_fine_as_it_is_written(value: object, first: str, last: str) -> None:
    assert read_date(value) == Dated(dt.date.fromisoformat(first), dt.date.fromisoformat(last))


@pytest.mark.parametrize(
    "value",
    [
        *("", "8 March 2019", "03/08/2019", "2019-13", "2019-02-30", "0000", "2019-W54", "12:30", "201903"),
        *(
            "19",
            19,
            -2019,
            -20190308,
            2019.5,
            float("nan"),
            float("inf"),
            True,
            None,
            ["2019"],
            10**30,
            "٢٠١٩",
        ),
        *("0001-01-01T00:00+05:00", "-2019-01-01", "2019-03-08T25:00"),
    ],
)
def test_what_is_no_date_is_not_guessed_at(value: object) -> None:
    assert read_date(value) is None


@given(st.text() | st.integers() | st.floats())
def test_nothing_that_stands_in_metadata_breaks_the_reading(value: object) -> None:
    read = read_date(value)
    assert read is None or read.first <= read.last


@given(st.dates())
def test_every_day_reads_back_and_is_in_its_periods(when: dt.date) -> None:
    assert read_date(when.isoformat()) == Dated(when, when)
    for period in Period:
        start = period.start(when)
        after = period.after(start)
        assert start <= when
        assert after is None or when < after


@pytest.mark.parametrize(
    ("by", "label"), [("day", "2020-12-31"), ("week", "2020-W53"), ("month", "2020-12"), ("year", "2020")]
)
def test_a_period_is_named_in_iso_8601(by: str, label: str) -> None:
    period = Period(by)
    assert period.label(period.start(dt.date(2020, 12, 31))) == label


def test_a_year_is_in_no_month() -> None:
    assert not Period.MONTH.holds(Dated(dt.date(2019, 1, 1), dt.date(2019, 12, 31)))
    assert Period.YEAR.holds(Dated(dt.date(2019, 1, 1), dt.date(2019, 12, 31)))


@pytest.mark.parametrize(
    ("dates", "by"),
    [
        ([day("2019-03-08")], "day"),
        ([day("2019-03-08"), day("2019-04-20")], "day"),
        ([day("2019-03-08"), day("2019-12-20")], "week"),
        ([day("2019-03-08"), day("2022-12-20")], "month"),
        ([day("2009-03-08"), day("2022-12-20")], "year"),
        ([day("2019-03-08"), Dated(dt.date(2019, 3, 1), dt.date(2019, 3, 31))], "month"),
        ([day("2019-03-08"), Dated(dt.date(2019, 1, 1), dt.date(2019, 12, 31))], "year"),
    ],
)
def test_the_period_goes_by_the_span_and_is_no_finer_than_the_dates(dates: list[Dated], by: str) -> None:
    assert finest(dates) == by


def test_periods_without_anything_are_there_too() -> None:
    names = period_names(Period.MONTH, dt.date(2019, 11, 30), dt.date(2020, 2, 1))
    assert list(names.values()) == ["2019-11", "2019-12", "2020-01", "2020-02"]


def test_too_many_periods_are_refused() -> None:
    with pytest.raises(BadInputError, match="2,000 periods of a day"):
        period_names(Period.DAY, dt.date(2001, 1, 1), dt.date(2026, 1, 1))
    assert len(period_names(Period.YEAR, dt.date(9000, 1, 1), dt.date.max)) == 1000


def test_an_unknown_period_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"'decade'.*day, week, month, year"):
        chosen(Period, "decade", "by")


@pytest.mark.parametrize(
    ("values", "dated"),
    [
        ([2019, "2020-03", "2021-04-05"], True),
        ([2019] * 9 + ["unknown"], True),
        ([2019] * 8 + ["unknown"] * 2, False),
        ([12, 800, 3], False),
        ([9000, 1200], False),
        ([True, False], False),
        ([["2019"]], False),
        ([None, ""], False),
    ],
)
def test_a_field_of_dates_is_known_by_its_values(values: list[object], dated: bool) -> None:
    found = date_fields({"when": value} for value in values)
    assert found == (["when"] if dated else [])


def test_fields_of_dates_come_by_how_many_there_are() -> None:
    rows = [{"year": 2019, "author": {"born": "1960-01-02"}}, {"author": {"born": "1961-01-02"}}]
    assert date_fields(rows) == ["author.born", "year"]
