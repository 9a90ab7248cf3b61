"""Rolling out an encoder: rebuild, promote, roll back; and repairing damaged segments."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.report import Report
from nearsay.indexer.catalogue import collections, generations, passages, ranges
from nearsay.indexer.catalogue.bulk import number_list
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.plans.plan import Plan, RecallContract
from nearsay.indexer.snapshots.quarantine import quarantine_damaged, restore
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.vectors.errors import UnknownGenerationError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.read_ahead import read_ahead
from nearsay.indexer.vectors.segment import (
    SegmentKind,
    VectorDtype,
    VectorSegment,
    open_vectors,
)
from nearsay.indexer.vectors.vector_store import of_unit_length, unit_length
from nearsay.indexer.writing.compaction import SEGMENT_ROWS, replace_segments
from nearsay.indexer.writing.given_vectors import VectorsOnly
from nearsay.indexer.writing.index_upkeep import refresh_index, unmeasured
from nearsay.indexer.writing.ingest import awaiting_windows
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

_WINDOW = 4096  # passages that are embedded at a time where some lack a vector
_SAME = 0.999  # cosine from which two vectors of a passage are one


@dataclass(frozen=True, slots=True)
class RebuildReport(Report):
    """The result of a rebuild."""

    REPORT: ClassVar = "rebuilt"

    generation: int
    state: GenerationState
    embedded: int  # passages
    truncated: int
    mended: int  # damaged segments that were recreated
    notes: tuple[str, ...] = ()  # what could not be done, or was not needed
    restored: int = 0  # intact segments that were taken out of quarantine


@dataclass(frozen=True, slots=True)
class Promotion(Report):
    """The generation that went live."""

    REPORT: ClassVar = "promoted"

    collection: str
    generation: int
    gate: Mapping[str, JsonValue] | None = None  # what the gate measured; None if it was not used

    def lines(self) -> list[str]:
        """The report as a sentence."""
        return [f"generation {self.generation} of '{self.collection}' is live"]


@dataclass(frozen=True, slots=True)
class Mended:
    """The result of `mend`."""

    segments: int  # damaged ones that were recreated
    embedded: int  # passages in them
    restored: int  # intact segments that were in quarantine

    def report(
        self, generation: GenerationRow, embedded: int, truncated: int, note: str | None
    ) -> RebuildReport:
        """The report of a rebuild that repaired these segments and embedded more; note: a further note."""
        notes = () if note is None else (note,)
        if self.restored:
            were = "was" if self.restored == 1 else "were"
            put_back = (
                f"{counted(self.restored, 'segment')} in quarantine {were} whole after all and {were} put "
                "back, without embedding anything again"
            )
            notes = (put_back, *notes)
        embedded += self.embedded
        return RebuildReport(
            generation.number, generation.state, embedded, truncated, self.segments, notes, self.restored
        )


def rebuild(
    store: Store,
    collection: CollectionRow,
    encoder: TextEncoder,
    listener: ProgressListener,
    contract: RecallContract | None = None,
    dtype: VectorDtype = VectorDtype.FLOAT32,
) -> RebuildReport:
    """Embed the collection with another encoder into a generation that is ready to be promoted.

    contract: recall target of its index; dtype: how it stores vectors. An unfinished generation of the same
              encoder and data type is resumed. The caller holds the writer lock.

    Raises BadInputError for vectors that are computed elsewhere, before a generation is begun.
    """
    with store.database.reading() as connection:
        _, there = collections.size(connection, collection.id)
    if isinstance(encoder, VectorsOnly) and there:
        raise BadInputError(
            f"{encoder.name} makes its vectors elsewhere, and the {counted(there, 'passage')} of collection "
            f"'{collection.name}' cannot be embedded by it. Add their rows with vectors= to a new collection"
        )
    with store.database.writing() as connection:
        begun = next(
            (
                generation
                for generation in generations.all_of(connection, collection.id)
                if generation.state in (GenerationState.BUILDING, GenerationState.READY)
                and generation.encoder.fingerprint == encoder.fingerprint
                and generation.dtype is dtype
            ),
            None,
        )
        if begun is None:
            encoder_id = generations.register_encoder(connection, encoder)
            plan = Plan(contract=contract or RecallContract()).to_json()
            number = generations.begin(
                connection, collection.id, encoder_id, GenerationState.BUILDING, plan, dtype
            )
            begun = generations.numbered(
                generations.all_of(connection, collection.id), number, collection.name
            )
        collections.changed(connection, collection.id)
    mended = mend(store, collection, begun, lambda: encoder, listener)
    embedded, truncated = catch_up(store, begun, lambda: encoder, listener)
    chosen = refresh_index(store, collection, begun, contract=contract, listener=listener)
    note = None if contract is None else unmeasured(collection.name, chosen, contract)
    with store.database.writing() as connection:
        generations.set_state(connection, begun, GenerationState.READY)
        collections.changed(connection, collection.id)
    return mended.report(replace(begun, state=GenerationState.READY), embedded, truncated, note)


def catch_up(
    store: Store,
    generation: GenerationRow,
    load: Callable[[], TextEncoder],
    listener: ProgressListener = unheard,
) -> tuple[int, int]:
    """Embed the passages without a vector in the generation. Returns how many, and how many were truncated.

    load: loads the generation's encoder; called only if there are such passages
    """
    with store.database.reading() as connection:
        every = generations.all_of(connection, generation.collection_id)
        generation = next(row for row in every if row.number == generation.number)  # what was mended counts
        total = ranges.unembedded(connection, generation)
    if not total:
        return 0, 0
    if store.cluster is not None:
        from nearsay.indexer.cluster.embedding import embed_on_cluster  # Ray only for those who use it

        return embed_on_cluster(store, generation, listener)
    ahead = read_ahead(awaiting_windows(store, generation))
    with SegmentWriter(store, generation) as writer, contextlib.closing(ahead) as windows:
        return embed(windows, load(), writer, listener, total=lambda: total)


def mend(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    load: Callable[[], TextEncoder],
    listener: ProgressListener = unheard,
) -> Mended:
    """Check the segments and recreate damaged ones.

    An intact file in quarantine is put back. Otherwise vectors are recreated from the catalogue's text;
    segments that overlap, as two simultaneous writers of an old version left them, or lack passages are
    rewritten; indexes are left to `refresh_index`. Damaged files stay in quarantine. Raises StorageError if a
    file cannot be read at the moment.

    load: loads the generation's encoder; called only if a text has to be embedded
    """
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
    kept = [row for row in rows if row.state is SegmentState.QUARANTINED]
    restored = sum(restore(store, collection, generation, row) for row in kept)
    quarantine_damaged(
        store, collection, generation, (row for row in rows if row.state is SegmentState.CURRENT)
    )
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
    damaged = [row for row in rows if row.state is SegmentState.QUARANTINED]
    total = sum(row.count for row in damaged if row.kind is SegmentKind.VECTORS)
    embedded = 0
    for row in damaged:
        if row.kind is SegmentKind.VECTORS:
            embedded += _mend_vectors(store, collection, generation, row, load)
            listener(Progress(embedded, total))
        else:
            with store.database.writing() as connection:
                generations.remove_segment(connection, row)
                collections.changed(connection, collection.id)
    segments, again = _mend_ranges(store, collection, generation, load, listener)
    return Mended(len(damaged) + segments, embedded + again, restored)


def made_good(
    store: Store, collection: CollectionRow, generation: GenerationRow, encoder: TextEncoder
) -> list[str]:
    """Recreate damaged segments from given vectors, in a collection of `VectorsOnly`. Returns notes.

    encoder: holds the vectors that were given with rows. Raises BadInputError if a pending passage has none
             among them, before anything else is written
    """
    for window in awaiting_windows(store, generation):
        encoder.encode(window.texts)
    with store.database.reading() as connection:
        rows = generations.segments_of(connection, collection.id, generation.number)
    made = 0
    for row in rows:
        if row.state is SegmentState.QUARANTINED and row.kind is SegmentKind.VECTORS:
            with contextlib.suppress(BadInputError):  # a search says so, and what is to be given
                made += _mend_vectors(store, collection, generation, row, lambda: encoder)
    return [f"{counted(made, 'passage')} that had lost their vectors were given them again"] if made else []


def promotable(store: Store, collection: CollectionRow, number: int | None = None) -> GenerationRow:
    """The generation of that number, or the newest ready one; UnknownGenerationError if none can go live."""
    with store.database.reading() as connection:
        every = generations.all_of(connection, collection.id)
    ready = [generation for generation in every if generation.state is GenerationState.READY]
    if number is None and not ready:
        raise UnknownGenerationError(
            f"collection '{collection.name}' has no generation that is ready. "
            f"Make one: nearsay index rebuild {collection.name} --encoder ENCODER"
        )
    chosen = ready[-1] if number is None else generations.numbered(every, number, collection.name)
    if chosen.state not in (GenerationState.READY, GenerationState.RETIRED):
        raise UnknownGenerationError(
            f"generation {chosen.number} of '{collection.name}' is {chosen.state}, not ready. "
            f"See: nearsay collections show {collection.name}"
        )
    return chosen


def promote(
    store: Store, collection: CollectionRow, number: int, gate: dict[str, Any] | None = None
) -> GenerationRow:
    """Make a generation live in one transaction; gate: what was measured before."""
    chosen = promotable(store, collection, number)
    with store.database.writing() as connection:
        every = generations.all_of(connection, collection.id)
        for generation in every:
            if generation.state is GenerationState.LIVE:
                generations.set_state(connection, generation, GenerationState.RETIRED)
        generations.set_state(connection, chosen, GenerationState.LIVE, gate)
        collections.changed(connection, collection.id)
    return chosen


def last_retired(store: Store, collection: CollectionRow) -> GenerationRow:
    """The previously live generation; UnknownGenerationError if there is none."""
    with store.database.reading() as connection:
        every = generations.all_of(connection, collection.id)
    retired = [generation for generation in every if generation.state is GenerationState.RETIRED]
    if not retired:
        raise UnknownGenerationError(
            f"collection '{collection.name}' has no retired generation to go back to. "
            f"See: nearsay collections show {collection.name}"
        )
    return max(retired, key=lambda generation: generation.promotion or 0)


def _mend_vectors(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    row: SegmentRow,
    load: Callable[[], TextEncoder],
) -> int:
    numbers: list[int] = []
    encoder = load()
    if isinstance(encoder, VectorsOnly):
        _refuse_lost(store, collection, row, encoder)

    def texts() -> Iterator[list[str]]:
        for window in awaiting_windows(store, generation, [Range(row.first_passage, row.last_passage)]):
            numbers.extend(window.numbers)
            yield window.texts

    vectors = [encoded.vectors for encoded in encoder.stream(texts(), kind=TextKind.PASSAGE)]
    made = [(np.array(numbers, dtype=np.int64), unit_length(np.concatenate(vectors)))] if numbers else []
    replace_segments(store, collection, generation, [row], made)
    return len(numbers)


def _refuse_lost(store: Store, collection: CollectionRow, row: SegmentRow, made_by: VectorsOnly) -> None:
    """Raise BadInputError if a damaged segment held vectors that only the user has."""
    with store.database.reading() as connection:
        lost = passages.passage_numbers(
            connection, collection.id, after=row.first_passage - 1, through=row.last_passage
        )
        owners = passages.document_ids(connection, collection.id, lost[[0, -1]] if lost.size else lost)
    if lost.size:
        first, last = owners[int(lost[0])], owners[int(lost[-1])]
        raise BadInputError(
            f"{counted(lost.size, 'passage')} of collection '{collection.name}' lost their vectors, which "
            f"{made_by.name} makes elsewhere: of the documents from '{first}' to '{last}', in the order they "
            "were added. Add their rows once more with vectors=, all of them in one call. Or remove "
            "them, and run the same command again"
        )


@dataclass(slots=True)
class _Stretch:
    """Consecutive passages and the segments that hold their vectors."""

    first: int
    last: int  # that has a vector
    segments: list[tuple[SegmentRow, VectorSegment]]


def _mend_ranges(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    load: Callable[[], TextEncoder],
    listener: ProgressListener,
) -> tuple[int, int]:
    """Rewrite segments so that each passage that needs a vector has one. Returns how many, how many embedded.

    A vector beyond the watermark that is in no range raises the watermark, so that the passage is not
    embedded again.
    """
    with store.database.reading() as connection:
        has_vector = ranges.embedded(connection, generation)
        rows = generations.segments_of(connection, collection.id, generation.number)
        living = passages.passage_numbers(connection, collection.id)
        gone = sa.select(removed_passages.c.passage).where(removed_passages.c.collection_id == collection.id)
        known = np.union1d(living, number_list(connection, gone))
    stretches = _stretches(store, collection, generation, rows)
    stored = np.concatenate(
        [segment.ids for each in stretches for _, segment in each.segments] or [known[:0]]
    )
    stray = np.intersect1d(stored[~ranges.covered(has_vector, stored)], known)
    if stray.size:
        through = int(stray[-1])
        has_vector = [Range(0, through), *(above for above in has_vector[1:] if above.first > through)]
    written = embedded = 0
    for place, each in enumerate(stretches):
        due = living[(living >= each.first) & ranges.covered(has_vector, living)]
        if place + 1 < len(stretches):
            due = due[due < stretches[place + 1].first]
        ids, vectors, sound = _kept(each, known, generation.encoder.dimension)
        lacking = np.setdiff1d(due, ids)
        if sound and not lacking.size:
            continue
        for texts in np.array_split(lacking, max(1, -(-lacking.size // _WINDOW))):
            with store.database.reading() as connection:
                found = passages.encoded_texts(connection, collection.id, texts.tolist())
            if found:
                numbers = np.array(sorted(found), dtype=np.int64)
                ids = np.concatenate([ids, numbers])
                made = unit_length(load().encode([found[number] for number in numbers.tolist()]))
                vectors = np.concatenate([vectors, made])
                embedded += numbers.size
                listener(Progress(embedded, None))
        order = np.argsort(ids)
        runs = np.searchsorted([there.first for there in has_vector], ids[order], side="right")
        cuts = [0, *(np.flatnonzero(np.diff(runs)) + 1).tolist(), ids.size]  # a segment spans no gap
        old = [row for row, _ in each.segments] + [row for row in rows if row.kind is SegmentKind.INDEX]
        rows = [row for row in rows if row not in old]
        parts = [
            (ids[some], vectors[some])
            for first, end in pairwise(cuts)
            for some in np.split(order[first:end], range(SEGMENT_ROWS, end - first, SEGMENT_ROWS))
        ]
        replace_segments(store, collection, generation, old, parts)
        written += max(1, len(each.segments))
    if stray.size:
        with store.database.writing() as connection:
            ranges.fill(connection, generation, int(stray[-1]))
            collections.changed(connection, collection.id)
    return written, embedded


def _stretches(
    store: Store, collection: CollectionRow, generation: GenerationRow, rows: list[SegmentRow]
) -> list[_Stretch]:
    """The generation's vector segments by passage; overlapping ones form one stretch."""
    opened = []
    for row in rows:
        if row.kind is SegmentKind.VECTORS and row.count:
            path = store.segment(collection.id, row.sha256)
            opened.append((row, open_vectors(path, row.sha256, row.header(generation.encoder))))
    stretches: list[_Stretch] = []
    for row, segment in sorted(opened, key=lambda both: int(both[1].ids.min())):
        first, last = int(segment.ids.min()), int(segment.ids.max())
        if stretches and first <= stretches[-1].last:
            stretches[-1].last = max(stretches[-1].last, last)
            stretches[-1].segments.append((row, segment))
        else:
            stretches.append(_Stretch(first, last, [(row, segment)]))
    if stretches:
        stretches[0].first = 0
    return stretches or [_Stretch(0, 0, [])]


def _kept(
    each: _Stretch, known: NDArray[np.int64], dimension: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], bool]:
    """The valid part of a stretch: numbers (n,), ascending, vectors (n, d), and whether all of it was valid.

    If a passage has two different vectors, neither is valid.
    """
    held = [segment for _, segment in each.segments]
    usable = [np.isin(segment.ids, known) & of_unit_length(segment.vectors) for segment in held]
    ids = np.concatenate([np.zeros(0, dtype=np.int64), *(segment.ids for segment in held)])
    if all(good.all() for good in usable) and bool((np.diff(ids) > 0).all()) and len(held) < 2:
        return ids, held[0].vectors if held else np.zeros((0, dimension), dtype=np.float32), True
    ids = ids[np.concatenate(usable)]
    vectors = np.concatenate([segment.vectors[good] for segment, good in zip(held, usable, strict=True)])
    unique, first, which = np.unique(ids, return_index=True, return_inverse=True)
    cosines = np.einsum("ij,ij->i", vectors, vectors[first[which]])
    agree = np.isin(unique, ids[cosines < _SAME], invert=True)
    return unique[agree], vectors[first[agree]], False
