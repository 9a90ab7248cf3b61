"""A map of sixty passages in three heaps whose places are known."""

from collections.abc import Callable

import numpy as np
import pytest

from nearsay.app.ui.map_component.show_map import PackedMap, packed_map
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.maps.drawing import ClusterLabel, Drawing, field_of

_NAMES = ("rain and rivers", "bread and ovens", "<b>trains</b>")
_MIDDLES = np.array([[0, 0], [10, 0], [5, 8]], dtype=np.float32)


def _drawing(count: int = 60, **changes: object) -> Drawing:
    """Each heap is a spiral of radius below 1 around its middle; passages are numbered from 100."""
    heaps = np.arange(count) % 3
    away = np.arange(count) / count
    spiral = np.stack([away * np.cos(20 * away), away * np.sin(20 * away)], axis=1)
    metadata = [{"year": 2000 + at % 7, "kind": "long" if at % 2 else "short"} for at in range(count)]
    rows = [
        PassageRow(100 + at, f"d{at}", f"title {at}", f"text {at} of {_NAMES[at % 3]}", meta, None, 0, 0, 30)
        for at, meta in enumerate(metadata)
    ]
    labels = tuple(
        ClusterLabel(number, _NAMES[number], int((heaps == number).sum()), float(x), float(y))
        for number, (x, y) in enumerate(_MIDDLES)
    )
    values: dict[str, object] = {
        "collection": "weather",
        "about": f"{count} passages",
        "ids": np.arange(100, 100 + count),
        "places": (_MIDDLES[heaps] + spiral).astype(np.float32),
        "rows": rows,
        "clusters": heaps.astype(np.int32),
        "labels": labels,
        "fields": tuple(field_of(name, [row[name] for row in metadata]) for name in ("year", "kind")),
        "colour_by": "cluster",
        "notes": (),
    }
    return Drawing(**(values | changes))


@pytest.fixture(scope="session")
def heaps() -> Callable[..., Drawing]:
    """Makes the drawing; any part may be another."""
    return _drawing


@pytest.fixture
def shown() -> PackedMap:
    """The same as the browser gets it."""
    return packed_map(_drawing())
