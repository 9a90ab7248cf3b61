"""What the library adds to a dense query beyond encoding and the index, beside the index's own time."""

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

from nearsay.indexer import Library
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

__all__ = ["overhead"]

PASSAGES = 5000
QUERIES = 300


class LookUp:
    """An encoder that knows its texts: "p17" is passage vector 17, "q17" query vector 17."""

    name = source = "look-up"
    max_tokens = 256
    normalised = True
    lineage = ()

    def __init__(self, vectors: np.ndarray, queries: np.ndarray) -> None:
        self.tables = {"p": vectors, "q": queries}
        self.dimension = vectors.shape[1]
        self.fingerprint = hashlib.sha256(b"look-up").hexdigest()

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> np.ndarray:
        return np.stack([self.tables[text[0]][int(text[1:])] for text in texts])

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            yield EncodedWindow(self.encode(window, kind=kind), 0)

    def token_offsets(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array([[0, len(text)]], dtype=np.int64) for text in texts]


class Timed:
    """Counts the seconds that are spent in some functions, by the wall's clock and the thread's own."""

    def __init__(self) -> None:
        self.wall = self.own = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, own = time.perf_counter(), time.thread_time()
        yield
        self.wall += time.perf_counter() - wall
        self.own += time.thread_time() - own

    def around(self, function: Callable) -> Callable:
        def timed(*given, **named):
            with self.running():
                return function(*given, **named)

        return timed


def overhead(vectors: np.ndarray, queries: np.ndarray) -> dict[str, object]:
    """Milliseconds of a search beyond encoding and finding the nearest, and what they go into."""
    vectors, queries = vectors[:PASSAGES], queries[:QUERIES]
    encoder = LookUp(vectors, queries)
    kept: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as home,
        Library.open(Path(home), load_encoder=lambda _source: encoder) as library,
    ):
        collection = library.collection("passages", chunking="none")
        collection.add_rows([{"id": f"d{at}", "text": f"p{at}"} for at in range(len(vectors))])
        collection.search("q0", 10, mode="dense")
        for at in range(len(queries)):
            whole, index, encode, snapshot = Timed(), Timed(), Timed(), Timed()
            with (
                mock.patch.object(Snapshot, "nearest_many", index.around(Snapshot.nearest_many)),
                mock.patch.object(LookUp, "encode", encode.around(LookUp.encode)),
                whole.running(),
            ):
                collection.search(f"q{at}", 10, mode="dense")
            with snapshot.running():
                collection.snapshot()
            parts = {"search": whole, "index": index, "encode": encode, "snapshot": snapshot}
            for name, timed in parts.items():
                kept.setdefault(name, []).append((1000 * timed.wall, 1000 * timed.own))
            added = whole.wall - index.wall - encode.wall, whole.own - index.own - encode.own
            kept.setdefault("added", []).append((1000 * added[0], 1000 * added[1]))
    return {
        "passages": len(vectors),
        "queries": len(queries),
        "mode": "dense",
        "goal_added_ms": 1.0,
        "milliseconds": {
            name: {
                "median": round(statistics.median(wall for wall, _ in values), 4),
                "p99": round(float(np.quantile([wall for wall, _ in values], 0.99)), 4),
                "median_of_the_thread": round(statistics.median(own for _, own in values), 4),
            }
            for name, values in kept.items()
        },
        "added": (
            "search less index less encode. search: the whole of Collection.search in dense mode. index: "
            "Snapshot.nearest_many, which finds the passages and scores them by their stored vectors, here "
            "exactly, as so few have no index. encode: the encoder's encode, here a look-up. What is left: "
            "the look whether the view is still the newest (snapshot, timed in its own call), the "
            "query's length, the reading transaction, fetching rows and making hits"
        ),
    }
