"""Small additions of several threads, gathered into one.

An addition of ten rows takes the writer lock, five transactions and a segment file, and so does one of a
thousand. So of the threads that add a few rows to a collection at once one leads: when it has the lock it
takes what the others brought meanwhile, enters everything in one transaction, embeds it in one window, and
gives each its own report. That is the group commit of databases (DeWitt et al. 1984, section 5.2,
https://doi.org/10.1145/602259.602261).
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import rows as read_rows
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageWindow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.writing.identity import Names, with_ids
from nearsay.indexer.writing.ingest import AddReport, Batch, Entering, Tally, awaiting_windows, pieces
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["FewRows", "Gathering", "add_few", "few_rows", "gathering"]

_FEW = 1_000  # rows
_FEW_CHARACTERS = 400_000  # and characters of them: encoded within seconds
_GATHERED = 2_000  # rows that one thread adds for all: changed ones are written one by one


@dataclass(slots=True, eq=False)
class FewRows:
    """Rows that were read and named and wait to be added, then the report of it."""

    batch: Batch
    tally: Tally
    notes: Sequence[str]
    key: Hashable = None  # what is added together has the same
    ids: frozenset[str] = frozenset()
    taken: bool = False  # by the thread that leads
    waits: bool = True  # whoever brought them is still there
    report: AddReport | None = None

    def answer(self) -> AddReport:
        """The report, when there is one."""
        assert self.report is not None  # noqa: S101 - who adds rows reports, or raises
        return self.report


def few_rows(rows: Iterable[str | Document | Mapping[str, object]], options: ReadOptions) -> FewRows | None:
    """The rows, read, if they are a sequence of a few; None: they are many, or nobody knows how many.

    BadInputError if none of them can be used.
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
    """Add what several brought, no id twice, in one transaction and one segment; the report of each.

    What an earlier run left waiting is embedded first and counted with the first. The caller holds the lock.
    """
    entering = Entering(store, collection, encoder)
    entries = [entering.entry(few.batch) for few in gathered]
    windows = [PassageWindow([], []) for _ in gathered]
    with SegmentWriter(store, generation) as writer:
        resumed, cut_before = _embed(awaiting_windows(store, generation), encoder, writer)
        if any(entry.writes for entry in entries):
            with store.database.writing() as connection:
                windows = [
                    entering.write(connection, entry) if entry.writes else PassageWindow([], [])
                    for entry in entries
                ]
        together = PassageWindow(
            [number for window in windows for number in window.numbers],
            [text for window in windows for text in window.texts],
        )
        _, cut = _embed(pieces(together), encoder, writer)
    reports = []
    several = sum(bool(window.numbers) for window in windows) > 1
    for few, entry, window in zip(gathered, entries, windows, strict=True):
        few.tally.enter(entry, len(window.numbers))
        few.tally.counts["resumed"] = resumed
        truncated = _truncated(encoder, window.texts) if cut and several else cut * bool(window.numbers)
        embedded = resumed + len(window.numbers)
        reports.append(few.tally.report(few.notes, embedded=embedded, truncated=cut_before + truncated))
        resumed = cut_before = 0
    return reports


def _embed(windows: Iterator[PassageWindow], encoder: TextEncoder, writer: SegmentWriter) -> tuple[int, int]:
    """How many passages were embedded, and cut; where there are none, the encoder need not be loaded."""
    first = next(windows, None)
    return (0, 0) if first is None else embed(chain([first], windows), encoder, writer)


def _truncated(encoder: TextEncoder, texts: Sequence[str]) -> int:
    """How many of the texts are longer than the encoder takes."""
    return sum(len(tokens) > encoder.max_tokens for tokens in encoder.token_offsets(texts)) if texts else 0


@dataclass(slots=True)
class Gathering:
    """What this process's threads bring for one collection."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _waiting: list[FewRows] = field(default_factory=list)
    _led: bool = False  # a thread is adding

    def add(
        self,
        few: FewRows,
        wait: float,
        lead: Callable[[Callable[[], list[FewRows]], float], None],
    ) -> AddReport:
        """Let another thread add the rows with its own, or lead: then rows of others are added, too.

        wait: seconds to wait for the lock
        lead: takes the lock within so many seconds, calls the function that it gets for what is to be added,
              the caller's own first, and gives each its report; BusyError

        What a leader fails to add is left to those who brought it.
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
        return few.answer()

    def _taken(self, own: FewRows) -> list[FewRows]:
        """A thread's own rows, and others' that can be added with them."""
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


_GATHERINGS: dict[Path, Gathering] = {}


def gathering(lock_file: Path) -> Gathering:
    """The process's own of the collection with that lock file."""
    return _GATHERINGS.setdefault(lock_file, Gathering())
