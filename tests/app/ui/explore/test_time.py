"""Clusters through time as the page shows them."""

import json
from dataclasses import replace

from nearsay.app.ui.explore.time_view import called, chart_rows, line_chart, trend_rows
from nearsay.indexer.exploring.dates import Period
from nearsay.indexer.exploring.through_time import ClusterThroughTime, Counted, ThroughTime, Trend
from nearsay.indexer.results import newest

BOATS = ClusterThroughTime(1, "boats", (1, 0, 2), 3, Trend(4.0, 0.5, 0.7))
OUTSIDE = ClusterThroughTime(None, "in no cluster", (3, 0, 0), 3, Trend(-4.0, 0.5, 0.5))
LINE = ThroughTime(
    collection="papers",
    field="year",
    by=Period.YEAR,
    counted=Counted.DOCUMENTS,
    periods=("2019", "2020", "2021"),
    totals=(4, 0, 2),
    clusters=(BOATS,),
    outside=OUTSIDE,
    missing=0,
    unreadable=0,
    coarse=0,
    notes=(),
)


def test_what_a_job_printed_comes_back_as_it_was_found():
    printed = json.loads(json.dumps(LINE.to_json()))
    assert newest([printed, "a line that is no report"], ThroughTime) == LINE


def test_shares_are_of_everything_in_a_period():
    assert LINE.shares(BOATS) == (0.25, None, 1.0)


def test_a_period_that_holds_nothing_has_no_point():
    assert chart_rows(LINE, [BOATS]) == [
        {"period": "2019", "cluster": "1  boats", "share": 0.25, "count": 1},
        {"period": "2021", "cluster": "1  boats", "share": 1.0, "count": 2},
    ]


def test_a_trend_is_said_in_a_word():
    assert [row["trend"] for row in trend_rows(LINE)] == ["▲ grows", "▼ shrinks"]
    assert [row["documents"] for row in trend_rows(LINE)] == [3, 3]


def test_two_clusters_of_one_name_are_told_apart():
    assert called(1, "x") != called(2, "x")
    assert len(called(1, "x" * 90)) == 51


def test_lines_differ_in_more_than_colour():
    drawn = line_chart(LINE, LINE.every, {}).to_dict()
    encoding = drawn["encoding"]
    assert {encoding[sign]["field"] for sign in ("color", "strokeDash", "shape")} == {"cluster"}
    assert encoding["x"]["scale"]["domain"] == ["2019", "2020", "2021"]
    (values,) = drawn["datasets"].values()
    assert len(values) == 4


def test_a_cluster_has_the_colour_that_it_has_on_the_map():
    cats = replace(BOATS, number=2, name="cats")
    drawn = line_chart(LINE, (cats, BOATS), {1: "#111111", 2: "#222222", 3: "#333333"}).to_dict()["encoding"]
    scale = {"domain": ["2  cats", "1  boats"], "range": ["#222222", "#111111"]}
    assert drawn["color"]["scale"] == scale
    unmapped = line_chart(LINE, (cats, BOATS), {1: "#111111"}).to_dict()["encoding"]
    assert "scale" not in unmapped["color"]  # one of them has none on the map


def test_the_last_line_across_is_the_axis_end_and_signs_in_the_legend_are_whole():
    encoding = line_chart(LINE, LINE.every, {}).to_dict()["encoding"]
    assert encoding["y"]["scale"]["nice"] == encoding["y"]["axis"]["tickCount"]
    assert encoding["strokeDash"]["legend"] is None
    assert encoding["shape"]["legend"]["symbolStrokeWidth"] == 0  # its dashes would fray them


def test_of_very_many_periods_each_has_its_place_and_few_are_named():
    years = tuple(str(year) for year in range(1500, 2000))
    counts = tuple(int(year in ("1500", "1999")) for year in years)
    line = replace(LINE, periods=years, totals=counts, clusters=(replace(BOATS, counts=counts, total=2),))
    across = line_chart(line, line.clusters, {}).to_dict()["encoding"]["x"]
    assert across["scale"]["domain"] == list(years)
    assert across["axis"]["values"][:2] == ["1500", "1521"]
    assert len(across["axis"]["values"]) == 24
