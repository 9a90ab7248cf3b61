"""Adds rows to a collection as documents, passages and vectors.

Rows are committed in transactions of a few thousand; while the encoder works on a transaction's new passages,
the next rows are read. Passages without a vector are known by number (`catalogue.ranges`), so a run resumes
after a kill at any point: it embeds pending passages first, then reads the input, where unchanged rows cost
only a hash.
"""

import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, ClassVar

import sqlalchemy as sa

from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.faults import Fault, KeptFaults, by_file, spread
from nearsay.data.quantity import counted
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import Reading, read
from nearsay.data.report import Report
from nearsay.indexer.catalogue import collections, documents, generations, passages, ranges
from nearsay.indexer.catalogue.bulk import one_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.documents import KnownDocument, NewDocuments
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageWindow, Piece, PreparedDocument, cut, pieces_of
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.duplicates.gate import GateReport
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.vectors.errors import StrictError
from nearsay.indexer.vectors.progress import Progress, ProgressListener
from nearsay.indexer.vectors.read_ahead import read_ahead
from nearsay.indexer.vectors.segment import VectorDtype
from nearsay.indexer.writing.identity import Names, with_ids
from nearsay.training.sentence.text_encoder import TextEncoder

_ROWS = 16_000  # rows in a transaction: the index of ids is written again, page by page, in each
_FIRST_ROWS = 1_000  # in the first; each takes twice as many as the one before, so that no thread waits long
CHANGES = 2_000  # changed rows in a transaction, written one by one: others that want to write wait so long
_BATCH_CHARACTERS = 2_000_000  # and characters, whichever is first: bounds the memory that tokenizing takes
_WINDOW = 4096  # passages that are sorted by length together, and the most that are given out at a time
_WINDOW_ROWS = 512  # passages read back at a time: they may be as long as a document
_WINDOW_CHARACTERS = 400_000
_FAULTS_NAMED = 5
_FAULTS_SHOWN = 10  # of a report, where one file alone has any
_FAULTS_OF_A_FILE = 3
_FILES_WITH_SEVERAL = 10  # of more files, one fault each is told
_NEAR_DUPLICATES_SHOWN = 10
_DONE = {
    "added": "added",
    "updated": "updated",
    "relabelled": "with new metadata",
    "unchanged": "unchanged",
    "removed": "removed that are no longer in their file",
    "fault_count": "skipped",
}
_SOURCES_NAMED = 3


@dataclass(frozen=True, slots=True)
class AddReport(Report):
    """The result of an addition. Counts are of documents unless stated otherwise."""

    REPORT: ClassVar = "added"

    added: int
    updated: int  # title or text changed; embedded again if it did
    relabelled: int  # only metadata changed; nothing embedded
    unchanged: int
    removed: int  # rows without an id that are no longer in their file
    embedded: int  # passages
    resumed: int  # of these, passages left pending by an earlier run
    truncated: int  # passages cut to the encoder's maximum length
    fault_count: int
    faults: tuple[Fault, ...]  # the first ten of each file, of a hundred files
    notes: tuple[str, ...]  # what was guessed while reading
    near_duplicates: GateReport | None = None  # None if the collection does not check for them
    faults_of_files: Mapping[str, int] = field(default_factory=dict)  # faults of each file in `faults`
    collection: str = "documents"  # its name

    @property
    def read(self) -> int:
        """Number of usable documents."""
        return self.added + self.updated + self.relabelled + self.unchanged

    @property
    def sentence(self) -> str:
        """The counts: "papers: 1 added, 74 unchanged; 1 passage embedded"."""
        counts = [(getattr(self, name), what) for name, what in _DONE.items()]
        said = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "nothing to add"
        return f"{self.collection}: {said}; {counted(self.embedded, 'passage')} embedded"

    def lines(self) -> Iterator[str]:
        """The report as sentences: guesses, faults by file and line, counts, truncation."""
        yield from self.notes
        told, files = 0, by_file(self.faults)
        few = _FAULTS_OF_A_FILE if len(files) <= _FILES_WITH_SEVERAL else 1
        for name, faults in files.items():
            some = faults[: _FAULTS_SHOWN if len(files) == 1 else few]
            told += len(some)
            yield from (f"skipped {fault}" for fault in some)
            if more := self.faults_of_files.get(name, len(faults)) - len(some):
                yield f"… {more:,} more in {name}"
        if self.fault_count > told:
            yield f"… {self.fault_count:,} rows skipped in all"
        yield self.sentence
        if self.resumed:
            yield f"{self.resumed:,} of these were left pending by an earlier run"
        if self.truncated:
            were = "passage was" if self.truncated == 1 else "passages were"
            yield f"{self.truncated:,} {were} longer than the encoder's limit and truncated"
        gate = self.near_duplicates
        if gate is not None and gate.looked_at:
            for found in gate.first[:_NEAR_DUPLICATES_SHOWN]:
                yield f"{found.id} says nearly what {found.original} says ({found.cosine:.3f})"
            yield f"near-duplicates: {gate.sentence} (cosine of {gate.threshold:g} and above)"


@dataclass(slots=True)
class Tally:
    """Counts the results of reading."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: KeptFaults = field(default_factory=KeptFaults)

    def fault(self, fault: Fault) -> None:
        """Count a faulty row."""
        self.counts["faults"] += 1
        self.faults.take(fault)

    def enter(self, entry: "Entry", passages: int) -> None:
        """Count a written batch and its new passages."""
        new, changed, relabelled = len(entry.new.ids), len(entry.changed), len(entry.relabelled)
        self.counts["passages"] += passages
        self.counts["added"] += new
        self.counts["updated"] += changed
        self.counts["relabelled"] += relabelled
        self.counts["unchanged"] += len(entry.batch.documents) - new - changed - relabelled

    def refuse_faults_alone(self, *, used: bool) -> None:
        """Raise BadInputError if there are only faults; used: whether any row was usable."""
        if used or not self.counts["faults"]:
            return
        many = self.counts["faults"] > 1
        unusable = (
            f"none of the {self.counts['faults']:,} rows could be used"
            if many
            else "the one row cannot be used"
        )
        named = spread(self.faults.kept, min(len(self.faults.counts), _FAULTS_NAMED))  # one of a file
        raise BadInputError(f"{unusable}: {'; '.join(map(str, named))}. Fix the input")

    def report(
        self, collection: str, notes: Iterable[str], *, embedded: int, truncated: int, removed: int = 0
    ) -> AddReport:
        """Make the report."""
        counts = self.counts
        return AddReport(
            added=counts["added"],
            updated=counts["updated"],
            relabelled=counts["relabelled"],
            unchanged=counts["unchanged"],
            removed=removed,
            embedded=embedded,
            resumed=counts["resumed"],
            truncated=truncated,
            fault_count=counts["faults"],
            faults=tuple(self.faults.kept),
            notes=tuple(notes),
            faults_of_files=self.faults.kept_counts,
            collection=collection,
        )

    def counted(self, windows: Iterable[PassageWindow], name: str) -> Iterator[PassageWindow]:
        """Yield the windows, counting their passages."""
        for window in windows:
            self.counts[name] += len(window.numbers)
            yield window


def add(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    encoder: TextEncoder,
    reading: Reading,
    listener: ProgressListener,
) -> AddReport:
    """Write what is read to a collection and embed what is new. The caller holds the writer lock."""
    with Names() as names:
        source = _Source(store, collection, encoder, reading, names)
        tally = source.tally

        def total() -> int | None:
            return None if source.expected is None else tally.counts["resumed"] + source.expected

        def all_windows() -> Iterator[PassageWindow]:
            yield from tally.counted(awaiting_windows(store, generation), "resumed")
            yield from source.windows()

        if store.cluster is None:
            ahead = read_ahead(all_windows())
            with SegmentWriter(store, generation) as writer, contextlib.closing(ahead) as windows:
                embedded, truncated = embed(windows, source.encoder, writer, listener, total=total)
        else:
            from nearsay.indexer.cluster.embedding import embed_on_cluster  # Ray only for those who use it
            from nearsay.indexer.cluster.joining import joined

            with store.database.reading() as connection:
                tally.counts["resumed"] = ranges.unembedded(connection, generation)
            with joined(store.cluster):  # nothing is entered where there is no cluster
                entered = 0
                for window in source.windows():  # entered; their texts are read again by the workers
                    entered += len(window.numbers)
                    listener(Progress(entered, source.expected, "entering rows", "passages"))
                embedded, truncated = embed_on_cluster(store, generation, listener)
        counts = tally.counts
        used = any(counts[name] for name in ("added", "updated", "relabelled", "unchanged"))
        tally.refuse_faults_alone(used=used)
        removed = source.remove_vanished()
        return tally.report(
            collection.name, reading.notes, embedded=embedded, truncated=truncated, removed=removed
        )


def check_something_read(reading: Reading, report: AddReport, collection: str) -> None:
    """Raise BadInputError if files for a new collection contain no document. Python rows may be empty."""
    if report.read or not reading.sources:
        return
    more = len(reading.sources) - _SOURCES_NAMED
    named = ", ".join(source.name for source in reading.sources[:_SOURCES_NAMED])
    raise BadInputError(
        f"there is no text in {named}{f' and {more:,} more' if more > 0 else ''}: the collection "
        f"'{collection}' was not made. Name files that hold some"
    )


def awaiting_windows(
    store: Store, generation: GenerationRow, gaps: Sequence[ranges.Range] | None = None
) -> Iterator[PassageWindow]:
    """Yield the passages of ranges in windows, by number. None = those without a vector in the generation."""
    if gaps is None:
        with store.database.reading() as connection:
            gaps = ranges.waiting(connection, generation)
    for gap in gaps:
        for window in passages.windows(
            store.database, generation.collection_id, gap.first, gap.last, _WINDOW_ROWS
        ):
            yield from pieces(window)


def pieces(window: PassageWindow) -> Iterator[PassageWindow]:
    """Split a window into pieces that take seconds to encode, so that a kill loses no more."""
    begin = characters = 0
    for i, text in enumerate(window.texts):
        characters += len(text)
        full = characters >= _WINDOW_CHARACTERS or i + 1 - begin >= _WINDOW
        if full or i == len(window.texts) - 1:
            yield PassageWindow(window.numbers[begin : i + 1], window.texts[begin : i + 1])
            begin, characters = i + 1, 0


@dataclass(slots=True)
class Batch:
    """Documents that are looked up, chunked and written together, and the faults met on the way."""

    documents: list[PreparedDocument] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    characters: int = 0  # of the documents' texts and metadata
    bytes_read: int = 0  # of the whole input, when the batch was complete


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch compared with the catalogue: what has to be written, chunked and hashed."""

    batch: Batch
    new: NewDocuments
    changed: list[tuple[int, PreparedDocument, list[Piece]]]  # by the documents' numbers
    relabelled: list[tuple[int, PreparedDocument]]
    unnamed: list[str | None]  # the sources of documents without an id, new or existing

    @property
    def writes(self) -> int:
        """Number of rows that are written one by one; 1 if all are new, 0 if nothing has changed."""
        return max(min(len(self.new.ids), 1), len(self.changed), len(self.relabelled))


class Entering:
    """Looks up, chunks and writes documents of a collection. The caller holds the writer lock."""

    def __init__(self, store: Store, collection: CollectionRow, encoder: TextEncoder) -> None:
        self.store = store
        self.encoder = encoder
        self._collection = collection
        self._chunking = Chunking.parse(collection.chunking)
        with store.database.reading() as connection:
            # Nobody else writes while the lock is held, and no id comes twice in a run: in a collection that
            # begins empty every document is new.
            self._begins_empty = not documents.are_there(connection, collection.id)

    def entry(self, batch: Batch) -> Entry:
        """Compare a batch with the catalogue and chunk what is new."""
        # What is being written meanwhile changes nothing here: no id comes twice in a run.
        known = {} if self._begins_empty else self._known(batch.documents)
        new = [item for item in batch.documents if item.id not in known]
        old = [(known[item.id], item) for item in batch.documents if item.id in known]
        changed = [(row.number, item) for row, item in old if row.content_hash != item.content_hash]
        relabelled = [
            (row.number, item)
            for row, item in old
            if row.content_hash == item.content_hash and row.row_hash != item.row_hash
        ]
        spans = cut(
            [item.document for item in chain(new, (item for _, item in changed))],
            self._chunking,
            self.encoder,
        )
        of_changed = zip(changed, spans[len(new) :], strict=True)
        unnamed = chain(
            (item.document.source for item in new if item.named_by_content),
            (item.document.source for row, item in old if row.named_by_content),
        )
        return Entry(
            batch=batch,
            new=NewDocuments.of(new, spans[: len(new)]),
            changed=[(number, item, pieces_of(item.document, own)) for (number, item), own in of_changed],
            relabelled=relabelled,
            unnamed=list(unnamed),
        )

    def write(self, connection: sa.Connection, entry: Entry, begin: int = 0) -> PassageWindow:
        """Write the new documents, and up to CHANGES changed ones from an offset. Returns passages to embed.

        The new ones are written with the first of the changed.
        """
        collection_id, moment, some = self._collection.id, now(), slice(begin, begin + CHANGES)
        new = entry.new if begin == 0 else NewDocuments()
        first = documents.insert(connection, collection_id, new, moment)
        second = documents.replace_text(connection, collection_id, entry.changed[some], moment)
        documents.relabel(connection, collection_id, entry.relabelled[some], moment)
        collections.changed(connection, collection_id)
        return PassageWindow(first.numbers + second.numbers, first.texts + second.texts)

    def _known(self, batch: Sequence[PreparedDocument]) -> dict[str, KnownDocument]:
        with self.store.database.reading() as connection:
            return documents.known(connection, self._collection.id, [item.id for item in batch])


class _Source(Entering):
    """Writes the rows of a reading and yields the passages that need vectors."""

    def __init__(
        self, store: Store, collection: CollectionRow, encoder: TextEncoder, reading: Reading, names: Names
    ) -> None:
        super().__init__(store, collection, encoder)
        self.reading = reading
        self.tally = Tally()
        self.expected: int | None = None  # new passages of the whole input, by the share that is entered
        self._names = names
        self._unnamed: Counter[str | None] = Counter()  # stored without a name of their own, by source

    def windows(self) -> Iterator[PassageWindow]:
        """Windows of new passages, ascending in number, each entered in the catalogue already.

        Three threads: one reads and hashes, one looks up and cuts, this one writes. Python's lock is free
        while SQLite writes, so all else is done meanwhile.
        """
        window = PassageWindow([], [])
        waiting = 0  # characters of the documents that the window is of
        batches = read_ahead(self._batches(), depth=1)
        with contextlib.closing(read_ahead(self._entries(batches), depth=1)) as entries:
            for entry in entries:
                for fault in entry.batch.faults:
                    self.tally.fault(fault)
                self._enter(entry, window)
                self._expect(entry.batch.bytes_read)
                waiting += entry.batch.characters
                if len(window.numbers) >= _WINDOW or waiting >= _BATCH_CHARACTERS:
                    yield from pieces(window)
                    waiting = 0
                    window = PassageWindow([], [])
        yield from pieces(window)

    def _batches(self) -> Iterator[Batch]:
        batch = Batch()
        most = min(_FIRST_ROWS, _ROWS)
        for item in with_ids(self.reading, self._names):
            if isinstance(item, Fault):
                batch.faults.append(item)
            else:
                batch.documents.append(item)
                batch.characters += item.characters
            if len(batch.documents) + len(batch.faults) >= most or batch.characters >= _BATCH_CHARACTERS:
                batch.bytes_read = self.reading.bytes_read
                yield batch
                batch = Batch()
                most = min(2 * most, _ROWS)
        batch.bytes_read = self.reading.bytes_read
        yield batch

    def _expect(self, bytes_entered: int) -> None:
        if self.reading.bytes_total and bytes_entered:
            entered = self.tally.counts["passages"]
            self.expected = round(entered * self.reading.bytes_total / bytes_entered)

    def remove_vanished(self) -> int:
        """Remove the unnamed documents that their file no longer holds; of a file with faults, none."""
        removed = 0
        for source in self.reading.sources:
            if source.name in self.tally.faults.counts:
                continue
            gone = self._vanished(source.document_source)
            if not gone:
                continue
            with self.store.database.writing() as connection:
                some = one_of(document_table.c.id, gone)
                removed += documents.remove(connection, self._collection.id, some)
                collections.changed(connection, self._collection.id)
        return removed

    def _vanished(self, source: str | None) -> list[str]:
        """The ids of the source's documents without an id of their own that were not seen in this run."""
        if source is None or self._begins_empty:
            return []
        with self.store.database.reading() as connection:
            # All that was met is in the catalogue by now: where as many are there as were met, all were met.
            if documents.count_of_source(connection, self._collection.id, source) == self._unnamed[source]:
                return []
            stored = documents.of_source(connection, self._collection.id, source)
            return [id_ for id_ in stored if id_ not in self._names]

    def _entries(self, batches: Generator[Batch]) -> Iterator[Entry]:
        with contextlib.closing(batches):
            for batch in batches:
                yield self.entry(batch)

    def _enter(self, entry: Entry, window: PassageWindow) -> None:
        before = len(window.numbers)
        for begin in range(0, entry.writes, CHANGES):
            with self.store.database.writing() as connection:
                found = self.write(connection, entry, begin)
            window.numbers.extend(found.numbers)
            window.texts.extend(found.texts)
        self.tally.enter(entry, len(window.numbers) - before)
        self._unnamed.update(entry.unnamed)


def live_or_begin(
    connection: sa.Connection,
    collection: CollectionRow,
    encoder: TextEncoder,
    plan: dict[str, object],
    dtype: VectorDtype | None = None,
) -> GenerationRow:
    """Return the live generation; begin one with this encoder if there is none.

    dtype: how a new generation stores its vectors; None = float32
    """
    found = generations.live(connection, collection.id)
    if found is None:
        encoder_id = generations.register_encoder(connection, encoder)
        state = generations.GenerationState.LIVE
        generations.begin(connection, collection.id, encoder_id, state, plan, dtype or VectorDtype.FLOAT32)
        found = generations.live(connection, collection.id)
    assert found is not None  # noqa: S101 - it was begun in this transaction
    return found


@contextlib.contextmanager
def checked_files(
    sources: Sequence[str | Path], options: ReadOptions, stdin: BinaryIO | None = None
) -> Iterator[BinaryIO | None]:
    """Check that every row of the files is usable. Returns the standard input to read from afterwards.

    Raises StrictError if there is a fault. A pipe other than standard input is refused, because it can be
    read only once.
    """
    with contextlib.ExitStack() as stack:
        if "-" in sources:
            stdin = stack.enter_context(spooled(stdin))
        reading = read(sources, options, stdin=stdin)
        for source in reading.sources:
            if source.size is None and source.path is not None:
                raise BadInputError(
                    f"{source.name} is a pipe and can be read once, strict reads twice. Give it as standard "
                    "input: … | nearsay documents add COLLECTION - --strict"
                )
        check_strictly(reading)
        if "-" in sources and stdin is not None:
            stdin.seek(0)
        yield stdin


def check_strictly(reading: Reading) -> int:
    """Read everything without writing. Returns the number of documents. StrictError if there is a fault."""
    tally = Tally()
    with Names() as names:
        for item in with_ids(reading, names):
            if isinstance(item, Fault):
                tally.fault(item)
            else:
                tally.counts["read"] += 1
    if tally.counts["faults"]:
        shown = "; ".join(str(fault) for fault in spread(tally.faults.kept, 5))
        raise StrictError(
            f"{counted(tally.counts['faults'], 'row')} cannot be used and nothing was written: {shown}. "
            "Fix the input, or leave out strict (--strict) to skip such rows"
        )
    return tally.counts["read"]


@contextlib.contextmanager
def spooled(stdin: BinaryIO | None) -> Iterator[BinaryIO]:
    """Copy standard input to a temporary file, so that it can be read twice."""
    with tempfile.TemporaryFile() as kept:
        try:
            shutil.copyfileobj(stdin or sys.stdin.buffer, kept)
            kept.seek(0)
        except OSError as error:
            raise DiskFullError(
                f"standard input could not be kept in {tempfile.gettempdir()} ({error.strerror}), and strict "
                "reads it twice; nothing was written. Free some space, or set TMPDIR to another folder"
            ) from error
        yield kept
