"""Pages of mapped files that are given back."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from nearsay.indexer.vectors import vector_store
from nearsay.indexer.vectors.segment import SegmentHeader, SegmentKind, open_vectors, write_vectors
from nearsay.indexer.vectors.vector_store import VectorStore, give_back, trim

BYTES = 8 << 20


def _pages_of(path: Path) -> int:
    """Kilobytes of the file that this process holds."""
    lines = Path("/proc/self/smaps").read_text("utf-8").splitlines()
    held = 0
    for number, line in enumerate(lines):
        if line.endswith(str(path)):
            held += int(next(after for after in lines[number:] if after.startswith("Rss:")).split()[1])
    return held


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what is held")
def test_the_pages_of_a_view_of_a_mapped_file_leave_and_read_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(BYTES, dtype=np.uint8).tofile(path)
    view = np.memmap(path, dtype=np.uint8, mode="r")[64:].view(np.float32).reshape(-1, 4)
    before = view.tobytes()
    assert _pages_of(path) >= BYTES // 1024
    give_back(view)
    assert _pages_of(path) == 0
    assert view.tobytes() == before


def test_of_other_arrays_and_other_systems_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(10)
    give_back(numbers[2:])
    monkeypatch.setattr(vector_store, "_DO_NOT_NEED", None)
    plain = mmap.mmap(-1, 4096)
    plain[0] = 7
    give_back(np.frombuffer(plain, dtype=np.uint8))
    trim()
    assert (numbers.tolist(), plain[0]) == (list(range(10)), 7)


def test_a_store_that_gives_pages_back_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(3)
    made = generator.standard_normal((3000, 16), dtype=np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    segments = []
    for begin, end in ((0, 1200), (1200, 3000)):
        path = write_vectors(tmp_path, np.arange(begin, end), made[begin:end], "words")
        header = SegmentHeader(SegmentKind.VECTORS, "words", 16, end - begin)
        segments.append(open_vectors(path, path.stem, header))
    given: list[int] = []
    monkeypatch.setattr(vector_store, "give_back", lambda array: given.append(len(array)))
    plain = VectorStore(segments, 16)
    positions = np.arange(0, 3000)
    rows, found = plain.rows(positions), plain.nearest_many(made[:5], 7)
    assert given == []
    giving = VectorStore(segments, 16, gives_back=True)
    assert giving.rows(positions).tobytes() == rows.tobytes()
    assert given == [1200, 1800]
    for mine, other in zip(giving.nearest_many(made[:5], 7), found, strict=True):
        assert mine.ids.tolist() == other.ids.tolist()
        assert mine.scores.tobytes() == other.scores.tobytes()
    assert given == [1200, 1800, 1200, 1800]
