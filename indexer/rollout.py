"""Rolling an encoder out over a collection: rebuild, promote, roll back; and mending what is damaged."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import collections, generations, passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow, SegmentState
from nearsay.indexer.errors import EncoderMismatchError, UnknownGenerationError
from nearsay.indexer.index_upkeep import refresh_index, unmeasured
from nearsay.indexer.ingest import awaiting_windows
from nearsay.indexer.passage import PassageWindow
from nearsay.indexer.plan import Plan
from nearsay.indexer.plans.contract import RecallContract
from nearsay.indexer.progress import Progress, ProgressListener, unheard
from nearsay.indexer.quarantine import quarantine_damaged, restore
from nearsay.indexer.read_ahead import read_ahead
from nearsay.indexer.segment import SegmentKind, write_vectors
from nearsay.indexer.segment_writer import SegmentWriter, embed
from nearsay.indexer.store import Store
from nearsay.indexer.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = [
    "RebuildReport",
    "catch_up",
    "check_encoder",
    "last_retired",
    "mend",
    "promotable",
    "promote",
    "rebuild",
    "searched",
]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild did."""

    generation: int
    state: GenerationState
    embedded: int  # passages
    truncated: int
    mended: int  # segments that were damaged and are made anew
    notes: tuple[str, ...] = ()  # what could not be done, and what was not needed
    restored: int = 0  # segments that were in quarantine though they are whole, and answer again


@dataclass(frozen=True, slots=True)
class Mended:
    """What `mend` found."""

    segments: int  # damaged, and made anew
    embedded: int  # passages in them
    restored: int  # segments that were in quarantine though they are whole

    def report(
        self, generation: GenerationRow, embedded: int, truncated: int, note: str | None
    ) -> RebuildReport:
        """The report of a rebuild that began with it, then embedded so many more; note: what else is said."""
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


def check_encoder(collection: str, generation: GenerationRow, encoder: TextEncoder) -> None:
    """EncoderMismatchError unless `encoder` is the one that made the generation's vectors."""
    made_by = generation.encoder
    if encoder.fingerprint == made_by.fingerprint:
        return
    if encoder.source == made_by.source:
        raise EncoderMismatchError(
            f"collection '{collection}' holds vectors of {made_by.name} as it was "
            f"({made_by.fingerprint[:12]}); '{encoder.source}' has changed ({encoder.fingerprint[:12]}). "
            f"Re-embed it: nearsay index rebuild {collection} --encoder {encoder.source}"
        )
    raise EncoderMismatchError(
        f"collection '{collection}' holds {made_by.dimension}-d vectors of {made_by.name}; encoder "
        f"'{encoder.name}' gives others ({encoder.dimension}-d). Re-embed it: "
        f"nearsay index rebuild {collection} --encoder {encoder.source}"
    )


def rebuild(
    store: Store,
    collection: CollectionRow,
    encoder: TextEncoder,
    listener: ProgressListener,
    contract: RecallContract | None = None,
) -> RebuildReport:
    """Embed the collection by another encoder into a generation that is ready to be promoted.

    contract: what its index has to keep. One that was begun and not finished with this encoder goes on. The
    caller holds the writer lock.
    """
    with store.database.writing() as connection:
        begun = next(
            (
                generation
                for generation in generations.all_of(connection, collection.id)
                if generation.state in (GenerationState.BUILDING, GenerationState.READY)
                and generation.encoder.fingerprint == encoder.fingerprint
            ),
            None,
        )
        if begun is None:
            encoder_id = generations.register_encoder(connection, encoder)
            plan = Plan(contract=contract or RecallContract()).to_json()
            number = generations.begin(connection, collection.id, encoder_id, GenerationState.BUILDING, plan)
            begun = _numbered(generations.all_of(connection, collection.id), number, collection.name)
        collections.changed(connection, collection.id)
    mended = mend(store, collection, begun, encoder, listener)
    embedded, truncated = catch_up(store, begun, encoder, listener)
    chosen = refresh_index(store, collection, begun, contract=contract, listener=listener)
    note = None if contract is None else unmeasured(collection.name, chosen, contract)
    with store.database.writing() as connection:
        generations.set_state(connection, begun, GenerationState.READY)
        collections.changed(connection, collection.id)
    return mended.report(replace(begun, state=GenerationState.READY), embedded, truncated, note)


def catch_up(
    store: Store,
    generation: GenerationRow,
    encoder: TextEncoder,
    listener: ProgressListener = unheard,
) -> tuple[int, int]:
    """Embed the passages that have no vector in the generation; how many, and how many were cut."""
    with store.database.reading() as connection:
        total = generations.unembedded(connection, generation)
    if not total:
        return 0, 0
    ahead = read_ahead(awaiting_windows(store, generation))
    with SegmentWriter(store, generation) as writer, contextlib.closing(ahead) as windows:
        return embed(windows, encoder, writer, listener, total=lambda: total)


def mend(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    encoder: TextEncoder,
    listener: ProgressListener = unheard,
) -> Mended:
    """Look for damaged segments and make them anew.

    A file in quarantine that is whole after all is put back. Otherwise vectors come from the catalogue's
    text; an index is left to `refresh_index`. The damaged files stay in quarantine. StorageError if a file
    cannot be read just now.
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
            embedded += _mend_vectors(store, collection, generation, row, encoder)
            listener(Progress(embedded, total))
        else:
            with store.database.writing() as connection:
                generations.remove_segment(connection, row)
                collections.changed(connection, collection.id)
    return Mended(len(damaged), embedded, restored)


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
    chosen = ready[-1] if number is None else _numbered(every, number, collection.name)
    if chosen.state not in (GenerationState.READY, GenerationState.RETIRED):
        raise UnknownGenerationError(
            f"generation {chosen.number} of '{collection.name}' is {chosen.state}, not ready. "
            f"See: nearsay index show {collection.name}"
        )
    return chosen


def promote(store: Store, collection: CollectionRow, number: int) -> GenerationRow:
    """Make a generation that can go live the live one, in one transaction."""
    chosen = promotable(store, collection, number)
    with store.database.writing() as connection:
        every = generations.all_of(connection, collection.id)
        for generation in every:
            if generation.state is GenerationState.LIVE:
                generations.set_state(connection, generation, GenerationState.RETIRED)
        generations.set_state(connection, chosen, GenerationState.LIVE)
        collections.changed(connection, collection.id)
    return chosen


def last_retired(store: Store, collection: CollectionRow) -> GenerationRow:
    """The generation that was live before the one that is; UnknownGenerationError if there is none."""
    with store.database.reading() as connection:
        every = generations.all_of(connection, collection.id)
    retired = [generation for generation in every if generation.state is GenerationState.RETIRED]
    if not retired:
        raise UnknownGenerationError(
            f"collection '{collection.name}' has no retired generation to go back to. "
            f"See: nearsay index show {collection.name}"
        )
    return max(retired, key=lambda generation: generation.promotion or 0)


def searched(every: list[GenerationRow], number: int, collection: str) -> GenerationRow:
    """The generation of that number, to search in; UnknownGenerationError if it is not there or not ready."""
    found = _numbered(every, number, collection)
    if found.state is GenerationState.BUILDING:
        raise UnknownGenerationError(
            f"generation {number} of '{collection}' is still being built. Wait until it is ready"
        )
    return found


def _numbered(every: list[GenerationRow], number: int, collection: str) -> GenerationRow:
    for generation in every:
        if generation.number == number:
            return generation
    there = ", ".join(str(generation.number) for generation in every) or "none"
    raise UnknownGenerationError(f"collection '{collection}' has no generation {number}; there are: {there}")


def _mend_vectors(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    row: SegmentRow,
    encoder: TextEncoder,
) -> int:
    numbers: list[int] = []

    def windows() -> Iterator[PassageWindow]:
        after = row.first_passage - 1
        while True:
            with store.database.reading() as connection:
                window = passages.awaiting(connection, collection.id, after, 4096, row.last_passage)
            if not window.numbers:
                return
            after = window.numbers[-1]
            numbers.extend(window.numbers)
            yield window

    texts = (window.texts for window in windows())
    vectors = [encoded.vectors for encoded in encoder.stream(texts, kind=TextKind.PASSAGE)]
    path = None
    if numbers:
        path = write_vectors(
            store.segments(collection.id),
            np.array(numbers, dtype=np.int64),
            unit_length(np.concatenate(vectors)),
            generation.encoder.fingerprint,
        )
    with store.database.writing() as connection:
        generations.remove_segment(connection, row)
        if path is not None:
            span = row.first_passage, row.last_passage
            generations.add_segment(connection, generation, SegmentKind.VECTORS, path, len(numbers), span)
        collections.changed(connection, collection.id)
    return len(numbers)
