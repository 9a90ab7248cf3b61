"""A collection with a map whose places were given."""

from collections.abc import Callable

import numpy as np
import pytest

from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.maps.drawing import ClusterLabel, Drawing, field_of

NASTY = (
    "</script><script>document.title='taken'</script><img src=x onerror=alert(1)> $\\frac{}{$ & \u2028 \x00"
)


def _draw(**changes: object) -> Drawing:
    metadata = [
        {"venue": "acl", "year": 2019},
        {"venue": NASTY, "year": 2020},
        {"venue": "acl"},
        {"year": 2021},
    ]
    texts = ["about cats", NASTY, "about dogs", "about nothing"]
    rows = [
        PassageRow(10 + at, f"d{at}", f"title {at}" if at else NASTY, text, each, None, 0, 0, len(text))
        for at, (text, each) in enumerate(zip(texts, metadata, strict=True))
    ]
    values = {
        "collection": "papers",
        "about": "4 passages",
        "ids": np.arange(10, 14),
        "places": np.array([[0, 0], [1, 0], [4, 2], [9, 3]], dtype=np.float32),
        "rows": rows,
        "clusters": np.array([7, 7, 3, -1], dtype=np.int32),
        "labels": (ClusterLabel(7, NASTY, 2, 0.5, 0.0), ClusterLabel(3, "dogs", 1, 4.0, 2.0)),
        "fields": tuple(field_of(name, [row.get(name) for row in metadata]) for name in ("venue", "year")),
        "colour_by": "cluster",
        "notes": ("a note",),
    }
    return Drawing(**(values | changes))


@pytest.fixture
def draw() -> Callable[..., Drawing]:
    """A drawing of four passages, two of which are full of markup; any part may be another."""
    return _draw


@pytest.fixture
def nasty() -> str:
    """What a document may not do to a page."""
    return NASTY
