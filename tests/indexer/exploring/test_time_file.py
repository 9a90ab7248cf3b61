"""Clusters through time as a picture and as a table."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.indexer.exploring.dates import Period
from nearsay.indexer.exploring.through_time import (
    ClusterThroughTime,
    Counted,
    ThroughTime,
    Trend,
    time_figure,
    write_over_time,
)


def cluster(
    number: int | None, name: str, counts: tuple[int, ...], statistic: float = 0.0
) -> ClusterThroughTime:
    return ClusterThroughTime(number, name, counts, sum(counts), Trend(statistic, 0.0, 0.0))


FOUND = ThroughTime(
    collection="papers",
    field="year",
    by=Period.YEAR,
    counted=Counted.DOCUMENTS,
    periods=("2019", "2020", "2021"),
    totals=(10, 0, 20),
    clusters=(
        cluster(1, "translation, of $x$, and _y", (5, 0, 5), -4.0),
        cluster(2, "_parsing", (3, 0, 6), 4.0),
        cluster(3, "speech", (1, 0, 7)),
    ),
    outside=cluster(None, "in no cluster", (1, 0, 2)),
    missing=0,
    unreadable=0,
    coarse=0,
    notes=(),
)


def test_the_picture_draws_the_largest_and_the_rest_together() -> None:
    figure = time_figure(FOUND, 2)
    above, below = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "translation, of $x$, and _y (10) ▼",
        " _parsing (9) ▲",
        "1 more clusters and in no cluster (11)",
    ]
    assert len(below.lines) == 2
    assert np.asarray(below.lines[0].get_ydata()).tolist() == pytest.approx(
        [0.5, float("nan"), 0.25], nan_ok=True
    )
    heights = np.array([[bar.get_height() for bar in bars] for bars in above.containers])
    assert heights.tolist() == [[5, 0, 5], [3, 0, 6], [2, 0, 9]]
    assert heights.sum(axis=0).tolist() == list(FOUND.totals)
    assert [label.get_text() for label in below.get_xticklabels()] == list(FOUND.periods)


@pytest.mark.parametrize(("ending", "begins"), [(".png", b"\x89PNG"), (".SVG", b"<?xml")])
def test_a_picture_is_written(tmp_path: Path, ending: str, begins: bytes) -> None:
    path = tmp_path / f"trend{ending}"
    write_over_time(FOUND, path)
    assert path.read_bytes().startswith(begins)


def test_tables_hold_every_number(tmp_path: Path) -> None:
    write_over_time(FOUND, tmp_path / "trend.csv")
    write_over_time(FOUND, tmp_path / "trend.jsonl")
    with (tmp_path / "trend.csv").open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    lines = [json.loads(line) for line in (tmp_path / "trend.jsonl").read_text("utf-8").splitlines()]
    assert len(table) == len(lines) == 12
    assert table[2] == {
        "period": "2021",
        "cluster": "1",
        "name": "translation, of $x$, and _y",
        "documents": "5",
        "share": "0.25",
    }
    assert lines[-1] == {
        "period": "2021",
        "cluster": None,
        "name": "in no cluster",
        "documents": 2,
        "share": 0.1,
    }


def test_another_ending_or_too_many_colours_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"'trend\.pdf'.*\.png, \.svg, \.csv, \.jsonl"):
        write_over_time(FOUND, tmp_path / "trend.pdf")
    with pytest.raises(BadInputError, match="25 clusters"):
        write_over_time(FOUND, tmp_path / "trend.png", top=25)
    assert list(tmp_path.iterdir()) == []
