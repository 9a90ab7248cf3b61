"""The still picture."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from nearsay.data.picture import write_picture
from nearsay.indexer.maps.draw_map import map_figure
from nearsay.indexer.maps.drawing import ClusterLabel, Drawing, field_of

Draw = Callable[..., Drawing]


def legend(drawn: Drawing) -> list[str]:
    (axes,) = map_figure(drawn).axes
    return [text.get_text() for text in axes.get_legend().get_texts()]


def names(drawn: Drawing) -> list[str]:
    return [text.get_text() for text in map_figure(drawn).axes[0].texts]


def test_clusters_have_their_names_and_a_legend(draw: Draw) -> None:
    drawn = draw(
        labels=(ClusterLabel(7, "cats $and$ birds", 2, 0.5, 0.0), ClusterLabel(3, "dogs", 1, 4.0, 2.0))
    )
    assert names(drawn) == ["cats $and$ birds", "dogs"]
    assert legend(drawn) == ["cats $and$ birds  2", "dogs  1", "in no cluster  1"]


def test_names_that_would_cover_larger_ones_are_left_out(draw: Draw) -> None:
    labels = (ClusterLabel(7, "cats and birds", 2, 0.5, 0.0), ClusterLabel(3, "dogs", 1, 0.51, 0.0))
    assert names(draw(labels=labels)) == ["cats and birds"]


def test_names_stay_inside_the_picture(draw: Draw) -> None:
    corners = [(0.0, 0.0), (9.0, 3.0), (0.0, 3.0), (9.0, 0.0)]
    labels = tuple(ClusterLabel(7 + at, f"cats and birds {at}", 9 - at, *xy) for at, xy in enumerate(corners))
    axes = map_figure(draw(labels=labels)).axes[0]
    assert len(axes.texts) == 4
    for text in axes.texts:
        box = text.get_window_extent()
        assert axes.bbox.x0 <= box.x0 < box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0 < box.y1 <= axes.bbox.y1


def test_days_at_either_end_of_the_calendar_are_drawn(draw: Draw) -> None:
    fields = (field_of("day", ["0001-01-01", "9999-12-31", None, "2024-01-01"]),)
    bar = map_figure(draw(fields=fields, colour_by="day")).axes[1]
    bar.figure.savefig(io.BytesIO(), dpi=20)
    assert any(label.get_text()[4:5] == "-" for label in bar.get_yticklabels())


def test_categories_numbers_and_nothing_are_drawn(draw: Draw) -> None:
    assert legend(draw(colour_by="venue"))[0] == "acl  2"
    by_year = map_figure(draw(colour_by="year")).axes
    assert [axes.get_ylabel() for axes in by_year] == ["", "year"]
    outliers = draw(clusters=np.full(4, -1, dtype=np.int32), labels=())
    assert legend(outliers) == ["in no cluster  4"]
    (plain,) = map_figure(draw(colour_by=None, clusters=None, labels=())).axes
    assert plain.get_legend() is None
    assert plain.get_title(loc="left") == "papers: 4 passages"


@pytest.mark.parametrize("colour_by", ["cluster", "venue", "year", None])
def test_whatever_a_text_says_it_is_drawn(
    draw: Draw, colour_by: str | None, nasty: str, tmp_path: Path
) -> None:
    write_picture(
        tmp_path / "map.png", lambda: map_figure(draw(colour_by=colour_by, collection=nasty)), dpi=20
    )
    pixels = image.imread(tmp_path / "map.png")
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 10
