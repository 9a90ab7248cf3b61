"""A collection: a named set of documents in a library, and everything that can be done with it."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import Reading, read
from nearsay.data.reading import rows as read_rows
from nearsay.indexer.browser import Browser
from nearsay.indexer.catalogue import documents, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.near_duplicates import NearDuplicate, linked
from nearsay.indexer.collection_encoder import CollectionEncoder
from nearsay.indexer.collection_record import CollectionRecord
from nearsay.indexer.collection_search import CollectionSearch, SearchOptions
from nearsay.indexer.compaction import CompactReport, compact, delete_collection, merge_small
from nearsay.indexer.contract_check import check_contract
from nearsay.indexer.declaring import DeclareReport, declare_fields, declared_names, forget_fields
from nearsay.indexer.duplicates.gate import AskedGate, go_through_gate
from nearsay.indexer.explain.explanation import Explanation
from nearsay.indexer.explain.hits import explain_hits
from nearsay.indexer.exploring.explored import Explored
from nearsay.indexer.exploring.explorer import Explorer
from nearsay.indexer.exploring.similar import AWAY, Likeness, similar
from nearsay.indexer.export import export_documents, export_passages, stored_documents, write_lines
from nearsay.indexer.filters.facets import Facets, facets
from nearsay.indexer.filters.parse import Where, parse_field
from nearsay.indexer.filters.selection import declared_of
from nearsay.indexer.filters.where import expression_of
from nearsay.indexer.hit import Hit, Hits
from nearsay.indexer.hybrid.fusion import Fusion
from nearsay.indexer.hybrid.lexical_check import check_words, refill
from nearsay.indexer.hybrid.mode import SearchMode
from nearsay.indexer.hybrid.reranking import PairJudge
from nearsay.indexer.index_upkeep import refresh_index, tune_index, unmeasured
from nearsay.indexer.ingest import AddReport, add, check_something_read, live_or_begin
from nearsay.indexer.judgements.judgements import Judgements
from nearsay.indexer.latest_snapshot import LatestSnapshot
from nearsay.indexer.overview import CollectionOverview, overview
from nearsay.indexer.plan import KEPT, ContractChange, Plan
from nearsay.indexer.progress import ProgressListener, unheard
from nearsay.indexer.removal import remove_documents
from nearsay.indexer.rollout import (
    RebuildReport,
    catch_up,
    check_encoder,
    last_retired,
    mend,
    promotable,
    promote,
    rebuild,
)
from nearsay.indexer.sample import Sample, drawn_sample
from nearsay.indexer.search import SearchRequest
from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.store import Store
from nearsay.indexer.strict import check_strictly, checked_files
from nearsay.indexer.vector_store import unit_length
from nearsay.indexer.writer_lock import writer_lock
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

if TYPE_CHECKING:
    from nearsay.indexer.library import Library

__all__ = ["Collection"]

_USUAL = ReadOptions()


class Collection:
    """Documents, their vectors, and the search over them; made by `Library.collection`.

    Safe to share between threads.
    """

    def __init__(
        self,
        library: "Library",
        name: str,
        encoder: str | TextEncoder | None,
        chunking: Chunking | None,
        promise: ContractChange = KEPT,
    ) -> None:
        """Nothing is read or made yet."""
        self.library = library
        self.name = name
        self._store = library.store
        self._record = CollectionRecord(library.store, name, chunking)
        self._encoder = CollectionEncoder(library.store, name, library, encoder)
        self._snapshot = LatestSnapshot(self._record)
        self._promise = promise
        self._queries = CollectionSearch(library.store, self._encoder, self._snapshot)

    # Writing

    def add(
        self,
        *sources: str | Path,
        text: str | None = None,
        id: str | None = None,  # noqa: A002 - the field's own name
        title: str | None = None,
        metadata: Sequence[str] | None = None,
        options: ReadOptions = _USUAL,
        strict: bool = False,
        near_duplicates: str | None = None,
        near_duplicate_threshold: float | None = None,
        progress: ProgressListener = unheard,
        stdin: BinaryIO | None = None,
    ) -> AddReport:
        """Add or update the documents of files by id; unchanged ones are not embedded again.

        sources: files, folders, globs, '-' for standard input
        text, id, title, metadata: the names of the fields; None = guessed, and said in the report's notes
        options: everything else about reading
        strict:  read everything first, and write nothing if a row cannot be used (StrictError)
        near_duplicates: of earlier documents: report, skip or link; off = no gate, None = as it was; the
            gate and its threshold (a cosine, 0.95 at first) are remembered for later additions

        Killed anywhere, the same call goes on where it was. BadInputError if nothing can be used,
        EncoderMismatchError, BusyError and DiskFullError each with its remedy.
        """
        chosen = replace(
            options,
            text=options.text if text is None else text,
            id=options.id if id is None else id,
            title=options.title if title is None else title,
            metadata=options.metadata if metadata is None else tuple(metadata),
        )
        gate = AskedGate(near_duplicates, near_duplicate_threshold)
        if strict:
            with checked_files(sources, chosen, stdin) as again:
                return self._add(read(sources, chosen, stdin=again), progress, gate)
        return self._add(read(sources, chosen, stdin=stdin), progress, gate)

    def add_rows(
        self,
        rows: Iterable[str | Document | Mapping[str, object]],
        *,
        options: ReadOptions = _USUAL,
        strict: bool = False,
        near_duplicates: str | None = None,
        near_duplicate_threshold: float | None = None,
        progress: ProgressListener = unheard,
    ) -> AddReport:
        """Do the same with Python values: texts, mappings or `Document`s; `strict` holds them in memory."""
        if isinstance(rows, str | Mapping | Document):
            raise BadInputError(f"one {type(rows).__name__} is not a list of rows. Put it in a list: [row]")
        if strict:
            rows = list(rows)
            check_strictly(read_rows(rows, options))
        gate = AskedGate(near_duplicates, near_duplicate_threshold)
        return self._add(read_rows(rows, options), progress, gate)

    def remove(self, ids: Iterable[str] = (), *, where: Where | None = None) -> int:
        """Remove documents by id, and those that a filter lets through; how many. Searches miss them at once.

        UnknownDocumentError if an id is not there; then nothing is removed.
        """
        row = self._record.row()
        if isinstance(ids, str):
            raise BadInputError(f"'{ids}' is one id, not a list of ids. Put it in a list: ['{ids}']")
        wanted = list(dict.fromkeys(ids))
        with self._locked(row, "remove") as store:
            removed = remove_documents(store, row, wanted, where)
            check_contract(store, row, self.snapshot)
        return removed

    def declare_fields(self, names: Iterable[str]) -> DeclareReport:
        """Enter metadata fields into an index of their own: filters and counts over them become quick.

        names: as a filter writes them: year, author.name. About ten seconds a field and million documents;
        later changes of the documents keep it up.
        """
        row = self._record.row()
        with self._locked(row, "declare fields") as store:
            return declare_fields(store, row, names)

    def forget_fields(self, names: Iterable[str]) -> tuple[str, ...]:
        """Take declared fields back; their names. Filters over them work on, more slowly."""
        row = self._record.row()
        with self._locked(row, "forget fields") as store:
            return forget_fields(store, row, names)

    def delete(self) -> None:
        """Remove the collection itself with everything in it."""
        row = self._record.row()
        with self._locked(row, "delete") as store:
            self._snapshot.forget()
            delete_collection(store, row)

    def tune(
        self,
        *,
        recall: str | float | None = None,
        memory: str | int | None = None,
        queries: Sequence[str] | None = None,
        progress: ProgressListener = unheard,
    ) -> Plan:
        """Measure the indexes over the live vectors and take the fastest that keeps the contract; its plan.

        recall:   as "0.95@10", of the truly nearest; None = as it was
        memory:   the most that an index may hold, as "2GB" or in bytes; "none" = no limit, None = as it was
        queries:  texts to measure with, encoded as queries; None = stored vectors
        progress: hears of candidates; what it raises ends the work and leaves the old index

        BadInputError for a contract or queries that cannot be used; see `nearsay.indexer.plans.tuning`.
        """
        row = self._record.row()
        with self._locked(row, "tune") as store:
            generation = self._record.live()
            contract = Plan.from_json(generation.plan).contract.changed(recall, memory)
            asked = None
            if queries is not None:
                encoder = self._encoder.of(generation)
                asked = unit_length(encoder.encode(list(queries), kind=TextKind.QUERY))
            return tune_index(store, row, generation, contract, asked, listener=progress)

    def rebuild(
        self, encoder: str | TextEncoder | None = None, *, progress: ProgressListener = unheard
    ) -> RebuildReport:
        """Embed by another encoder beside the live generation, which goes on answering until `promote`.

        Without an encoder the live generation is mended: words and damaged segments are made anew from the
        catalogue's text, passages that wait are embedded, the index is built again. The same is done with the
        encoder that the live generation was made by if it is named at a new place, which is remembered.
        """
        row = self._record.row()
        with self._locked(row, "rebuild") as store:
            generation = self._record.live()
            loaded = (
                self._encoder.of(generation) if encoder is None else self.library.encoder(encoder, anew=True)
            )
            moved = loaded.fingerprint == generation.encoder.fingerprint
            moved = moved and loaded.source != generation.encoder.source
            if encoder is not None and not moved:
                return rebuild(store, row, loaded, progress, self._promise.of(generation.plan))
            with store.database.reading() as connection:
                fault = check_words(connection, row.id, prove=True)
            with store.database.writing() as connection:
                generations.register_encoder(connection, loaded)
                if fault is not None:  # searches and writers of other collections need not wait otherwise
                    refill(connection, row.id)
            mended = mend(store, row, generation, loaded, progress)
            embedded, truncated = catch_up(store, generation, loaded, progress)
            promise = self._promise.of(generation.plan)
            plan = refresh_index(store, row, generation, always=True, contract=promise, listener=progress)
            return mended.report(generation, embedded, truncated, unmeasured(self.name, plan, promise))

    def promote(self, generation: int | None = None, *, progress: ProgressListener = unheard) -> int:
        """Make a ready generation live (the newest unless numbered), after embedding what it still lacks."""
        row = self._record.row()
        with self._locked(row, "promote") as store:
            chosen = promotable(store, row, generation)
            return self._go_live(store, row, chosen, progress)

    def rollback(self, *, progress: ProgressListener = unheard) -> int:
        """Make the generation live again that was live before; its number."""
        row = self._record.row()
        with self._locked(row, "rollback") as store:
            before = last_retired(store, row)
            return self._go_live(store, row, before, progress)

    def compact(self, *, drop_retired: bool = False, grace: float | None = None) -> CompactReport:
        """Merge small segments, drop removed passages' vectors and files that nothing points to.

        grace: seconds that a replaced file stays for other machines that may have it open; None = an hour
            with a PostgreSQL catalogue, 0 with SQLite, whose readers are all on one machine
        """
        row = self._record.row()
        with self._locked(row, "compact") as store:
            return compact(store, row, drop_retired=drop_retired, grace=grace)

    # Reading

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        where: Where | None = None,
        mode: SearchMode | str = SearchMode.HYBRID,
        by_document: bool = False,
        fusion: Fusion | str = Fusion.WEIGHTED,
        rerank: str | PairJudge | None = None,
        explain: bool = False,
        generation: int | None = None,
    ) -> Hits:
        """The k passages that answer the query best, best first; with `by_document` one a document.

        mode:    dense, by meaning; lexical, by words, for which no encoder is loaded; hybrid, by both: the
                 default, since on each judged set measured it ranks at least as well as the better of the two
        fusion:  how hybrid puts the two together: weighted, by their scores, or rrf, by reciprocal ranks
        rerank:  a cross-encoder's name or folder, or anything with `scores(pairs)`: ranks the first 50 anew
        explain: say of each hit why it matched (`Hit.explanation`)
        generation: the number of another than the live one, to compare with; passages that it lacks are said
        """
        return self._queries.search(
            [query], k, SearchOptions(where, mode, by_document, fusion, rerank, explain, generation)
        )[0]

    def search_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        where: Where | None = None,
        mode: SearchMode | str = SearchMode.HYBRID,
        by_document: bool = False,
        fusion: Fusion | str = Fusion.WEIGHTED,
        rerank: str | PairJudge | None = None,
        explain: bool = False,
        generation: int | None = None,
    ) -> list[Hits]:
        """Search for several queries at once, encoded together and, without a filter, scored together.

        The hits are those that `search` gives for each.
        """
        return self._queries.search(
            queries, k, SearchOptions(where, mode, by_document, fusion, rerank, explain, generation)
        )

    def explain(self, query: str, hits: Sequence[Hit]) -> list[Explanation]:
        """Why each hit of a search for the query matched: its words' shares of the cosine, its best sentence.

        BadInputError for hits that another encoder found.
        """
        snapshot = self.snapshot()
        language = Chunking.parse(snapshot.collection.chunking).language
        return explain_hits(self._encoder.of(snapshot.generation), query, hits, language=language)

    def similar(
        self,
        ids: str | Sequence[str],
        k: int = 10,
        *,
        without: str | Sequence[str] = (),
        away: float = AWAY,
        where: Where | None = None,
        by_document: bool = False,
    ) -> Hits:
        """The k passages nearest to documents, and away from those of `without`; none of their own.

        A document is the mean of its passages; `away` is the weight of those against these, see
        `nearsay.indexer.exploring.similar`.
        """
        request = SearchRequest(k=k, where=where, by_document=by_document)
        return similar(self._explored(), Likeness.of(ids, without, away), request)

    def vectors(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Every living passage's number (n,) and unit-length vector (n, d)."""
        snapshot = self.snapshot()
        ids = snapshot.vectors.ids[snapshot.alive[snapshot.vectors.ids]]
        return ids, snapshot.vectors.rows(snapshot.vectors.positions(ids))

    def sample(self, count: int, seed: int) -> Sample:
        """Some passages with their texts and stored vectors, drawn at random from those that are searched."""
        snapshot = self.snapshot()
        return drawn_sample(self._store, snapshot, self._encoder.of(snapshot.generation), count, seed)

    def document(self, id_: str) -> StoredDocument:
        """One document; UnknownDocumentError if it is not there."""
        row = self._record.row()
        with self._store.database.reading() as connection:
            found = documents.fetch(connection, row.id, id_)
        if found is None:
            raise self._record.no_document(id_)
        return found

    def documents(self, where: Where | None = None) -> Iterator[StoredDocument]:
        """The documents that a filter lets through, in the order they were added."""
        return stored_documents(self._store, self._record.row().id, where)

    @property
    def browser(self) -> Browser:
        """The documents page by page, for who looks through them."""
        return Browser(self._record)

    def near_duplicates(self) -> list[NearDuplicate]:
        """The documents that the gate linked to an earlier one, in the order they were added."""
        row = self._record.row()
        with self._store.database.reading() as connection:
            return linked(connection, row.id)

    def generations(self) -> list[GenerationRow]:
        """The collection's generations, oldest first."""
        return self._record.generations()

    def warnings(self) -> tuple[str, ...]:
        """What has to be said of the live generation while its contract does not hold."""
        warning = Plan.from_json(self._record.live().plan).warning(self.name)
        return () if warning is None else (warning,)

    def overview(self) -> CollectionOverview:
        """What the collection holds, by which encoder, in which segments."""
        return overview(self._store, self._record.row())

    def export(self, out: str | Path | BinaryIO, *, where: Where | None = None, vectors: bool = False) -> int:
        """Write JSON lines that `add` reads back: a document each, or a passage with its vector; how many."""
        found = (
            export_passages(self._store, self.snapshot(), where)
            if vectors
            else export_documents(self._store, self._record.row().id, where)
        )
        return write_lines(found, Path(out) if isinstance(out, str | Path) else out)

    def snapshot(self) -> Snapshot:
        """What a search sees at this moment: the live generation's vectors, its index, what is removed."""
        return self._snapshot.take()

    @property
    def explore(self) -> Explorer:
        """What the collection says of itself without a query: pairs, clusters, maps, samples."""
        return Explorer(self._explored())

    @property
    def judgements(self) -> Judgements:
        """What people said of its search results: kept, listed, written out to train and to evaluate."""
        return Judgements(self._record)

    def declared_fields(self) -> tuple[str, ...]:
        """The metadata fields that were declared, so that filters and counts over them are quick."""
        return declared_names(self._store, self._record.row())

    def facets(self, field: str, *, where: Where | None = None, limit: int = 20) -> Facets:
        """How many documents have each value of a field, the commonest first, under a filter."""
        row = self._record.row()
        with self._store.database.reading() as connection:
            expression = None if where is None else expression_of(connection, row.id, where)
            declared = declared_of(connection, row.id)
            return facets(connection, row.id, parse_field(field), expression, declared, limit)

    def exists(self) -> bool:
        """Whether the collection was made already."""
        return self._record.exists()

    # Inside

    def _explored(self) -> Explored:
        return Explored(self.name, self._store, self.snapshot, self._locked, self._encoder.of)

    def _add(self, reading: Reading, progress: ProgressListener, gate: AskedGate) -> AddReport:
        encoder = self._encoder.for_writing()
        is_new = not self.exists()
        row = self._record.made()
        done = False
        with self._locked(row, "add") as store:
            try:
                with store.database.writing() as connection:
                    first = Plan(contract=self._promise.of({}))
                    generation = live_or_begin(connection, row, encoder, first.to_json())
                    check_encoder(self.name, generation, encoder)
                    generations.register_encoder(connection, encoder)  # it may have moved
                    gate.settle(connection, row, generation)
                report = add(store, row, generation, encoder, reading, progress)
                if is_new:
                    check_something_read(reading, report, self.name)
                done = True
            finally:
                if is_new and not done:  # a first try that failed settles neither encoder nor chunking
                    with contextlib.suppress(NearsayError):  # what went wrong first is what is told
                        self._record.forget_empty(store, row)
            merge_small(store, row, generation)
            promise = self._promise.of(generation.plan)
            index = partial(refresh_index, store, row, generation, contract=promise, listener=progress)
            passed = go_through_gate(store, row, self.snapshot, index, progress)
            said = unmeasured(self.name, index(), promise), check_contract(store, row, self.snapshot)
        notes = (*report.notes, *(note for note in said if note is not None))
        return replace(report, notes=notes, near_duplicates=passed)

    def _go_live(
        self, store: Store, row: CollectionRow, generation: GenerationRow, progress: ProgressListener
    ) -> int:
        encoder = self._encoder.loaded(generation)
        mend(store, row, generation, encoder, progress)
        catch_up(store, generation, encoder, progress)
        refresh_index(store, row, generation, listener=progress)
        number = promote(store, row, generation.number).number
        check_contract(store, row, self.snapshot)
        return number

    @contextlib.contextmanager
    def _locked(self, row: CollectionRow, what: str) -> Iterator[Store]:
        """Hold the writer lock; the store as its holder may write it."""
        locks, database = self._store.locks, self._store.database
        with writer_lock(locks, self.name, row.id, database, what) as fenced:
            yield replace(self._store, database=fenced)
