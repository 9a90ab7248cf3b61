"""The picture of how clusters were merged."""

import io
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["dendrogram_plot"]


def dendrogram_plot(
    merges: NDArray[np.float64],
    *,
    leaves: int = 40,
    name: Callable[[int], str] | None = None,
    picture: Literal["png", "svg"] = "png",
) -> bytes:
    """Draw the upper part of a dendrogram, `leaves` branches wide; the number of passages in brackets.

    merges: scipy's linkage matrix (m - 1, 4), as `Partition.merges`; name: what to write under the branch of
    a single vector, by its place. BadInputError without a merge.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from scipy.cluster.hierarchy import dendrogram

    if not len(merges):
        raise BadInputError(
            "a dendrogram needs at least two different passages. Add more, or widen the filter"
        )
    if leaves < 2:
        raise BadInputError(f"leaves = {leaves}, but a dendrogram has at least 2. Give more")
    count = len(merges) + 1

    def label(number: int) -> str:
        if number >= count:
            return f"({int(merges[number - count, 3])})"
        return name(number) if name else str(number)

    shown = min(leaves, count)
    figure = Figure(figsize=(max(6.0, 0.28 * shown), 5.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    dendrogram(
        merges,
        p=shown,
        truncate_mode="lastp",
        ax=axes,
        leaf_label_func=label,
        leaf_rotation=90,
        leaf_font_size=8,
    )
    axes.set_ylabel("distance")
    axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "nearsay"}):  # the same picture every time
        figure.savefig(drawn, format=picture, metadata={"Date": None} if picture == "svg" else None)
    return drawn.getvalue()
