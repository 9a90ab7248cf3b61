"""The writing methods of `Collection`; each holds its writer lock."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document
from nearsay.data.durable import refusals_within
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import Reading, read
from nearsay.data.reading import rows as read_rows
from nearsay.indexer.catalogue import generations, near_duplicates
from nearsay.indexer.catalogue.collection_record import (
    CollectionEncoder,
    CollectionRecord,
    EncoderSource,
    check_dtype,
    check_encoder,
)
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.lexical_rows import check_words, refill
from nearsay.indexer.catalogue.passages import PassageWindow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.duplicates.gate import GateRequest, go_through_gate
from nearsay.indexer.plans.plan import ContractChange, Plan, RecallContract
from nearsay.indexer.snapshots.contract_check import check_contract
from nearsay.indexer.snapshots.latest_snapshot import LatestSnapshot
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.indexer.writing.compaction import aside, keep_merged, merge_small, merged_for_index
from nearsay.indexer.writing.given_vectors import VectorsOnly, with_vectors
from nearsay.indexer.writing.identity import Names, with_ids
from nearsay.indexer.writing.index_upkeep import (
    keep_prepared,
    left_for_later,
    prepare_index,
    refresh_index,
    unmeasured,
)
from nearsay.indexer.writing.ingest import (
    CHANGES,
    AddReport,
    Batch,
    Entering,
    Entry,
    Tally,
    add,
    awaiting_windows,
    check_something_read,
    check_strictly,
    checked_files,
    live_or_begin,
    pieces,
)
from nearsay.indexer.writing.rollout import (
    RebuildReport,
    catch_up,
    made_good,
    mend,
    promote,
    rebuild,
)
from nearsay.training.sentence.text_encoder import TextEncoder

_FEW = 1_000  # rows
_LONG_TOKEN = 20  # characters: a longer one may be a word that the vocabulary has no pieces for
_FEW_CHARACTERS = 400_000  # and characters of them: encoded within seconds
_GATHERED = CHANGES  # rows that one thread adds for all, in one transaction


@dataclass(slots=True, eq=False)
class FewRows:
    """Rows that were read, have ids and wait to be added; afterwards the report on them."""

    batch: Batch
    tally: Tally
    notes: Sequence[str]
    key: Hashable = None  # rows with the same key can be added together
    ids: frozenset[str] = frozenset()
    taken: bool = False  # by the leading thread
    waits: bool = True  # the caller is still waiting
    entered: Tally | None = None  # once they are in the catalogue, even if something fails afterwards
    numbers: frozenset[int] = frozenset()  # of the passages that were written
    report: AddReport | None = None

    def enter(self, entry: Entry, window: PassageWindow) -> Tally:
        """Count what was written. Rows that a failed thread wrote for them do not count as unchanged."""
        if self.entered is None or entry.writes:
            self.entered = replace(self.tally, counts=self.tally.counts.copy())
            self.entered.enter(entry, len(window.numbers))
            self.numbers = frozenset(window.numbers)
        return self.entered


def few_rows(rows: Iterable[str | Document | Mapping[str, object]], options: ReadOptions) -> FewRows | None:
    """Read the rows if they are a short sequence; None if there are many, or an unknown number.

    Raises BadInputError if none of them is usable.
    """
    if not isinstance(rows, Sequence) or len(rows) > _FEW:
        return None
    reading, batch, tally = read_rows(rows, options), Batch(), Tally()
    with Names() as names:
        for item in with_ids(reading, names):
            if isinstance(item, Fault):
                tally.fault(item)
            else:
                batch.documents.append(item)
                batch.characters += item.characters
    if batch.characters > _FEW_CHARACTERS:
        return None
    tally.refuse_faults_alone(used=bool(batch.documents))
    ids = frozenset(item.id for item in batch.documents)
    return FewRows(batch, tally, tuple(reading.notes), ids=ids)


def add_few(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    encoder: TextEncoder,
    gathered: Sequence[FewRows],
) -> list[AddReport]:
    """Add rows of several callers, with distinct ids, in one transaction and segment. Returns their reports.

    Passages left pending by an earlier run are embedded first and counted with the first caller; this does
    not include what a failed thread left of these rows. The caller holds the lock.
    """
    entering = Entering(store, collection, encoder)
    entries = [entering.entry(few.batch) for few in gathered]
    windows = [PassageWindow([], []) for _ in gathered]
    own = frozenset[int]().union(*(few.numbers for few in gathered))
    left: dict[int, str] = {}  # of these rows, by passage number
    resumed = 0

    def waiting() -> Iterator[PassageWindow]:
        nonlocal resumed
        for window in awaiting_windows(store, generation):
            of_window = zip(window.numbers, window.texts, strict=True)
            mine = {number: text for number, text in of_window if number in own}
            left.update(mine)
            resumed += len(window.numbers) - len(mine)
            yield window

    with SegmentWriter(store, generation) as writer:
        _, cut_before = _embed(waiting(), encoder, writer)
        if any(entry.writes for entry in entries):
            with store.database.writing() as connection:
                windows = [
                    entering.write(connection, entry) if entry.writes else PassageWindow([], [])
                    for entry in entries
                ]
        of_each = ([left[number] for number in few.numbers & left.keys()] for few in gathered)
        cut_again = [_truncated(encoder, texts) if cut_before and texts else 0 for texts in of_each]
        cut_before -= sum(cut_again)
        tallies = [
            few.enter(entry, window) for few, entry, window in zip(gathered, entries, windows, strict=True)
        ]
        together = PassageWindow(
            [number for window in windows for number in window.numbers],
            [text for window in windows for text in window.texts],
        )
        _, cut = _embed(pieces(together), encoder, writer)
    reports = []
    several = sum(bool(window.numbers) for window in windows) > 1
    for few, tally, window, again in zip(gathered, tallies, windows, cut_again, strict=True):
        counts = tally.counts
        counts["resumed"] = resumed
        counts["cut"] += again
        counts["cut"] += _truncated(encoder, window.texts) if cut and several else cut * bool(window.numbers)
        embedded, truncated = resumed + counts["passages"], cut_before + counts["cut"]
        reports.append(tally.report(collection.name, few.notes, embedded=embedded, truncated=truncated))
        resumed = cut_before = 0
    return reports


def _embed(windows: Iterator[PassageWindow], encoder: TextEncoder, writer: SegmentWriter) -> tuple[int, int]:
    """Returns how many passages were embedded and truncated. The encoder is loaded only if there are any."""
    first = next(windows, None)
    return (0, 0) if first is None else embed(chain([first], windows), encoder, writer)


def _truncated(encoder: TextEncoder, texts: Sequence[str]) -> int:
    """Number of texts that are longer than the encoder's maximum, or contain a word that it drops."""
    beyond, doubtful = 0, []
    for text, tokens in zip(texts, encoder.token_offsets(texts) if texts else [], strict=True):
        if len(tokens) > encoder.max_tokens:
            beyond += 1
        elif np.any(tokens[:, 1] - tokens[:, 0] > _LONG_TOKEN):
            doubtful.append(text)  # the encoder alone knows whether it has that token
    return beyond + (sum(window.truncated for window in encoder.stream([doubtful])) if doubtful else 0)


@dataclass(slots=True)
class Gathering:
    """Rows that this process's threads want to add to one collection."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[FewRows] = field(default_factory=list)
    _led: bool = False  # a thread is adding

    def add(
        self,
        few: FewRows,
        wait: float,
        lead: Callable[[Callable[[], list[FewRows]], float], None],
    ) -> AddReport:
        """Let another thread add the rows with its own, or lead and also add the rows of others.

        wait: seconds to wait for the lock
        lead: takes the lock within this many seconds, calls the given function for the rows to add, the
              caller's own first, and gives each its report; BusyError

        Rows that a leader fails to add are left to their own callers.
        """
        until = time.monotonic() + wait
        with self._changed:
            self._waiting.append(few)
            try:
                while few.report is None and (few.taken or self._led):
                    left = until - time.monotonic()
                    if not few.taken and left <= 0:
                        break
                    self._changed.wait(None if few.taken else left)
            except BaseException:
                few.waits = False
                raise
            finally:
                if few in self._waiting:
                    self._waiting.remove(few)
            if few.report is not None:
                return few.report
            leads = not self._led
            self._led = True
        if not leads:  # whoever leads has it for longer than this thread may wait: to be told who
            lead(lambda: [few], 0.0)
        else:
            taken: list[FewRows] = []

            def take() -> list[FewRows]:
                taken[:] = self._taken(few)
                return taken

            try:
                lead(take, until - time.monotonic())
            finally:
                with self._changed:
                    self._led = False
                    for each in taken[1:]:
                        each.taken = False
                        if each.report is None and each.waits:
                            self._waiting.append(each)
                    self._changed.notify_all()
        return cast("AddReport", few.report)  # who leads reports, or raises

    def _taken(self, own: FewRows) -> list[FewRows]:
        """A thread's own rows, and those of others that can be added with them."""
        taken, ids = [own], set(own.ids)
        with self._changed:
            for few in list(self._waiting):
                room = len(ids) + len(few.ids) <= _GATHERED
                if few.key == own.key and room and ids.isdisjoint(few.ids):
                    self._waiting.remove(few)
                    few.taken = True
                    ids |= few.ids
                    taken.append(few)
        return taken


_GATHERINGS: dict[tuple[int, Path], Gathering] = {}


def gathering(lock_file: Path) -> Gathering:
    """The process-wide `Gathering` of the collection with that lock file."""
    return _GATHERINGS.setdefault((os.getpid(), lock_file), Gathering())


@dataclass(frozen=True, slots=True)
class _How:
    gate: GateRequest
    index: str
    progress: ProgressListener
    wait: float | None


@dataclass(slots=True)
class _Adding:
    """An addition that holds the lock."""

    store: Store  # as the holder of the lock may write it
    row: CollectionRow
    generation: GenerationRow
    encoder: TextEncoder  # of the generation
    reports: list[AddReport] = field(default_factory=list)


class CollectionWriting:
    """Adds, removes, embeds and tunes under the writer lock; the next search sees the result."""

    def __init__(
        self,
        record: CollectionRecord,
        encoder: CollectionEncoder,
        source: EncoderSource,
        snapshot: LatestSnapshot,
        promise: ContractChange,
    ) -> None:
        """Nothing is read or created yet."""
        self._record = record
        self._encoder = encoder
        self._source = source
        self._snapshot = snapshot
        self._promise = promise

    @contextlib.contextmanager
    def locked(self, row: CollectionRow, what: str, wait: float | None = None) -> Iterator[Store]:
        """Hold the writer lock. Returns the store to write with. wait: seconds; None = the library's."""
        store = self._record.store
        wait = store.wait if wait is None else wait
        lock = writer_lock(store.locks, self._record.name, row.id, store.database, what, wait)
        with refusals_within(store.folder), contextlib.ExitStack() as after, lock as fenced:
            after.callback(self._snapshot.settle)  # without the lock; of what an error left committed, too
            yield replace(store, database=fenced)

    @contextlib.contextmanager
    def held(self, what: str, wait: float | None = None) -> Iterator[tuple[Store, CollectionRow]]:
        """Hold the lock of the existing collection. Returns the store and the collection."""
        row = self._record.row()
        with self.locked(row, what, wait) as store:
            yield store, row

    @staticmethod
    def how(
        gate: str | None, threshold: float | None, index: str, progress: ProgressListener, wait: float | None
    ) -> _How:
        """Check the options of an addition; BadInputError if one is invalid."""
        if index not in ("now", "later"):
            raise BadInputError(f"index is '{index}'. Give 'now' or 'later'")
        return _How(GateRequest(gate, threshold), index, progress, wait)

    def add(
        self,
        sources: Sequence[str | Path],
        options: ReadOptions,
        stdin: BinaryIO | None,
        how: _How,
        *,
        strict: bool,
    ) -> AddReport:
        """Add or update documents from files."""
        if strict:
            with checked_files(sources, options, stdin) as again:
                return self._add(read(sources, options, stdin=again), how)
        return self._add(read(sources, options, stdin=stdin), how)

    def add_rows(
        self,
        rows: Iterable[str | Document | Mapping[str, object]],
        options: ReadOptions,
        vectors: NDArray[np.floating] | None,
        how: _How,
        *,
        strict: bool,
    ) -> AddReport:
        """Add or update documents from Python values, embedding them or with given vectors."""
        if isinstance(rows, str | Mapping | Document):
            raise BadInputError(f"one {type(rows).__name__} is not a list of rows. Put it in a list: [row]")
        if strict or vectors is not None:
            rows = list(rows)
            check_strictly(read_rows(rows, options))
        if vectors is None:
            few = few_rows(rows, options) if how.progress is unheard else None
            return self._add(read_rows(rows, options), how) if few is None else self._add_few(few, how)
        reading = read_rows(rows, options)
        given = [row for row in reading if isinstance(row, Document)]
        return self._add(read_rows(given, options), how, partial(with_vectors, given, vectors))

    def rebuild(
        self, encoder: str | TextEncoder | None, progress: ProgressListener, wait: float | None = None
    ) -> RebuildReport:
        """Embed with another encoder beside the live generation, or repair the live one.

        To repair, its encoder is loaded only if a passage has to be embedded, unless it is named again.
        """
        with self.held("rebuild", wait) as (store, row):
            generation = self._record.live()
            named = None
            if encoder is not None:
                named = self._source.encoder(encoder, anew=True)
                moved = named.fingerprint == generation.encoder.fingerprint
                moved = moved and named.source != generation.encoder.source
                if not moved:
                    promise, dtype = self._promise.of(generation.plan), self._record.dtype
                    return rebuild(store, row, named, progress, promise, dtype or generation.dtype)
            elif self._encoder.named:
                named = self._encoder.of(generation)
            else:
                self._encoder.refuse_changed(generation)
            check_dtype(self._record.name, generation, self._record.dtype)

            def load() -> TextEncoder:
                return self._encoder.loaded(generation) if named is None else named

            with store.database.reading() as connection:
                fault = check_words(connection, row.id, prove=True)
            with store.database.writing() as connection:
                if named is not None:
                    generations.register_encoder(connection, named)
                if fault is not None:  # searches and writers of other collections need not wait otherwise
                    refill(connection, row.id)
            mended = mend(store, row, generation, load, progress)
            embedded, truncated = catch_up(store, generation, load, progress)
            promise = self._promise.of(generation.plan)
            plan = refresh_index(store, row, generation, always=True, contract=promise, listener=progress)
            return mended.report(
                generation, embedded, truncated, unmeasured(self._record.name, plan, promise)
            )

    def replace_index(
        self,
        generation: GenerationRow,
        wait: float | None,
        progress: ProgressListener,
        contract: RecallContract | None = None,
        queries: NDArray[np.float32] | None = None,
        *,
        newer: bool = False,
    ) -> Plan:
        """Merge segments, build one index of everything and replace the others by it. Returns the plan.

        generation: the live one; BusyError if another one went live meanwhile
        contract:   the target to measure for, with these queries if there are any; None = unchanged
        newer:      only index new passages

        The lock is held only while files are replaced, so others can add meanwhile. Unless `wait` is given,
        it waits for them as long as the work took.
        """
        row, started = self._record.row(), time.monotonic()
        with contextlib.suppress(BusyError):  # somebody writes: an index is built over small files as well
            for merged in merged_for_index(self._record.store, row, generation, indexes_stay=newer):
                with self.locked(row, "merge", wait) as store:
                    keep_merged(store, row, generation, merged)
        with aside(self._record.store) as folder:
            prepared = prepare_index(
                self._record.store,
                row,
                generation,
                folder,
                contract=contract,
                queries=queries,
                newer=newer,
                listener=progress,
            )
            if prepared is None:
                return Plan.from_json(generation.plan)
            wait = max(self._record.store.wait, time.monotonic() - started) if wait is None else wait
            with self.locked(row, "index", wait) as store:
                self._record.require_live(generation)
                plan = keep_prepared(store, row, generation, prepared)
        self.check(row)
        return plan

    def check(self, row: CollectionRow) -> str | None:
        """Check the contract if it is due, without waiting for the lock. Returns a warning, or None."""
        lock = partial(self.locked, row, "check", 0.0)
        return check_contract(self._record.store, row, self._snapshot.take, lock)

    def _add(
        self,
        reading: Reading,
        how: _How,
        embedding: Callable[[Chunking, TextEncoder], TextEncoder] | None = None,
    ) -> AddReport:
        """embedding: what gives the rows' vectors, from the collection's chunking and encoder."""
        is_new = not self._record.exists()
        encoder = self._encoder_of(vectors_are_given=embedding is not None)
        with self._adding(encoder, how, is_new=is_new) as adding:
            store, row, generation, encoder = adding.store, adding.row, adding.generation, adding.encoder
            if embedding is not None:
                store = replace(store, cluster=None)  # there is hardly anything to embed
                made_by, encoder = encoder, embedding(Chunking.parse(row.chunking), encoder)
                if isinstance(made_by, VectorsOnly):
                    reading.notes += made_good(store, row, generation, encoder)
            adding.reports.append(add(store, row, generation, encoder, reading, how.progress))
            if is_new:
                check_something_read(reading, adding.reports[0], self._record.name)
        return adding.reports[0]

    def _add_few(self, few: FewRows, how: _How) -> AddReport:
        """Add a few rows together with those of other waiting threads."""
        encoder = self._encoder_of(vectors_are_given=False)
        store, is_new = self._record.store, not self._record.exists()
        lock_file = store.locks.resolve() / f"{self._record.made().id}.lock"
        named = encoder.fingerprint if self._encoder.named else None
        few.key = (named, self._promise, self._record.dtype, how.gate, how.index)

        def lead(take: Callable[[], list[FewRows]], left: float) -> None:
            with self._adding(encoder, replace(how, wait=left), is_new=is_new) as adding:
                store, row = adding.store, adding.row
                with store.database.reading() as connection:
                    alone = near_duplicates.gate_of(connection, row.id) is not None  # one report a gate
                gathered = [few] if alone else take()
                adding.reports += add_few(store, row, adding.generation, adding.encoder, gathered)
            for each, report in zip(gathered, adding.reports, strict=True):
                each.report = report

        return gathering(lock_file).add(few, store.wait if how.wait is None else how.wait, lead)

    def _encoder_of(self, *, vectors_are_given: bool) -> TextEncoder:
        """The encoder to write with; BadInputError if rows without vectors cannot be embedded."""
        encoder = self._encoder.for_writing()
        if isinstance(encoder, VectorsOnly) and not vectors_are_given:
            raise BadInputError(
                f"the vectors of collection '{self._record.name}' are made elsewhere, by {encoder.name}. "
                f"Give them with the rows: add_rows(rows, vectors=…), (rows, {encoder.dimension})"
            )
        return encoder

    @contextlib.contextmanager
    def _adding(self, encoder: TextEncoder, how: _How, *, is_new: bool) -> Iterator[_Adding]:
        """Hold the lock while rows are written; then update index and gate, and report on them.

        is_new: the collection did not exist when the caller asked for it
        """
        row = self._record.made()
        with self.locked(row, "add", how.wait) as store:
            try:
                with store.database.writing() as connection:
                    first = Plan(contract=self._promise.of({}))
                    generation = live_or_begin(connection, row, encoder, first.to_json(), self._record.dtype)
                    if self._encoder.named:
                        check_encoder(self._record.name, generation, encoder)
                    check_dtype(self._record.name, generation, self._record.dtype)
                    generations.register_encoder(connection, encoder)  # it may have moved
                    how.gate.settle(connection, row, generation)
                if encoder.fingerprint != generation.encoder.fingerprint:  # another went live meanwhile
                    encoder = self._encoder.of(generation)
                adding = _Adding(store, row, generation, encoder)
                yield adding
            except BaseException:
                if is_new:  # a first try that failed settles neither encoder nor chunking
                    with contextlib.suppress(NearsayError):  # what went wrong first is what is told
                        self._record.forget_empty(store, row)
                raise
            merge_small(store, row, generation)
            promise = self._promise.of(generation.plan)
            refresh = partial(refresh_index, store, row, generation, contract=promise, listener=how.progress)
            take = self._snapshot.of_this_process().take  # shards may be away, or answer in part
            passed = go_through_gate(store, row, take, refresh, how.progress)
            if how.index == "later":
                said: tuple[str | None, ...] = left_for_later(store, row, generation, promise)
            else:
                said = (unmeasured(self._record.name, refresh(), promise),)
        if how.index == "now":
            said = (*said, self.check(row))
        notes = [note for note in said if note is not None]
        adding.reports = [
            replace(report, notes=(*report.notes, *notes), near_duplicates=passed)
            for report in adding.reports
        ]

    def go_live(
        self,
        what: str,
        chosen: Callable[[Store, CollectionRow], GenerationRow],
        progress: ProgressListener,
        wait: float | None,
        measured: dict[str, Any] | None = None,
    ) -> int:
        """Make a generation live. Returns its number. measured: the result of the gate.

        Pending passages are embedded first; if there are none, the encoder is not loaded.
        """
        with self.held(what, wait) as (store, row):
            generation = chosen(store, row)
            self._encoder.refuse_changed(generation)
            load = partial(self._encoder.loaded, generation)
            mend(store, row, generation, load, progress)
            catch_up(store, generation, load, progress)
            refresh_index(store, row, generation, listener=progress)
            number = promote(store, row, generation.number, measured).number
        self.check(row)
        return number
