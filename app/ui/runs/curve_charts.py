"""A training's curves, drawn; the theme's own colours, in light and dark."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.app.ui.runs.curves import Curve

if TYPE_CHECKING:
    import altair as alt

__all__ = ["show_curves"]

_FEW = 40  # points of a chart that are marked one by one
_SMALL = 1e-3  # values below are written with an exponent
_COLOURS = ["#3D85D6", "#E07B00", "#2A9D5C", "#B565D0", "#D9534F", "#8A949E"]  # on white and on black


def show_curves(curves: Sequence[Curve]) -> None:
    """A chart for each, two in a row where there is room; what the dev set says is dashed and dotted."""
    columns = st.columns(2 if len(curves) > 1 else 1)
    for place, curve in enumerate(curves):
        with columns[place % len(columns)]:
            st.markdown(f"**{curve.title}**")
            st.altair_chart(_chart(curve), width="stretch", height=280)


def _chart(curve: Curve) -> "alt.LayerChart | alt.FacetChart":
    import altair as alt

    names = list(curve.series)
    legend = alt.Legend(orient="bottom", title=None, columns=2, labelLimit=300) if len(names) > 1 else None
    held_out = alt.StrokeDash(
        "held_out:N", legend=None, scale=alt.Scale(domain=[False, True], range=[[1, 0], [4, 3]])
    )
    points: alt.Data = alt.InlineData([asdict(point) for point in curve.points])
    base = alt.Chart(points).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(format=_format(curve))),
        color=alt.Color(
            "series:N",
            sort=names,
            legend=legend,
            scale=alt.Scale(domain=names, range=_COLOURS),
        ),
        tooltip=[
            alt.Tooltip("series:N", title="what"),
            alt.Tooltip("step:Q", format=","),
            alt.Tooltip("value:Q", format=".4g"),
        ],
    )
    marked = base if len(curve.points) <= _FEW else base.transform_filter("datum.held_out")
    # Without its names a shape's scale would have none where no point is marked, and the legend too.
    shape = alt.Shape("series:N", sort=names, legend=legend, scale=alt.Scale(domain=names))
    line = base.mark_line(strokeWidth=2).encode(strokeDash=held_out)
    return alt.layer(line, marked.mark_point(filled=True, size=40).encode(shape=shape))


def _format(curve: Curve) -> str:
    largest = max(abs(point.value) for point in curve.points)
    return ".1e" if largest < _SMALL else ",.4~r"
