"""Metadata values as JSON has them."""

import datetime as dt
import decimal
import json
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.json_values import MAX_DEPTH, MAX_VALUES, UnusableRowError, json_value


class NotATime(dt.datetime):
    """Stands for pandas' NaT, which is a datetime of no time."""

    def isoformat(self, *_: object) -> str:
        return "NaT"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (0.5, 0.5),
        ("é", "é"),
        ((1, [2]), [1, [2]]),
        ({1: "a", None: "b", dt.date(2024, 3, 1): "c"}, {"1": "a", "None": "b", "2024-03-01": "c"}),
        (dt.date(2024, 3, 1), "2024-03-01"),
        (dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC), "2024-03-01T12:00:00+00:00"),
        (dt.time(12, 30), "12:30:00"),
        (NotATime(2024, 3, 1, tzinfo=dt.UTC), None),
        (decimal.Decimal("1.5"), 1.5),
        (decimal.Decimal("2.0"), 2.0),
        (decimal.Decimal(1234567890123456701), 1234567890123456701),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.datetime64("2024-03-01T12:00:00", "ns"), "2024-03-01T12:00:00"),
        (np.datetime64("NaT"), None),
        (np.array(["2024-03-01T12:00:00", "NaT"], "datetime64[ns]"), ["2024-03-01T12:00:00", None]),
    ],
)
def test_values_become_what_json_has(value: object, expected: object) -> None:
    found = json_value(value, "x")
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "x is nan"),
        ([float("inf")], "x is inf"),
        (decimal.Decimal("NaN"), "x is nan"),
        (b"x", "x is of type bytes"),
        (10**4100, "x holds a whole number of more than 4,000 digits"),
        ({1}, "x is of type set"),
        (object(), "x is of type object"),
        (dt.timedelta(1), "x is of type timedelta"),
        (np.timedelta64(5, "ns"), "x is of type timedelta"),
        ("a\0", "x holds a NUL character"),
        ({"\ud800": 1}, "key of x .*surrogate"),
        ({(1, 2): 1}, "x is nested deeper"),
        ([0] * MAX_VALUES, "x holds more than 100,000 values"),
    ],
)
def test_values_that_json_has_not_are_refused(value: object, reason: str) -> None:
    with pytest.raises(UnusableRowError, match=reason):
        json_value(value, "x")


def test_nan_and_infinity_can_be_none() -> None:
    assert json_value([float("nan"), -float("inf"), 1.5], "x", nan_is_none=True) == [None, None, 1.5]


def test_nesting_goes_as_deep_as_the_limit() -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert json_value(value, "x") == value
    with pytest.raises(UnusableRowError, match="nested deeper than 32 levels"):
        json_value([value], "x")


@pytest.mark.long
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.dates()
        | st.decimals()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)
def test_whatever_is_taken_can_be_written_as_json(value: object) -> None:
    try:
        found = json_value(value, "x")
    except UnusableRowError:
        return
    assert json.loads(json.dumps(found, allow_nan=False)) == found
