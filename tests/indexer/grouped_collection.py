"""A collection whose index workers of a Ray cluster build by groups, and what the tests ask about it."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer import Collection, Library, VectorsOnly
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import SegmentRow
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.vectors.segment import SegmentKind

__all__ = [
    "BATCH",
    "COUNT",
    "ROWS",
    "SOON",
    "VECTORS",
    "WIDTH",
    "ends_itself",
    "filled",
    "has_only_its_files",
    "ids_of",
    "indexes",
    "near",
    "segments",
    "unsound",
    "with_lists",
    "without_index",
]

COUNT, WIDTH = 4000, 32
BATCH = 500  # passages in a segment
SOON = 180.0  # seconds after which something that should have happened has not


def _made(count: int = COUNT, seed: int = 3) -> NDArray[np.float32]:
    """Vectors (count, 32) of unit length around sixty centres."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(60, WIDTH))
    rows = centres[generator.integers(60, size=count)] + 0.5 * generator.normal(size=(count, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


VECTORS = _made()
ROWS = [{"id": str(at), "text": f"row {at}", "tenth": at % 10} for at in range(COUNT)]


def near(count: int, seed: int) -> NDArray[np.float32]:
    """Queries (count, 32), each near a stored vector but none of them."""
    generator = np.random.default_rng(seed)
    rows = VECTORS[generator.integers(COUNT, size=count)] + 0.05 * generator.normal(size=(count, WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def filled(library: Library) -> Collection:
    made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
    for begin in range(0, COUNT, BATCH):
        some = slice(begin, begin + BATCH)
        last = begin + BATCH == COUNT
        made.add_rows(ROWS[some], vectors=VECTORS[some], index="now" if last else "later")
    return made


def without_index(library: Library) -> Collection:
    made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
    for begin in range(0, 2000, BATCH):
        some = slice(begin, begin + BATCH)
        made.add_rows(ROWS[some], vectors=VECTORS[some], index="later")
    return made


def segments(library: Library) -> list[SegmentRow]:
    with library.store.database.reading() as connection:
        return generations.segments_of(connection, 1, 1)


def indexes(library: Library) -> list[str]:
    """The hashes of the parts of its index."""
    return [row.sha256 for row in segments(library) if row.kind is SegmentKind.INDEX]


def ids_of(collection: Collection, queries: NDArray[np.float32], **how: Any) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in collection.search(queries, 10, mode="dense", **how)]


def unsound(library: Library) -> list[str]:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound]


def has_only_its_files(library: Library) -> None:
    """A compaction a day later leaves the files of the catalogue and no others."""
    for path in library.store.building.glob("*"):
        os.utime(path, (0, 0))
    library.collection("made").compact()
    assert [*library.store.building.glob("*")] == []
    files = {path.stem for path in library.store.segments(1).iterdir()}
    assert files == {row.sha256 for row in segments(library)}


_candidates = CandidateIndex.candidates


def with_lists(self: CandidateIndex, *given: Any) -> NDArray[np.int64]:
    """What an index proposes that is not left to choose lists for itself."""
    assert given[-1] is not None
    return _candidates(self, *given)


def ends_itself(program: str, *given: str) -> None:
    """Run a driver that kills itself."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=False, timeout=SOON
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
