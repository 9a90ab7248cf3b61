"""Writes encoded windows to segments and commits them, concurrently with the encoder."""

import shlex
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import make_folder, write_refusal
from nearsay.data.errors import NearsayError, first_line
from nearsay.indexer.catalogue import collections, generations, ranges
from nearsay.indexer.catalogue.generations import EncoderRow, GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.passages import PassageWindow, document_ids
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.writer_lock import require_there
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engines import engine_of, open_index
from nearsay.indexer.plans.plan import Plan
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind, open_index_bytes, write_index, write_vectors
from nearsay.indexer.vectors.vector_store import give_back, unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder, TextKind


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A written index segment that is not in the catalogue yet."""

    path: Path
    count: int  # passages in it
    span: tuple[int, int]  # the first and the last passage that it covers


def written_index(folder: Path, made_by: EncoderRow, index: CandidateIndex) -> Path:
    """Write an index to a durable segment file."""
    try:
        make_folder(folder)
        with index.serialised_in(folder) as serialised:
            path = write_index(folder, serialised, len(index), made_by.dimension, made_by.fingerprint)
            give_back(serialised)
    except OSError as error:
        raise write_refusal(folder, error) from error
    return path


def emptied(path: Path, row: SegmentRow, made_by: EncoderRow, plan: Plan) -> CandidateIndex | None:
    """The trained index of a segment, emptied, to be filled with other passages.

    None if it has no centroids, others than the plan's, or is damaged: then a new one has to be trained.
    """
    if row.state is not SegmentState.CURRENT or not engine_of(plan.kind).has_centroids:
        return None
    try:
        serialised = open_index_bytes(path, row.sha256, row.header(made_by), seen=True)
    except DamagedSegmentError:
        return None  # a search says so, and puts it into quarantine
    index = open_index(plan.kind, serialised, row.last_passage)
    if index.lists != plan.shape.get("lists"):
        return None
    index.faiss_index.reset()  # of the passages; FAISS keeps what it was trained to
    return index


ROWS = 16_384  # passages in a segment
SECONDS = 20.0  # the most encoding that a kill can cost


class SegmentWriter:
    """Collects vectors in the order of their passages and writes them as segments, one behind the encoder.

    Each segment is committed with the range of passages that it contains, after its file is durable. Use it
    as a context manager: leaving it without an error writes the rest.
    """

    def __init__(self, store: Store, generation: GenerationRow) -> None:
        """Write to `generation`; the caller holds the collection's writer lock."""
        self._store = store
        self._generation = generation
        self._folder = store.segments(generation.collection_id)
        with store.database.reading() as connection:
            self._taken = [each.first for each in ranges.embedded(connection, generation)]
        self._numbers: list[int] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._truncated = 0
        self._since = time.monotonic()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nearsay-segments")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
            if self._under_way is not None:
                self._under_way.result()
        finally:
            self._thread.shutdown(wait=True)

    def add(self, numbers: list[int], vectors: NDArray[np.float32], truncated: int) -> None:
        """Add vectors (n, d) of passages with higher numbers than all before, from one gap."""
        if not numbers:
            return
        if self._numbers and self._gap(self._numbers[-1]) != self._gap(numbers[0]):
            self.flush()  # a segment spans no passages that have a vector already
        self._numbers += numbers
        self._vectors.append(unit_length(vectors))
        self._truncated += truncated
        if len(self._numbers) >= ROWS or time.monotonic() - self._since > SECONDS:
            self.flush()

    def refusal(self, number: int, encoder: TextEncoder, error: Exception) -> NearsayError:
        """The error for a passage that an encoder fails on, with what to do about its document."""
        collection = self._generation.collection_id
        with self._store.database.reading() as connection:
            name = collections.name_of(connection, collection)
            owner = document_ids(connection, collection, np.array([number])).get(number, "")
        said = f"{type(error).__name__}: {first_line(error)}".rstrip(".")
        return NearsayError(
            f"document '{owner}' cannot be embedded by {encoder.name} ({said}), and what comes after it "
            f"waits. Change it or remove it: nearsay documents remove {name} --id {shlex.quote(owner)}. Then "
            f"embed what waits: nearsay index rebuild {name}"
        )

    def flush(self) -> None:
        """Pass what was collected to the writing thread; raises the error of the previous write."""
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None
        if self._numbers:
            numbers = np.array(self._numbers, dtype=np.int64)
            vectors = np.concatenate(self._vectors)
            self._under_way = self._thread.submit(self._write, numbers, vectors, self._truncated)
        self._numbers, self._vectors, self._truncated = [], [], 0
        self._since = time.monotonic()

    def _gap(self, number: int) -> int:
        return bisect(self._taken, number)

    def _write(self, numbers: NDArray[np.int64], vectors: NDArray[np.float32], truncated: int) -> None:
        generation = self._generation
        made_by, dtype = generation.encoder.fingerprint, generation.dtype
        require_there(self._store.folder)  # its folders would be recreated
        path = write_vectors(self._folder, numbers, vectors, made_by, dtype)
        span = int(numbers[0]), int(numbers[-1])
        with self._store.database.writing() as connection:
            ranges.enter(connection, generation, Range(*span), truncated)
            generations.add_segment(connection, generation, SegmentKind.VECTORS, path, numbers.size, span)
            collections.changed(connection, generation.collection_id)


def embed(
    windows: Iterable[PassageWindow],
    encoder: TextEncoder,
    writer: SegmentWriter,
    listener: ProgressListener = unheard,
    *,
    total: Callable[[], int | None] = lambda: None,
) -> tuple[int, int]:
    """Encode windows of passages and write their vectors. Returns how many passages, how many truncated.

    While a window is encoded, the next one is read and tokenized and the previous one is written. Raises
    NearsayError, naming the document, if the encoder fails on a text.
    """
    waiting: list[PassageWindow] = []

    def texts() -> Iterator[list[str]]:
        for window in windows:
            if window.numbers:
                waiting.append(window)
                yield window.texts

    embedded = truncated = 0
    for encoded in _encoded(encoder, texts(), waiting, writer):
        current = waiting.pop(0).numbers
        writer.add(current, encoded.vectors, encoded.truncated)
        embedded += len(current)
        truncated += encoded.truncated
        listener(Progress(embedded, total()))
    return embedded, truncated


def _encoded(
    encoder: TextEncoder, texts: Iterable[list[str]], waiting: list[PassageWindow], writer: SegmentWriter
) -> Iterator[EncodedWindow]:
    """Yield the windows' vectors; waiting: windows that the encoder has and that have no vectors yet."""
    try:
        yield from encoder.stream(texts, kind=TextKind.PASSAGE)
    except NearsayError:
        raise
    except Exception as error:
        number = next((found for each in waiting if (found := _culprit(encoder, each))), None)
        if number is None:  # it is not for a text
            raise
        raise writer.refusal(number, encoder, error) from error


def _culprit(encoder: TextEncoder, window: PassageWindow) -> int | None:
    """The passage that the encoder fails on; None if it fails on none of them, or on any text."""

    def fails(texts: list[str]) -> bool:
        try:
            list(encoder.stream([texts], kind=TextKind.PASSAGE))
        except Exception:  # noqa: BLE001 - whatever a text does to an encoder
            return True
        return False

    if fails(["a"]) or not fails(window.texts):
        return None
    low, high = 0, len(window.texts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(window.texts[low:middle]) else (middle, high)
    return window.numbers[low]
