"""Embedding what waits in a collection by the workers of a Ray cluster.

Rows stay in the catalogue, and only the driver commits. It plans ranges of passages; each worker reads one
from the catalogue, embeds it, writes its segment beside the others and gives back a record of some bytes,
which the driver enters under the collection's writer lock. Ray does a lost worker's range again, perhaps
twice: the second record of a range is refused by its key, and the file of both is the same.
"""

import contextlib
import json
import logging
import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass
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
    answers_of,
    end_processes,
    free_room,
    is_client,
    joined,
    nodes_of,
    raised_by,
    ray_module,
    refuse_far,
)
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.errors import ClusterError, EncoderMismatchError, LostLockError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentKind, write_vectors
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["Worker", "embed_on_cluster"]

_WINDOW = 512  # passages read from the catalogue and encoded at a time
_TRIES = 3  # for a range whose worker died, after the first
_GONE = 30.0  # seconds within which Ray knows that a machine is gone
_PARTS = 8  # that a range is cut into whose workers died with all its tries, and so on down to one passage
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

    @classmethod
    def from_json(cls, text: str) -> "_Record":
        found = json.loads(text)
        return cls(
            [_Piece(**piece) for piece in found["pieces"]],
            found["truncated"],
            [(number, reason) for number, reason in found["faults"]],
        )


class Worker:
    """Embeds ranges of one generation, in a process of its own: the encoder is loaded once."""

    def __init__(
        self, folder: str, database: str, generation: GenerationRow, load: Callable[[str], TextEncoder]
    ) -> None:
        """load: gives the encoder of a source. The catalogue, which may be away just now, is not asked."""
        self._generation = generation
        made_by = generation.encoder
        self._refusal = self._missing = ""
        try:
            self._store = Store(Path(folder), Database(database))
            self._encoder = load(made_by.source)
        except Exception as error:  # noqa: BLE001 - an actor that does not start could not say why
            why = first_line(error).rstrip(".")
            self._missing = (
                f"a worker on {socket.gethostname()} cannot begin to embed by '{made_by.source}' ({why}). "
                "Bring the same encoder and installation to every machine, and the memory that they need"
            )
            return
        if self._encoder.fingerprint != made_by.fingerprint:
            self._refusal = (
                f"'{made_by.source}' on {socket.gethostname()} is another encoder "
                f"({self._encoder.fingerprint[:12]}) than the collection's ({made_by.fingerprint[:12]}). "
                "Bring the same folder to every machine"
            )

    def __call__(self, batch: Mapping[str, NDArray[np.int64]]) -> dict[str, list[str]]:
        """The records of the ranges `first` to `last`, as JSON; or why there is none."""
        if self._refusal or self._missing:
            none = [""] * len(batch["first"])
            refusals = {"refusal": [self._refusal] * len(none), "missing": [self._missing] * len(none)}
            return {"record": none, "fault": none} | refusals
        records, faults = [], []
        for first, last in zip(batch["first"].tolist(), batch["last"].tolist(), strict=True):
            record = fault = ""
            try:
                record = json.dumps(asdict(self.embed(Range(first, last))))
            except (NearsayError, OSError, sa.exc.SQLAlchemyError) as error:  # the disk, or the catalogue
                fault = f"{socket.gethostname()}: {first_line(error)}"
            records.append(record)
            faults.append(fault)
        none = [""] * len(records)
        return {"record": records, "fault": faults, "refusal": none, "missing": none}

    def embed(self, wanted: Range) -> _Record:
        """Embed a range and write its segment, or several where a passage between cannot be embedded."""
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
    size = segment_writer.ROWS
    with store.database.reading() as connection:
        wanted = ranges.waiting(connection, generation, size)
        total = ranges.unembedded(connection, generation)
    cluster = store.cluster
    if not total or cluster is None or store.load_encoder is None:
        return 0, 0
    done = truncated = 0
    faults: dict[int, str] = {}  # passages that cannot be embedded, and why
    lost: list[str] = []  # why ranges were not embedded that could be

    def left() -> list[Range]:
        with store.database.reading() as connection:
            found = ranges.waiting(connection, generation, size)
        return [each for each in found if not all(at in faults for at in range(each.first, each.last + 1))]

    with joined(cluster):
        try:
            free_room(cluster, 1, "a worker that embeds")
        except ClusterError as error:
            raise ClusterError(f"{error}. {counted(total, 'passage')} wait for the same command") from None
        machines = nodes_of()
        while wanted:
            whole = size == segment_writer.ROWS
            # Closed before Ray is left: a thread of it that asked Ray for more would end the whole process.
            with contextlib.closing(
                _records(store, cluster, generation, wanted, lost, whole=whole)
            ) as records:
                for record in records:
                    entered, cut = _enter(store, generation, record)
                    done += entered
                    truncated += cut
                    faults.update(record.faults)
                    listener(Progress(done, total))
            wanted = left()
            if lost or not wanted:
                break
            if (whole or size == 1) and _one_went(machines):  # with all tries of what it was doing
                machines = nodes_of()
            elif size == 1:
                faults.update((each.first, _DEADLY) for each in wanted)
                break
            else:  # a text ends each process that it is given to: it is looked for
                size = max(1, size // _PARTS)
                wanted = left()
    _refuse_lost(store, generation, sorted(faults.items()), lost)
    return done, truncated


def _one_went(before: set[str]) -> bool:
    """Whether a machine is gone that was there: Ray takes some seconds to be sure."""
    until = time.monotonic() + _GONE
    while time.monotonic() < until:
        if before - nodes_of():
            return True
        time.sleep(0.5)
    return False


def _enter(store: Store, generation: GenerationRow, record: _Record) -> tuple[int, int]:
    """Enter a record in one transaction; how many passages, and how many were cut.

    What is there already is not entered, nor counted: Ray did the range twice.
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
    store: Store,
    cluster: Cluster,
    generation: GenerationRow,
    wanted: list[Range],
    lost: list[str],
    *,
    whole: bool,
) -> Generator[_Record, None, None]:
    """The records of the ranges as they come; those whose workers die again and again do not.

    lost:  is told why a worker has no record of a range
    whole: False for parts of ranges that were lost: a worker has one at a time, so that none dies for another
    """
    refuse_far(store)
    url = store.database.engine.url.render_as_string(hide_password=False)
    given = (str(store.folder), url, generation, store.load_encoder)
    failed = ray_module().exceptions.RayError
    with contextlib.closing((_fetched if is_client() else _mapped)(cluster, given, wanted, whole)) as batches:
        try:
            for batch in batches:
                columns = (batch[name] for name in ("record", "fault", "refusal", "missing"))
                for record, fault, refusal, missing in zip(*columns, strict=True):
                    if refusal:
                        raise EncoderMismatchError(refusal)
                    if missing:
                        raise ClusterError(missing)
                    if fault:
                        lost.append(fault)
                    else:
                        yield _Record.from_json(record)
        except failed as error:  # a worker that Ray could not start
            raise raised_by(error) from error


def _mapped(
    cluster: Cluster,
    given: tuple[Any, ...],
    wanted: list[Range],
    whole: bool,
) -> Generator[Any, None, None]:
    """What the workers give of the ranges, a batch of rows at a time; given: what a `Worker` starts with."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_errored_blocks = -1  # a range that is lost is missed at the end
    for name in ("ray.data", "ray"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    workers = min(cluster.workers or len(wanted), len(wanted))  # Ray starts as many as there is room for
    rows = [{"first": each.first, "last": each.last} for each in wanted]
    again = _TRIES if whole else 1
    tries = {"max_restarts": again * len(rows), "max_task_retries": again}  # for ever otherwise
    with warnings.catch_warnings():  # going away in Ray 2.64, and there is no other way to say it yet
        warnings.filterwarnings("ignore", ".*ray_remote_args_fn")
        embedded = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Worker,
            fn_constructor_args=given,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(
                min_size=1, max_size=workers, max_tasks_in_flight_per_actor=2 if whole else 1
            ),
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
            ray_remote_args_fn=lambda: tries,
        )
    # Rows would come one late: each is held until the next block is there.
    batches: Any = iter(embedded.iter_batches(batch_size=None, prefetch_batches=0))
    with contextlib.closing(batches):
        yield from batches


class _Mapping:
    """`_mapped` in a process of the cluster."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - as `_mapped` has them
        self._batches = _mapped(*given)

    def next(self) -> Any:  # noqa: ANN401
        """The next batch; None after the last."""
        return next(self._batches, None)


def _fetched(*given: Any) -> Generator[Any, None, None]:  # noqa: ANN401 - as `_mapped` has them
    """The same for a client, which Ray Data does not run in: it needs streaming generators.

    https://github.com/ray-project/ray/issues/43357
    """
    head = {"node:__internal_head__": 0.001}  # where what a client needs runs anyway
    mapping: Any = ray_module().remote(num_cpus=0, resources=head)(_Mapping).remote(*given)
    try:
        while (batch := answers_of([mapping.next.remote()])[0]) is not None:
            yield batch
    finally:
        end_processes([mapping])  # and Ray ends its workers


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
