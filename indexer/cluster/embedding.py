"""Embedding what waits in a collection by the workers of a Ray cluster.

Rows stay in the catalogue, and only the driver commits. It plans ranges of passages; each worker reads one
from the catalogue, embeds it, writes its segment beside the others and gives back a record of some bytes,
which the driver enters under the collection's writer lock. A lost worker's range is done again by another: a
second record of a range is refused by its key, and the file of both is the same.
"""

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError, first_line
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import collections, generations, passages, ranges
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageWindow, document_ids
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.store import Cluster, Store
from nearsay.indexer.cluster.joining import (
    end_processes,
    errors_away,
    free_room,
    joined,
    raised_by,
    ray_module,
    refuse_far,
    room_of,
)
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.errors import ClusterError, EncoderMismatchError, LostLockError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind, write_vectors
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

_WINDOW = 512  # passages read from the catalogue and encoded at a time
_TRIES = 3  # for a range whose worker died, after the first
_PARTS = 8  # that a range is cut into whose workers died with all its tries, and so on down to one passage
_LOOKS = 1.0  # seconds between two looks whether machines have joined
_DEADLY = "the process of each worker that it was given to ended; out of memory?"
_NAMED = 3  # documents that an error names


@dataclass(frozen=True, slots=True)
class _Piece:
    """Passages of a range that are embedded, and the file of their vectors."""

    first: int
    last: int
    count: int
    sha256: str | None  # None: there was none to embed


@dataclass(frozen=True, slots=True)
class _Record:
    """What a worker gives back of a range: all there is to enter."""

    pieces: list[_Piece]
    truncated: int
    faults: list[tuple[int, str]]  # passages that cannot be embedded, and why
    lost: str = ""  # why there is nothing of the range, which could be embedded


class Worker:
    """Embeds ranges of one generation, in a process of its own: the encoder is loaded once."""

    def __init__(
        self,
        folder: str,
        database: str | sa.URL,
        generation: GenerationRow,
        load: Callable[[str], TextEncoder],
    ) -> None:
        """Nothing is opened yet: an actor that does not start could not say why.

        load: gives the encoder of a source
        """
        self._place, self._generation, self._load = (Path(folder), database), generation, load

    def ready(self) -> None:
        """Load the encoder; EncoderMismatchError, or ClusterError where it cannot be.

        The catalogue, which may be away just now, is not asked.
        """
        made_by, host = self._generation.encoder, socket.gethostname()
        try:
            folder, database = self._place
            (
                folder / "library.json"
            ).stat()  # where it is not mounted, it would be made on this machine's disk
            self._store = Store(folder, Database(database))
            self._encoder = self._load(made_by.source)
        except Exception as error:
            why = first_line(error).rstrip(".")
            raise ClusterError(
                f"a worker on {host} cannot begin to embed by '{made_by.source}' ({why}). Bring the same "
                "folder, encoder and installation to every machine, and the memory that they need"
            ) from error
        if self._encoder.fingerprint != made_by.fingerprint:
            raise EncoderMismatchError(
                f"'{made_by.source}' on {host} is another encoder ({self._encoder.fingerprint[:12]}) than "
                f"the collection's ({made_by.fingerprint[:12]}). Bring the same folder to every machine"
            )

    def embed(self, wanted: Range) -> _Record:
        """Embed a range and write its segment, or several where a passage between cannot be embedded."""
        try:
            return self._embedded(wanted)
        except (NearsayError, OSError, sa.exc.SQLAlchemyError) as error:  # the disk, or the catalogue
            return _Record([], 0, [], f"{socket.gethostname()}: {first_line(error)}")

    def _embedded(self, wanted: Range) -> _Record:
        numbers: list[int] = []
        vectors: list[NDArray[np.float32]] = []
        truncated, faults = 0, list[tuple[int, str]]()
        collection, database = self._generation.collection_id, self._store.database
        for window in passages.windows(database, collection, wanted.first, wanted.last, _WINDOW):
            for part, encoded, cut in self._encoded(window, faults):
                numbers += part
                vectors.append(unit_length(encoded))
                truncated += cut
        whole = np.concatenate(vectors) if vectors else np.zeros((0, self._encoder.dimension), np.float32)
        ids = np.array(numbers, dtype=np.int64)
        ends = [wanted.first - 1, *sorted(number for number, _ in faults), wanted.last + 1]
        pieces = []
        for before, after in pairwise(ends):
            if after - before < 2:
                continue
            own = (ids > before) & (ids < after)
            sha256 = None
            if own.any():
                folder = self._store.segments(self._generation.collection_id)
                made_by, dtype = self._generation.encoder.fingerprint, self._generation.dtype
                sha256 = write_vectors(folder, ids[own], whole[own], made_by, dtype).stem
            pieces.append(_Piece(before + 1, after - 1, int(own.sum()), sha256))
        return _Record(pieces, truncated, faults)

    def _encoded(
        self, window: PassageWindow, faults: list[tuple[int, str]]
    ) -> Iterator[tuple[list[int], NDArray[np.float32], int]]:
        """Numbers, vectors (n, d) and how many were cut, without the passages that cannot be encoded."""
        try:
            (encoded,) = self._encoder.stream([window.texts], kind=TextKind.PASSAGE)
        except Exception as error:  # noqa: BLE001 - whatever a text does to an encoder, the others go on
            if len(window.numbers) == 1:
                faults.append((window.numbers[0], f"{type(error).__name__}: {first_line(error)}"))
                return
            middle = len(window.numbers) // 2
            for some in (slice(middle), slice(middle, None)):
                yield from self._encoded(PassageWindow(window.numbers[some], window.texts[some]), faults)
            return
        yield window.numbers, encoded.vectors, encoded.truncated


def embed_on_cluster(
    store: Store, generation: GenerationRow, listener: ProgressListener = unheard
) -> tuple[int, int]:
    """Embed the passages that have no vector in the generation; how many, and how many were cut.

    The caller holds the writer lock. What is done is committed range by range: stopped at any moment, the
    same call resumes. ClusterError names what could not be embedded when all else is done.
    """
    with store.database.reading() as connection:
        wanted = ranges.waiting(connection, generation, segment_writer.ROWS)
        total = ranges.unembedded(connection, generation)
    cluster = store.cluster
    if not total or cluster is None or store.load_encoder is None:
        return 0, 0
    done = truncated = 0
    faults: list[tuple[int, str]] = []  # passages that cannot be embedded, and why
    lost: list[str] = []  # why ranges were not embedded that could be
    with joined(cluster):
        try:
            free_room(cluster, 1, "a worker that embeds")
        except ClusterError as error:
            raise ClusterError(f"{error}. {counted(total, 'passage')} wait for the same command") from None
        with contextlib.closing(_records(store, cluster, generation, wanted)) as records:
            for record in records:
                entered, cut = _enter(store, generation, record) if record.pieces else (0, 0)
                done += entered
                truncated += cut
                faults += record.faults
                lost += [record.lost] if record.lost else []
                listener(Progress(done, total))
    _refuse_lost(store, generation, sorted(faults), lost)
    return done, truncated


def _enter(store: Store, generation: GenerationRow, record: _Record) -> tuple[int, int]:
    """Enter a record in one transaction; how many passages, and how many were cut.

    What is there already is not entered, nor counted: the range was done twice.
    """
    entered = truncated = 0
    with store.database.writing() as connection:
        for at, piece in enumerate(record.pieces):
            cut = record.truncated if at == 0 else 0
            try:
                with connection.begin_nested():
                    ranges.enter(connection, generation, Range(piece.first, piece.last), cut)
            except LostLockError:
                continue
            if piece.sha256 is not None:
                path = store.segment(generation.collection_id, piece.sha256)
                span = (piece.first, piece.last)
                generations.add_segment(connection, generation, SegmentKind.VECTORS, path, piece.count, span)
            entered += piece.count
            truncated += cut
        collections.changed(connection, generation.collection_id)
    return entered, truncated


def _records(
    store: Store, cluster: Cluster, generation: GenerationRow, wanted: Sequence[Range]
) -> Generator[_Record, None, None]:
    """The records of the ranges as they come.

    There are as many workers as the cluster has room for, also when machines join meanwhile, and a worker has
    one range at a time. One whose worker died is given to another; if that ends several, it is cut into
    parts, down to the passage that ends each process that it is given to: that is a fault.
    """
    refuse_far(store)
    ray, url = ray_module(), store.database.engine.url
    actor = ray.remote(Worker).options(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=0)
    left, deaths, failed, room = deque(wanted), Counter[Range](), 0, 1
    calls: dict[Any, tuple[Any, Range | None]] = {}  # a worker, and what it embeds; None: it starts
    try:
        while left or any(mine for _, mine in calls.values()):
            with contextlib.suppress(*errors_away()):  # `ray.wait` below waits until it is back
                room = max(1, room_of(cluster))  # machines that are away come back
            busy = sum(mine is not None for _, mine in calls.values())
            for _ in range(len(calls), min(room, busy + len(left))):
                worker = actor.remote(str(store.folder), url, generation, store.load_encoder)
                calls[worker.ready.remote()] = worker, None
            for call in ray.wait([*calls], timeout=_LOOKS)[0]:
                worker, mine = calls.pop(call)
                try:
                    record: _Record | None = ray.get(call)
                except ray.exceptions.RayTaskError as error:
                    raise raised_by(error) from error
                except ray.exceptions.RayError as error:  # the process ended, or its machine
                    end_processes([worker])
                    if mine is None:
                        failed += 1
                        if failed > _TRIES:
                            raise raised_by(error) from error
                        continue
                    deaths[mine] += 1
                    again = [mine] if deaths[mine] <= _TRIES else _cut(mine)
                    left.extendleft(reversed(again))
                    if not again:
                        yield _Record([], 0, [(mine.first, _DEADLY)])
                    continue
                failed = 0
                if left:  # before the record is entered: the worker need not wait for that
                    following = left.popleft()
                    calls[worker.embed.remote(following)] = worker, following
                else:
                    end_processes([worker])
                if record is not None:
                    yield record
    finally:
        end_processes(worker for worker, _ in calls.values())


def _cut(wanted: Range) -> list[Range]:
    """The parts of a range; none of a single passage."""
    size = -(-(wanted.last - wanted.first + 1) // _PARTS)
    firsts = range(wanted.first, wanted.last + 1, size) if wanted.first < wanted.last else ()
    return [Range(first, min(first + size - 1, wanted.last)) for first in firsts]


def _refuse_lost(
    store: Store, generation: GenerationRow, faults: list[tuple[int, str]], lost: list[str]
) -> None:
    """ClusterError that names what was not embedded; the rest is in the catalogue."""
    with store.database.reading() as connection:
        left = ranges.unembedded(connection, generation)
        numbers = np.array([number for number, _ in faults], dtype=np.int64)
        owners = document_ids(connection, generation.collection_id, numbers)
    if faults:
        named = "; ".join(f"'{owners.get(number, '?')}' ({reason})" for number, reason in faults[:_NAMED])
        more = len(faults) - _NAMED
        others, again = "All others are", ""
        if lost:
            others = f"{counted(left - len(faults), 'other')} wait ({lost[0].rstrip('.')})"
            again = ", mend that and run the same command again"
        raise ClusterError(
            f"{counted(len(faults), 'passage')} cannot be embedded, of the documents {named}"
            f"{f' and {more:,} more' if more > 0 else ''}. {others}. Change or remove these documents{again}"
        )
    if lost:
        raise ClusterError(
            f"{counted(left, 'passage')} wait, since a worker could not go on ({lost[0].rstrip('.')}). What "
            "is done is kept: mend that and run the same command again"
        )
