"""Clusters through time as the page shows them."""

import pytest

from nearsay.app.ui.explore.time_view import (
    called,
    chart_rows,
    date_fields,
    line_chart,
    time_line,
    trend_rows,
)

STEADY = {"first_share": 0.5, "last_share": 0.5, "grows": False, "shrinks": False}
ROWS = [
    {"cluster": 1, "name": "boats", "documents": 3, "counts": {"2019": 1, "2020": 0, "2021": 2}}
    | {"trend": STEADY | {"grows": True, "last_share": 0.7}},
    {"cluster": None, "name": "in no cluster", "documents": 3, "counts": {"2019": 3, "2020": 0, "2021": 0}}
    | {"trend": STEADY | {"shrinks": True}},
]


def test_shares_are_of_everything_in_a_period():
    line = time_line([*ROWS, "a line that is no row"])
    assert line.periods == ("2019", "2020", "2021")
    assert line.totals == (4, 0, 2)
    assert line.shares(ROWS[0]) == [0.25, None, 1.0]
    assert line.counted == "documents"


def test_a_period_that_holds_nothing_has_no_point():
    line = time_line(ROWS)
    assert chart_rows(line, ROWS[:1]) == [
        {"period": "2019", "cluster": "1  boats", "share": 0.25, "count": 1},
        {"period": "2021", "cluster": "1  boats", "share": 1.0, "count": 2},
    ]


def test_a_trend_is_said_in_a_word():
    assert [row["trend"] for row in trend_rows(time_line(ROWS))] == ["▲ grows", "▼ shrinks"]


def test_two_clusters_of_one_name_are_told_apart():
    assert called({"cluster": 1, "name": "x"}) != called({"cluster": 2, "name": "x"})
    assert len(called({"cluster": 1, "name": "x" * 90})) == 51


def test_lines_differ_in_more_than_colour():
    drawn = line_chart(time_line(ROWS), ROWS).to_dict()
    encoding = drawn["encoding"]
    assert {encoding[sign]["field"] for sign in ("color", "strokeDash", "shape")} == {"cluster"}
    assert encoding["x"]["scale"]["domain"] == ["2019", "2020", "2021"]
    (values,) = drawn["datasets"].values()
    assert len(values) == 4


def test_of_very_many_periods_each_has_its_place_and_few_are_named():
    years = [str(year) for year in range(1500, 2000)]
    row = ROWS[0] | {"counts": {year: int(year in ("1500", "1999")) for year in years}}
    across = line_chart(time_line([row]), [row]).to_dict()["encoding"]["x"]
    assert across["scale"]["domain"] == years
    assert across["axis"]["values"][:2] == ["1500", "1521"]
    assert len(across["axis"]["values"]) == 24


def test_nothing_counted_is_an_empty_line():
    assert time_line([]).rows == ()


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
def test_a_field_of_dates_is_known_by_its_values(values, dated):
    found = date_fields({"when": value} for value in values)
    assert found == (["when"] if dated else [])


def test_fields_of_dates_come_by_how_many_there_are():
    rows = [{"year": 2019, "author": {"born": "1960-01-02"}}, {"author": {"born": "1961-01-02"}}]
    assert date_fields(rows) == ["author.born", "year"]
