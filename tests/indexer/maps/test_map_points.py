"""The points of a map as bytes."""

import struct

import numpy as np
import pytest

from nearsay.data.errors import NearsayError
from nearsay.indexer.maps.mapping import MapPoints

POINTS = MapPoints(
    np.array([3, 9, 2**40]),
    np.array([[0.5, -1], [2, 3], [4, 5]], dtype=np.float32),
    np.array([True, False, True]),
)


def same(one: MapPoints, other: MapPoints) -> bool:
    return all(
        np.array_equal(a, b) and a.dtype == b.dtype
        for a, b in ((one.ids, other.ids), (one.places, other.places), (one.laid_out, other.laid_out))
    )


def test_what_was_written_is_read() -> None:
    assert same(MapPoints.from_bytes(POINTS.to_bytes(), "papers"), POINTS)
    assert len(POINTS.to_bytes()) == 16 + 3 * 17 + 4
    assert POINTS.to_bytes()[:16] == b"NEARMAP1" + struct.pack("<Q", 3)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (b"", "0 bytes that are not a map"),
        (b"NEARMAP9" + POINTS.to_bytes()[8:], "not a map of this version"),
        (POINTS.to_bytes()[:-1], "70 bytes .*71"),
        (POINTS.to_bytes()[:20] + b"x" + POINTS.to_bytes()[21:], "its checksum is wrong"),
    ],
)
def test_what_is_damaged_is_refused_with_the_remedy(stored: bytes, said: str) -> None:
    with pytest.raises(NearsayError, match=said) as error:
        MapPoints.from_bytes(stored, "papers")
    assert str(error.value).endswith(": nearsay explore map papers --replace")


def test_points_are_left_out_and_joined() -> None:
    some = POINTS.among(np.array([1, 3, 2**40]))
    assert some.ids.tolist() == [3, 2**40]
    assert same(some.joined(POINTS.among(np.array([9]))), POINTS)
