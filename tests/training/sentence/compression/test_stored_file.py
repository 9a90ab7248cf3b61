import errno
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.training.sentence.compression.quantisation import ranges_file, read_ranges, write_vectors

VECTORS = np.array([[0, -510], [255, 0]], dtype=np.float32)


def test_int8_levels_stand_beside_their_ranges(tmp_path: Path) -> None:
    assert write_vectors(tmp_path / "v.npy", VECTORS, numbers="int8") == ()
    assert np.load(tmp_path / "v.npy").tolist() == [[-128, -128], [127, 127]]
    assert np.load(tmp_path / "v.ranges.npy").tolist() == [[0, -510], [255, 0]]
    assert ranges_file(tmp_path / "v.npy") == tmp_path / "v.ranges.npy"


def test_other_ranges_are_taken_and_what_reaches_beyond_is_told(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", VECTORS, numbers="int8")
    notes = write_vectors(tmp_path / "w.npy", VECTORS + 2, numbers="int8", ranges=tmp_path / "v.ranges.npy")
    assert notes == (Naming("1 of 2", "beyond", "cut"),)
    assert np.load(tmp_path / "w.npy").tolist() == [[-126, -127], [127, 127]]
    assert np.load(tmp_path / "w.ranges.npy").tolist() == [[0, -510], [255, 0]]


def test_a_full_disk_leaves_levels_and_ranges_that_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_vectors(tmp_path / "v.npy", VECTORS, numbers="int8")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full(stream: BinaryIO, header: dict[str, object]) -> None:
        assert header["descr"] == "|i1"
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.lib.format.write_array_header_1_0", full)
    with pytest.raises(DiskFullError):
        write_vectors(tmp_path / "v.npy", VECTORS * 3, numbers="int8")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("numbers", "dtype", "rows"),
    [
        ("float32", np.float32, VECTORS.tolist()),
        ("float16", np.float16, VECTORS.tolist()),
        ("binary", np.uint8, [[0], [0b1000_0000]]),
    ],
)
def test_other_numbers_have_no_ranges(numbers: str, dtype: type, rows: object, tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", VECTORS, numbers=numbers)
    stored = np.load(tmp_path / "v.npy")
    assert (stored.dtype, stored.tolist()) == (dtype, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_files_that_hold_no_ranges_are_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", VECTORS, numbers="int8")
    (tmp_path / "words.npy").write_text("no array")
    with pytest.raises(BadInputError, match=r"holds \(2, 2\).*\(2, 3\)"):
        read_ranges(tmp_path / "v.ranges.npy", 3)
    with pytest.raises(BadInputError, match=r"words\.npy cannot be read"):
        read_ranges(tmp_path / "words.npy", 2)
    for wrong in ([[0, 1], [1, 0]], [[0, np.nan], [1, 1]]):
        np.save(tmp_path / "wrong.ranges.npy", np.array(wrong, np.float32))
        with pytest.raises(BadInputError, match=r"wrong\.ranges\.npy does not hold"):
            read_ranges(tmp_path / "wrong.ranges.npy", 2)
    with pytest.raises(BadInputError, match="binary vectors have no ranges"):
        write_vectors(tmp_path / "b.npy", VECTORS, numbers="binary", ranges=tmp_path / "v.ranges.npy")
    assert not (tmp_path / "b.npy").exists()
