"""A collection: a named set of documents in a library, and everything that can be done with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document, JsonValue
from nearsay.data.read_options import ReadOptions
from nearsay.indexer.catalogue import documents
from nearsay.indexer.catalogue.collection_record import CollectionEncoder, CollectionRecord
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.judgements import Part, SearchMode, judged_queries
from nearsay.indexer.catalogue.near_duplicates import NearDuplicate, linked
from nearsay.indexer.exploring.similar import AWAY, similar
from nearsay.indexer.filters.parse import Where, expression_of, parse_field
from nearsay.indexer.plans.plan import KEPT, ContractChange, Plan
from nearsay.indexer.query.export import (
    Sample,
    drawn_sample,
    export_documents,
    export_passages,
    stored_documents,
    write_lines,
)
from nearsay.indexer.query.hit import Explanation, Hit, Hits
from nearsay.indexer.query.ranking import Fusion, PairJudge
from nearsay.indexer.query.search import Searcher, SearchOptions, SearchRequest, as_queries
from nearsay.indexer.snapshots.latest_snapshot import LatestSnapshot
from nearsay.indexer.snapshots.snapshot import Snapshot, take
from nearsay.indexer.vectors.progress import ProgressListener, unheard
from nearsay.indexer.writing.editing import remove_documents, there_of, update_metadata
from nearsay.indexer.writing.overview import CollectionOverview, overview
from nearsay.training.sentence.text_encoder import TextEncoder

if TYPE_CHECKING:
    from nearsay.indexer.collection_writing import CollectionWriting
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.filters.facets import Facets
    from nearsay.indexer.filters.fields import FieldLook
    from nearsay.indexer.improving import Improvement, Training
    from nearsay.indexer.judgements.gate import GateReport
    from nearsay.indexer.judgements.judgements import Judgements
    from nearsay.indexer.library import Library
    from nearsay.indexer.query.browsing import Browser
    from nearsay.indexer.writing.compaction import CompactReport
    from nearsay.indexer.writing.ingest import AddReport
    from nearsay.indexer.writing.rollout import RebuildReport

Queries: TypeAlias = Sequence[str] | NDArray[np.floating] | Sequence[float] | Sequence[Sequence[float]]

_USUAL = ReadOptions()


class Collection:
    """Documents, their vectors, and the search over them; made by `Library.collection`.

    Safe to share between threads.
    """

    def __init__(
        self,
        library: "Library",
        record: CollectionRecord,
        encoder: str | TextEncoder | None,
        promise: ContractChange = KEPT,
    ) -> None:
        """Nothing is read or made yet."""
        self.library = library
        self.name = record.name
        self._store = library.store
        self._record = record
        self._encoder = CollectionEncoder(library.store, record.name, library, encoder)
        shards = library.shards
        self._snapshot = LatestSnapshot(self._record, take if shards is None else shards.opened)
        self._promise = promise
        self._searcher = Searcher(library.store, self._encoder, self._snapshot, record.name)

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
        wait: float | None = None,
        index: Literal["now", "later"] = "later",
    ) -> "AddReport":
        """Add or update the documents of files by id; unchanged ones are not embedded again.

        sources: files, folders, globs, '-' for standard input
        text, id, title, metadata: the names of the fields; None = guessed, and said in the report's notes
        options: everything else about reading
        strict:  read everything first, and write nothing if a row cannot be used (StrictError)
        near_duplicates: of earlier documents: report, skip or link; off = no gate, None = as it was; the
            gate and its threshold (a cosine, 0.95 at first) are remembered. See docs/adding.md
        wait:    seconds for another writer to finish; None = as the library was opened with
        index:   later: the report says when an index would pay off, and `optimize` makes it; until then all
            is searched exactly. now: one is chosen by measuring, or what is new gets its own, where due

        A document whose id is there already is replaced with its title, text and all its metadata; `update`
        changes single fields. Killed anywhere, the same call goes on where it was. BadInputError if nothing
        can be used, EncoderMismatchError, BusyError and DiskFullError each with its remedy.
        """
        chosen = replace(
            options,
            text=options.text if text is None else text,
            id=options.id if id is None else id,
            title=options.title if title is None else title,
            metadata=options.metadata if metadata is None else tuple(metadata),
        )
        how = self._writing.how(near_duplicates, near_duplicate_threshold, index, progress, wait)
        return self._writing.add(sources, chosen, stdin, how, strict=strict)

    def add_rows(
        self,
        rows: Iterable[str | Document | Mapping[str, object]],
        *,
        vectors: NDArray[np.floating] | None = None,
        options: ReadOptions = _USUAL,
        strict: bool = False,
        near_duplicates: str | None = None,
        near_duplicate_threshold: float | None = None,
        progress: ProgressListener = unheard,
        wait: float | None = None,
        index: Literal["now", "later"] = "later",
    ) -> "AddReport":
        """Do the same with Python values: texts, mappings or `Document`s; `strict` holds them in memory.

        vectors: of the rows, (rows, d) of length 1, made before by the collection's encoder from title, a
            space and text; they are stored, rounded to its `dtype`, for the rows, each of which is a passage.
            BadInputError for another number, dimension or length, and where some rows that are embedded to
            compare come out otherwise. For vectors of any other origin make the collection with
            `encoder=VectorsOnly(name, dimension)`. A row that is there with the same title and text keeps
            the vector that it has

        Lists of up to 1,000 rows that several threads add at once are gathered: one of the threads enters and
        embeds everything in one go, and each gets the report of its own rows.
        """
        how = self._writing.how(near_duplicates, near_duplicate_threshold, index, progress, wait)
        return self._writing.add_rows(rows, options, vectors, how, strict=strict)

    def update(
        self,
        ids: Iterable[str] = (),
        *,
        metadata: Mapping[str, JsonValue],
        where: Where | None = None,
        replace: bool = False,
        missing: Literal["error", "ignore"] = "error",
        wait: float | None = None,
    ) -> int:
        """Change metadata of documents by id, and of those that a filter lets through; how many changed.

        metadata: fields and their new values; None takes a field away; others stay, unless `replace` is true

        Nothing is embedded again. UnknownDocumentError if an id is not there; with missing="ignore" it is
        passed over. Adding the document again from a file or row sets all its metadata by that.
        """
        ids = ids if isinstance(ids, str) else list(ids)
        with self._writing.held("update", wait) as (store, row):
            return update_metadata(store, row, ids, where, metadata, replace=replace, missing=missing)

    def remove(
        self,
        ids: Iterable[str] = (),
        *,
        where: Where | None = None,
        missing: Literal["error", "ignore"] = "error",
        wait: float | None = None,
    ) -> int:
        """Remove documents by id, and those that a filter lets through; how many. Searches miss them at once.

        UnknownDocumentError if an id is not there; then nothing is removed. With missing="ignore" it is
        passed over. BadInputError for an empty filter, which every document passes: see `delete`.
        """
        ids = ids if isinstance(ids, str) else list(ids)
        with self._writing.held("remove", wait) as (store, row):
            removed = remove_documents(store, row, ids, where, missing)
        self._writing.check(row, wait)
        return removed

    def delete(self, *, wait: float | None = None) -> None:
        """Remove the collection itself with everything in it."""
        from nearsay.indexer.writing.compaction import delete_collection

        with self._writing.held("delete", wait) as (store, row):
            self._snapshot.forget()
            delete_collection(store, row)

    def tune(
        self,
        *,
        recall: str | float | None = None,
        memory: str | int | None = None,
        queries: Sequence[str] | NDArray[np.floating] | None = None,
        progress: ProgressListener = unheard,
        wait: float | None = None,
    ) -> Plan:
        """Measure indexes over the live vectors and take the smallest that keeps the contract; its plan.

        recall:   as "0.95@10", of the truly nearest; None = as it was
        memory:   the most that an index may hold, as "2GB" or in bytes; "none" = no limit, None = as it was
        queries:  texts or vectors (n, d); None = those given before, if enough to show recall, else stored
        progress: hears of candidates; what it raises ends the work and leaves the old index

        BadInputError for a contract or queries that cannot be used; see `nearsay.indexer.plans.tuning`.
        """
        generation = self._record.live()
        contract = Plan.from_json(generation.plan).contract.changed(recall, memory)
        asked = None if queries is None else self._searcher.vectors(queries)
        return self._writing.replace_index(generation, wait, progress, contract, asked)

    def optimize(
        self, *, newer: bool = False, progress: ProgressListener = unheard, wait: float | None = None
    ) -> Plan:
        """Make one index of everything; its plan.

        Additions make none unless asked to (`index="now"`). The first index of over 50,000 passages is chosen
        by measurement, as `tune` does, and again once the collection has doubled. Searches and additions go
        on meanwhile. On a cluster, its workers build an index by groups.

        newer: once a twentieth more has come (a tenth on a cluster), and 16,384 passages at least, index that
            alone: it joins the newest index as that was trained, or gets its own (docs/large-collections.md)

        MissingExtraError without FAISS; BusyError if another process indexes the collection meanwhile.
        """
        return self._writing.replace_index(self._record.live(), wait, progress, newer=newer)

    def rebuild(
        self,
        encoder: str | TextEncoder | None = None,
        *,
        progress: ProgressListener = unheard,
        wait: float | None = None,
    ) -> "RebuildReport":
        """Embed by another encoder beside the live generation, which goes on answering until `promote`.

        Without an encoder the live generation is mended: words and damaged segments are made anew from the
        catalogue's text, passages that wait are embedded, the index is built again. The same is done with the
        encoder that the live generation was made by if it is named at a new place, which is remembered.
        What is made anew is stored as the collection's `dtype`, if one was given.
        """
        return self._writing.rebuild(encoder, progress, wait)

    def promote(
        self,
        generation: int | None = None,
        *,
        gate: bool | None = None,
        margin: float | None = None,
        force: bool = False,
        progress: ProgressListener = unheard,
        wait: float | None = None,
    ) -> int:
        """Make a ready generation live (the newest unless numbered), after embedding what it still lacks.

        gate:   measure it first against the live one, see `gate`, and promote it only if it passes; None =
                where ten queries of the judgements' test part, or more, have a relevant passage
        margin: see `gate`
        force:  promote it though it does not pass, which its hits' lineage says from then on

        GateError, with the figures, for one that does not pass.
        """
        from nearsay.indexer.judgements.gate import passed
        from nearsay.indexer.writing.rollout import promotable

        measured = {}
        if gate is not False and self.exists():
            report = passed(self, generation, margin=margin, asked=bool(gate), force=force)
            if report is not None:
                generation, measured = report.generation, report.to_json() | {"figures": report.figures}
        chosen = partial(promotable, number=generation)
        return self._writing.go_live("promote", chosen, progress, wait, measured)

    def gate(self, generation: int | None = None, *, margin: float | None = None) -> "GateReport":
        """Measure a generation (the newest that is ready unless numbered) against the live one.

        margin: of nDCG@10 that the interval of the difference may reach below 0; None = 0.05

        By hybrid search for the judgements' test queries, from which nothing learns, and on general sets. The
        interval is valid however often one looks and however many generations one tries.
        """
        from nearsay.indexer.judgements.gate import measure_gate
        from nearsay.indexer.writing.rollout import promotable

        chosen = promotable(self._store, self._record.row(), generation)
        judged = judged_queries(self.judgements.list(), Part.TEST)
        how = partial(measure_gate, judged, self._searcher.many, self._snapshot.take(), margin=margin)
        encoder_of = partial(self._encoder.of, numbered=True)
        return self._snapshot.searched(lambda one: how(one, encoder_of), chosen.number, newest=True)

    def rollback(self, *, progress: ProgressListener = unheard, wait: float | None = None) -> int:
        """Make the formerly live generation live again; its number. UnknownGenerationError where none was."""
        from nearsay.indexer.writing.rollout import last_retired

        return self._writing.go_live("rollback", last_retired, progress, wait)

    def improve(
        self,
        *,
        apply: bool = False,
        trained: "Training | None" = None,
        progress: ProgressListener = unheard,
        wait: float | None = None,
    ) -> "Improvement":
        """Learn from the judgements how queries are searched for better; what was tried and is recommended.

        apply: make what is recommended live at once, for every reader; `undo_improvement` takes it back
        trained: tries an encoder, see `nearsay.indexer.encoder_candidate`
        progress: hears what is measured
        """
        from nearsay.indexer.improving import improve

        locked = partial(self._writing.locked, self._record.row(), "improve", wait)
        asked = self._store, self.snapshot, self._encoder.of, self.judgements.list(), locked
        return improve(*asked, apply=apply, trained=trained, progress=progress)

    def undo_improvement(self, *, wait: float | None = None) -> str:
        """Take back what `improve` made live last, and say what is live then; BadInputError without any."""
        from nearsay.indexer.improving import undo

        with self._writing.held("improve", wait) as (store, _):
            return undo(store, self.snapshot())

    def compact(
        self, *, drop_retired: bool = False, grace: float | None = None, wait: float | None = None
    ) -> "CompactReport":
        """Merge small segments, drop removed passages' vectors and files that nothing points to.

        grace: seconds that a replaced file stays for other machines that may have it open; None = an hour
            with a PostgreSQL catalogue, 0 with SQLite, whose readers are all on one machine
        """
        from nearsay.indexer.writing.compaction import compact

        with self._writing.held("compact", wait) as (store, row):
            return compact(store, row, drop_retired=drop_retired, grace=grace)

    @overload
    def search(self, query: str, k: int = ..., **options: Unpack[SearchOptions]) -> Hits: ...
    @overload
    def search(
        self, query: list[str] | tuple[str, ...], k: int = ..., **options: Unpack[SearchOptions]
    ) -> list[Hits]: ...
    @overload
    def search(self, query: Queries, k: int = ..., **options: Unpack[SearchOptions]) -> Hits | list[Hits]: ...
    def search(
        self,
        query: str | Queries,
        k: int = 10,
        *,
        where: Where | None = None,
        mode: SearchMode | str | None = None,
        by_document: bool = False,
        fusion: Fusion | str = Fusion.WEIGHTED,
        rerank: str | PairJudge | None = None,
        explain: bool = False,
        generation: int | None = None,
        offset: int = 0,
        min_score: float | None = None,
        fields: Sequence[str] | None = None,
        with_vectors: bool = False,
    ) -> Hits | list[Hits]:
        """The k passages that answer the query best, best first; of several queries, the hits of each.

        query:   a text, or a vector (d,) by the collection's encoder; a list of texts or an array (n, d) for
                 several at once, which are encoded and scored together: the hits are those of each by itself.
                 Vectors may be lists of numbers, too
        where:   a filter, as text ("year >= 2019 and venue = 'acl'") or as a mapping ({"venue": "acl"})
        mode:    dense, by meaning; lexical, by words, for which no encoder is loaded; hybrid, by both: the
                 default for texts, since it ranks about as well as the better of the two on judged sets.
                 Vectors are searched by meaning alone
        by_document: one hit a document, its best passage
        fusion:  how hybrid puts the two together: weighted, by their scores, or rrf, by reciprocal ranks
        rerank:  a cross-encoder's name or folder, or anything with `scores(pairs)`: ranks each 50 anew
        explain: say of each hit why it matched (`Hit.explanation`)
        generation: the number of another than the live one, to compare with; passages that it lacks are said
        offset:  pass over so many of the best: 10 for the second page of ten; at most 10,000 together with k
        min_score: leave out hits below this `Hit.score`; in dense mode a cosine, at most 1
        fields:  what of its document a hit carries, as filters name it: title, text, source, year,
                 author.name; the rest is empty. None = everything
        with_vectors: give each hit its stored vector (`Hit.vector`), (d,) of length 1

        With fewer hits than k, `Hits.notes` says why. BadInputError for a query, a number or a choice that
        makes no sense, BadFilterError, UnknownCollectionError, EncoderMismatchError, DamagedSegmentError.
        """
        queries, one = as_queries(query)
        if mode is None:
            mode = SearchMode.DENSE if isinstance(queries, np.ndarray) else SearchMode.HYBRID
        request = SearchRequest(
            k=k,
            where=where,
            by_document=by_document,
            mode=mode,
            fusion=fusion,
            offset=offset,
            min_score=min_score,
            fields=fields,
            with_vectors=with_vectors,
        )
        found = self._searcher.search(queries, request, rerank=rerank, explain=explain, generation=generation)
        return found[0] if one else found

    def get_ready(self) -> None:
        """Load what the first search would wait for; it is no search that anybody made, so none is kept."""
        self._searcher.many(["the first search"], k=1)

    def explain(self, query: str, hits: Sequence[Hit]) -> list[Explanation]:
        """Why each hit of a search for the query matched: its words' shares of the cosine, its best sentence.

        BadInputError for hits that another encoder found, or that lack their text or title (`fields`).
        """
        from nearsay.indexer.query.explain import explain_hits

        now = self.snapshot()
        encoder, language = self._encoder.of(now.generation), Chunking.parse(now.collection.chunking).language
        there = self.get([hit.id for hit in hits if not hit.title], missing="ignore")
        titled = {document.id for document in there if document.title}
        return explain_hits(encoder, query, hits, titled=titled, language=language, adapter=now.adapter)

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

        A document is the mean of its passages; `away`, from 0, is the weight of those against these, see
        `nearsay.indexer.exploring.similar`. `Hit.score` is the cosine. UnknownDocumentError for an id that is
        not there; BadInputError for a document without a vector, or on both sides; BadFilterError.
        """
        asked = ids, without, away, SearchRequest(k=k, where=where, by_document=by_document)
        return self._snapshot.searched(lambda snapshot: similar(self._store, snapshot, *asked), newest=True)

    def vectors(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Every living passage's number (n,) and unit-length vector (n, d)."""
        snapshot = self.snapshot()
        ids = snapshot.living()
        return ids, snapshot.vectors.rows(snapshot.vectors.positions(ids))

    def sample(self, count: int, seed: int) -> Sample:
        """Some passages with their texts and stored vectors, drawn at random from those that are searched."""
        snapshot = self.snapshot()
        return drawn_sample(self._store, snapshot, self._encoder.of(snapshot.generation), count, seed)

    def document(self, id_: str) -> StoredDocument:
        """One document; UnknownDocumentError if it is not there."""
        (found,) = self.get([id_])
        return found

    def get(
        self, ids: Sequence[str], *, missing: Literal["error", "ignore"] = "error"
    ) -> list[StoredDocument]:
        """The documents of these ids, in this order, each once.

        UnknownDocumentError if one is not there; with missing="ignore" it is left out.
        """
        with self._record.reading() as (connection, row):
            there = there_of(connection, row, ids, missing)
            found = documents.fetch_all(connection, row.id, there)
        return [found[id_] for id_ in there]

    def documents(self, where: Where | None = None) -> Iterator[StoredDocument]:
        """Documents that a filter lets through, oldest first; BadFilterError, UnknownCollectionError."""
        return stored_documents(self._store, self._record.row().id, where)

    def count(self, where: Where | None = None) -> int:
        """How many documents a filter lets through; without one, how many there are. BadFilterError."""
        return self.browser.count(where)

    def __len__(self) -> int:
        """How many documents there are; 0 before the collection is made."""
        return self.count() if self.exists() else 0

    def __iter__(self) -> Iterator[StoredDocument]:
        """Every document, in the order they were added."""
        return self.documents()

    def __contains__(self, id_: object) -> bool:
        """Whether a document of that id is there."""
        return isinstance(id_, str) and self.exists() and bool(self.get([id_], missing="ignore"))

    def __bool__(self) -> bool:
        """True, also while it is empty: a collection is no list."""
        return True

    def __repr__(self) -> str:
        """Name, number of documents and the library's folder."""
        count = f"{len(self):,} documents" if self.exists() else "not made yet"
        return f"Collection({self.name!r}, {count}, in {str(self._store.folder)!r})"

    @property
    def browser(self) -> "Browser":
        """The documents page by page, for who looks through them."""
        from nearsay.indexer.query.browsing import Browser

        return Browser(self._record)

    def near_duplicates(self) -> list[NearDuplicate]:
        """The documents that the gate linked to an earlier one, in the order they were added."""
        with self._record.reading() as (connection, row):
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
        """Write JSON lines, and say how many: a document each, which `add` reads back.

        vectors: a passage each, with its vector; of these `add` takes the first of a document alone
        """
        found = (
            export_passages(self._store, self.snapshot(), where)
            if vectors
            else export_documents(self._store, self._record.row().id, where)
        )
        return write_lines(found, Path(out) if isinstance(out, str | Path) else out)

    def snapshot(self, generation: int | None = None) -> Snapshot:
        """What a search sees at this moment: a generation's vectors, its index, what is removed.

        None = the live generation. BadInputError while the collection is empty; UnknownGenerationError.
        """
        return self._snapshot.take(generation)

    @property
    def explore(self) -> "Explorer":
        """What the collection says of itself without a query: pairs, clusters, maps, samples."""
        from nearsay.indexer.exploring.explorer import Explorer

        def locked(*what: Any) -> Any:  # noqa: ANN401 - writing is imported by who writes
            return self._writing.locked(*what)

        return Explorer(self.name, self._store, self.snapshot, locked, self._encoder.of)

    @property
    def judgements(self) -> "Judgements":
        """What people said of its search results: kept, listed, written out to train and to evaluate."""
        from nearsay.indexer.judgements.judgements import Judgements

        return Judgements(self._record, self._searcher.many, self._searcher.log)

    def fields(self) -> "list[FieldLook]":
        """What kind of values each metadata field holds, as seen in the first thousand documents."""
        from nearsay.indexer.filters.fields import field_looks

        with self._record.reading() as (connection, row):
            return field_looks(connection, row.id)

    def facets(self, field: str, *, where: Where | None = None, limit: int = 20) -> "Facets":
        """How many documents have each value of a field, the commonest first, under a filter.

        BadInputError for a limit that is not from 1 to 10,000; BadFilterError.
        """
        from nearsay.indexer.filters.facets import facets

        with self._record.reading() as (connection, row):
            expression = expression_of(connection, row.id, where)
            return facets(connection, row.id, parse_field(field), expression, limit)

    def exists(self) -> bool:
        """Whether the collection was made already."""
        return self._record.exists()

    @cached_property
    def _writing(self) -> "CollectionWriting":
        # Most of the indexer is for writing and exploring: a process that only searches imports none of it.
        from nearsay.indexer.collection_writing import CollectionWriting

        return CollectionWriting(self._record, self._encoder, self.library, self._snapshot, self._promise)
