"""Segment files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming
from safetensors import safe_open
from safetensors.numpy import save

from nearsay.data.durable import file_sha256
from nearsay.data.errors import StorageError
from nearsay.indexer.vectors import segment as segment_module
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import (
    SegmentHeader,
    SegmentKind,
    open_index_bytes,
    open_vectors,
    write_index,
    write_vectors,
)

FINGERPRINT = "f" * 64
IDS = np.array([3, 5, 2**40], dtype=np.int64)
VECTORS = np.array([[1, 0], [0.6, 0.8], [0, -1]], dtype=np.float32)
HEADER = SegmentHeader(SegmentKind.VECTORS, FINGERPRINT, dimension=2, count=3)
DESCRIBED = {
    "kind": "vectors",
    "fingerprint": FINGERPRINT,
    "dimension": "2",
    "count": "3",
    "metric": "cosine",
    "format": "nearsay-segment-1",
}


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A vectors segment of three vectors of two numbers."""
    return write_vectors(tmp_path, IDS, VECTORS, FINGERPRINT)


def test_vectors_come_back_as_they_were_written(segment: Path) -> None:
    opened = open_vectors(segment, segment.stem, HEADER)
    assert opened.sha256 == segment.stem == file_sha256(segment)
    assert (opened.ids.dtype, opened.vectors.dtype) == (np.int64, np.float32)
    np.testing.assert_array_equal(opened.ids, IDS)
    np.testing.assert_array_equal(opened.vectors, VECTORS)


@settings(max_examples=30)
@given(
    count=st.integers(0, 40),
    dimension=st.integers(1, 33),
    name=st.text(st.characters(codec="utf-8"), max_size=9),
)
def test_every_shape_is_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, count: int, dimension: int, name: str
) -> None:
    generator = np.random.default_rng(count * 100 + dimension)
    ids = np.cumsum(generator.integers(1, 9, count), dtype=np.int64)
    vectors = generator.standard_normal((count, dimension)).astype(np.float32)
    path = write_vectors(tmp_path_factory.mktemp("shapes"), ids, vectors, name)
    opened = open_vectors(path, path.stem, SegmentHeader(SegmentKind.VECTORS, name, dimension, count))
    np.testing.assert_array_equal(opened.ids, ids)
    np.testing.assert_array_equal(opened.vectors, vectors)
    assert opened.ids.flags.aligned
    assert opened.vectors.flags.aligned


def test_arrays_that_are_not_contiguous_are_written_as_they_read(tmp_path: Path) -> None:
    ids, vectors = np.arange(1, 13, dtype=np.int64), np.arange(24, dtype=np.float32).reshape(12, 2)
    path = write_vectors(tmp_path, ids[::4], vectors[::4], FINGERPRINT)
    opened = open_vectors(path, path.stem, HEADER)
    np.testing.assert_array_equal(opened.ids, [1, 5, 9])
    np.testing.assert_array_equal(opened.vectors, [[0, 1], [8, 9], [16, 17]])


def test_vectors_are_aligned_views_of_the_mapped_file_and_cannot_be_written(segment: Path) -> None:
    opened = open_vectors(segment, segment.stem, HEADER)
    for array in (opened.ids, opened.vectors):
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.flags.c_contiguous
        assert array.ctypes.data % array.itemsize == 0
        base: Any = array
        while base is not None and not isinstance(base, np.memmap):
            base = base.base
        assert base is not None
        assert Path(base.filename) == segment


def test_a_mapped_segment_outlives_its_file(segment: Path) -> None:
    opened = open_vectors(segment, segment.stem, HEADER)
    segment.unlink()
    np.testing.assert_array_equal(opened.vectors, VECTORS)


def test_plain_safetensors_reads_a_segment_and_what_it_says_of_itself(segment: Path) -> None:
    with safe_open(segment, framework="np") as plain:
        assert sorted(plain.keys()) == ["ids", "vectors"]
        np.testing.assert_array_equal(plain.get_tensor("ids"), IDS)
        np.testing.assert_array_equal(plain.get_tensor("vectors"), VECTORS)
        assert plain.metadata() == DESCRIBED


def test_an_index_comes_back_byte_by_byte(tmp_path: Path) -> None:
    serialised = np.frombuffer(b"IwFl and so on", dtype=np.uint8)
    path = write_index(tmp_path, serialised, 7, 2, FINGERPRINT)
    header = SegmentHeader(SegmentKind.INDEX, FINGERPRINT, 2, 7)
    assert open_index_bytes(path, path.stem, header).tobytes() == b"IwFl and so on"


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (replace(HEADER, kind=SegmentKind.INDEX), "kind is vectors, not index"),
        (replace(HEADER, fingerprint="e" * 64), f"fingerprint is {FINGERPRINT}, not {'e' * 64}"),
        (replace(HEADER, dimension=3), "dimension is 2, not 3"),
        (replace(HEADER, count=4), "count is 3, not 4"),
        (replace(HEADER, metric="l2"), "metric is cosine, not l2"),
        (replace(HEADER, format="nearsay-segment-2"), "format is nearsay-segment-1, not nearsay-segment-2"),
    ],
)
def test_a_segment_that_says_something_else_than_the_catalogue_is_refused(
    segment: Path, expected: SegmentHeader, said: str
) -> None:
    with pytest.raises(DamagedSegmentError) as raised:
        open_vectors(segment, segment.stem, expected)
    assert str(raised.value) == Naming(segment.name, "not the catalogue's", said)


def test_everything_that_does_not_agree_is_named(segment: Path) -> None:
    with pytest.raises(DamagedSegmentError, match=r"dimension is 2, not 9; count is 3, not 8$"):
        open_vectors(segment, segment.stem, replace(HEADER, dimension=9, count=8))


def test_an_index_is_not_taken_for_vectors(tmp_path: Path) -> None:
    path = write_index(tmp_path, np.zeros(5, dtype=np.uint8), 3, 2, FINGERPRINT)
    with pytest.raises(DamagedSegmentError, match="kind is index, not vectors"):
        open_vectors(path, path.stem, HEADER)


def test_every_flipped_bit_is_found(segment: Path) -> None:
    whole = segment.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        segment.write_bytes(damaged)
        with pytest.raises(DamagedSegmentError, match="hashes to"):
            open_vectors(segment, segment.stem, HEADER)


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1])
def test_a_truncated_file_is_found(segment: Path, keep: int) -> None:
    segment.write_bytes(segment.read_bytes()[:keep])
    with pytest.raises(DamagedSegmentError, match=f"{segment.name} is damaged"):
        open_vectors(segment, segment.stem, HEADER)


def test_bytes_after_the_end_are_found(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes() + b"\0")
    with pytest.raises(DamagedSegmentError, match="is damaged"):
        open_vectors(segment, segment.stem, HEADER)


def test_a_segment_whose_folder_is_away_is_not_called_damaged(segment: Path) -> None:
    segment.parent.rename(segment.parent.with_name("away"))
    with pytest.raises(StorageError) as raised:
        open_vectors(segment, segment.stem, HEADER)
    assert segment.name in str(raised.value)
    assert str(segment.parent) in str(raised.value)
    segment.parent.with_name("away").rename(segment.parent)
    assert open_vectors(segment, segment.stem, HEADER).ids.tolist() == IDS.tolist()


def test_a_missing_file_is_named_with_its_folder(segment: Path) -> None:
    segment.unlink()
    with pytest.raises(DamagedSegmentError) as raised:
        open_vectors(segment, segment.stem, HEADER)
    assert str(raised.value) == Naming(segment.name, "missing", segment.parent)


def test_a_folder_in_the_place_of_a_file_is_damage(segment: Path) -> None:
    segment.unlink()
    segment.mkdir()
    with pytest.raises(DamagedSegmentError, match="is a folder"):
        open_vectors(segment, segment.stem, HEADER)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"not a segment at all",
        b"\xff" * 64,
        (2).to_bytes(8, "little") + b"[]",
        (2).to_bytes(8, "little") + b"{}",
        (20).to_bytes(8, "little") + b'{"ids": {"dtype": 1}',
    ],
)
def test_garbage_is_refused_even_under_its_own_hash(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "garbage.safetensors"
    path.write_bytes(garbage)
    with pytest.raises(DamagedSegmentError, match=r"no segment file|not the catalogue's"):
        open_vectors(path, file_sha256(path), HEADER)


def test_arrays_that_do_not_fit_their_own_header_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.safetensors"
    path.write_bytes(save({"ids": IDS[:2], "vectors": VECTORS[:2]}, DESCRIBED))
    with pytest.raises(DamagedSegmentError, match=r"header.*\(2, 2\)"):
        open_vectors(path, file_sha256(path), HEADER)


def test_a_file_that_goes_between_its_hash_and_its_map_is_missing(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashed_last(path: Path) -> str:
        found = file_sha256(path)
        path.unlink()
        return found

    monkeypatch.setattr(segment_module, "file_sha256", hashed_last)
    with pytest.raises(DamagedSegmentError, match="is missing from"):
        open_vectors(segment, segment.stem, HEADER)
