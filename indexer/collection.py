"""A collection: a named set of documents in a library."""

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
    """Documents, their vectors, and search over them. Get one with `Library.collection`.

    Thread-safe.
    """

    def __init__(
        self,
        library: "Library",
        record: CollectionRecord,
        encoder: str | TextEncoder | None,
        promise: ContractChange = KEPT,
    ) -> None:
        """Nothing is read or created yet."""
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
        """Add or update documents from files, by id. Unchanged documents are not embedded again.

        sources: files, folders, globs, or '-' for standard input
        text, id, title, metadata: names of the fields; None = guessed, and reported in the report's notes
        options: all other reading options
        strict:  read everything first and write nothing if a row is faulty (StrictError)
        near_duplicates: what to do with near-duplicates of earlier documents: report, skip, link, or off;
            None = as before. It is saved with the threshold (a cosine, 0.95 by default), see docs/adding.md
        wait:    seconds to wait for another writer; None = the library's
        index:   later = search new passages exactly until `optimize`; the report says when an index would pay
                 off. now = also choose an index, or index what is new, where due

        A document with an existing id is replaced, with all its metadata; `update` changes single fields. If
        the process is killed, the same call resumes. Raises BadInputError if nothing is usable,
        EncoderMismatchError, BusyError and DiskFullError.
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
        """Add or update documents from Python: texts, mappings or `Document`s. `strict` holds all in memory.

        vectors: (rows, d) of unit length, a row each, if you have embedded the rows with the collection's
                 encoder: the title, a space and the text. They are stored in the collection's `dtype`.
                 BadInputError for a wrong number, dimension or length, or if they differ from those of a few
                 rows that are embedded as a check. For vectors from elsewhere, create the collection with
                 `encoder=VectorsOnly(name, dimension)`. An existing row with the same title and text keeps
                 its vector

        Lists of up to 1,000 rows from several threads are combined: one thread adds all of them in one
        transaction, and each caller gets the report on its own rows.
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
        """Change the metadata of documents by id, by a filter, or both. Returns how many changed.

        metadata: new values of fields; None removes a field. Other fields stay, unless `replace` is True

        Nothing is embedded again. Raises UnknownDocumentError for an unknown id, unless missing="ignore".
        Adding the document again replaces its metadata.
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
        """Remove documents by id, by a filter, or both. Returns how many. Searches skip them at once.

        Raises UnknownDocumentError for an unknown id and removes nothing then, unless missing="ignore";
        BadInputError for an empty filter, which would match every document: use `delete`.
        """
        ids = ids if isinstance(ids, str) else list(ids)
        with self._writing.held("remove", wait) as (store, row):
            removed = remove_documents(store, row, ids, where, missing)
        self._writing.check(row)
        return removed

    def delete(self, *, wait: float | None = None) -> None:
        """Delete the collection with everything in it."""
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
        """Measure indexes on the live vectors and build the smallest one that meets the recall target.

        recall:   recall target, as "0.95@10"; None = unchanged
        memory:   memory limit of the index, as "2GB" or in bytes; "none" = no limit, None = unchanged
        queries:  texts or vectors (n, d) to measure with; None = earlier ones if there are enough, or stored
                  vectors
        progress: called for each candidate; an exception from it stops the work and keeps the old index

        Returns the plan. Raises BadInputError for invalid settings or queries.
        """
        generation = self._record.live()
        contract = Plan.from_json(generation.plan).contract.changed(recall, memory)
        asked = None if queries is None else self._searcher.vectors(queries)
        return self._writing.replace_index(generation, wait, progress, contract, asked)

    def optimize(
        self, *, newer: bool = False, progress: ProgressListener = unheard, wait: float | None = None
    ) -> Plan:
        """Build one index of all passages. Returns its plan.

        Additions do not build one unless you pass `index="now"`. Above 50,000 passages, its kind is chosen by
        measurement, as in `tune`, and again when the collection has doubled. Searches and additions can
        continue meanwhile. On a cluster, the workers build it in groups.

        newer: index only new passages, if they are more than a twentieth of the indexed ones (a tenth on a
               cluster) and more than 16,384: they join the newest index or get their own

        Raises MissingExtraError without FAISS, BusyError if another process is indexing the collection.
        """
        return self._writing.replace_index(self._record.live(), wait, progress, newer=newer)

    def rebuild(
        self,
        encoder: str | TextEncoder | None = None,
        *,
        progress: ProgressListener = unheard,
        wait: float | None = None,
    ) -> "RebuildReport":
        """Embed the collection with another encoder. The live generation answers searches until `promote`.

        Without an encoder, it repairs the live generation. It recreates the word index and damaged segments
        from the catalogue, embeds pending passages and rebuilds the index. The same happens if you name the
        live generation's own encoder at a new location, which is then saved. New vectors are stored in the
        collection's `dtype`, if one was given.
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
        """Embed what a ready generation (by default the newest) lacks, and make it live. Returns its number.

        gate:   compare it with the live one first, see `gate`, and promote it only if it passes; None = if at
                least ten test queries of the judgements have a relevant passage
        margin: see `gate`
        force:  promote it even if it does not pass, which is recorded in the lineage of its hits

        Raises GateError, with the measured figures, if it does not pass.
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
        """Compare a ready generation (by default the newest) with the live one.

        margin: how far below 0 the interval of the nDCG@10 difference may reach; None = 0.05

        It runs hybrid search for the judgements' test queries, which are never trained on, and for general
        sets. The interval is valid however often you look.
        """
        from nearsay.indexer.judgements.gate import measure_gate
        from nearsay.indexer.writing.rollout import promotable

        chosen = promotable(self._store, self._record.row(), generation)
        judged = judged_queries(self.judgements.list(), Part.TEST)
        how = partial(measure_gate, judged, self._searcher.many, self._snapshot.take(), margin=margin)
        encoder_of = partial(self._encoder.of, numbered=True)
        return self._snapshot.searched(lambda one: how(one, encoder_of), chosen.number, newest=True)

    def rollback(self, *, progress: ProgressListener = unheard, wait: float | None = None) -> int:
        """Make the previously live generation live again. Returns its number. UnknownGenerationError."""
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
        """Learn from the judgements how to search better. Returns the candidates and a recommendation.

        apply: make the recommended one live for all readers; `undo_improvement` reverts it
        trained: function that trains an encoder as one more candidate, see
                 `nearsay.indexer.encoder_candidate`
        progress: called while candidates are measured
        """
        from nearsay.indexer.improving import improve

        locked = partial(self._writing.locked, self._record.row(), "improve", wait)
        asked = self._store, self.snapshot, self._encoder.of, self.judgements.list(), locked
        return improve(*asked, apply=apply, trained=trained, progress=progress)

    def undo_improvement(self, *, wait: float | None = None) -> str:
        """Revert the last applied improvement. Returns what is live now. BadInputError if there is none."""
        from nearsay.indexer.improving import undo

        with self._writing.held("improve", wait) as (store, _):
            return undo(store, self.snapshot())

    def compact(
        self, *, drop_retired: bool = False, grace: float | None = None, wait: float | None = None
    ) -> "CompactReport":
        """Merge small segments, and delete unused files and the vectors of removed passages.

        grace: seconds to keep a replaced file for others; None = an hour with PostgreSQL, 0 with SQLite
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
        """Find the k best passages for a query, or for each of several queries.

        query:   a text, or a vector (d,) of the collection's encoder; a list of texts or an array (n, d) for
                 several queries, which are encoded and scored together but ranked independently. Lists of
                 numbers are vectors, too
        where:   filter, as text ("year >= 2019 and venue = 'acl'") or as a mapping ({"venue": "acl"})
        mode:    dense = by meaning; lexical = by words, without loading an encoder; hybrid = both, the
                 default for texts: on judged sets it ranks about as well as the better of the two. Vector
                 queries are dense
        by_document: return only the best passage of each document
        fusion:  how hybrid search combines the two: weighted (by scores) or rrf (reciprocal rank fusion)
        rerank:  name or folder of a cross-encoder, or an object with `scores(pairs)`: reranks hits, 50 at a
                 time
        explain: explain why each hit matched (`Hit.explanation`)
        generation: search this generation instead of the live one; a note says how many passages it lacks
        offset:  skip this many hits, for paging; `offset` + `k` may be at most 10,000
        min_score: leave out hits with a lower `Hit.score`; in dense mode a cosine, so at most 1
        fields:  what to return of each document: title, text, source, or metadata fields such as year or
                 author.name; the rest is empty. None = everything
        with_vectors: return each passage's stored vector, (d,) of unit length (`Hit.vector`)

        If there are fewer than k hits, `Hits.notes` says why. Raises BadInputError for an invalid argument,
        BadFilterError, UnknownCollectionError, EncoderMismatchError and DamagedSegmentError.
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
        """Load everything that the first search needs. It is not logged as a search."""
        self._searcher.many(["the first search"], k=1)

    def explain(self, query: str, hits: Sequence[Hit]) -> list[Explanation]:
        """Explain why each hit of a search matched: the contribution of each word, and the best sentence.

        Raises BadInputError for hits of another encoder, and for hits without text or title (see `fields`).
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
        """Find the k passages most similar to documents, and dissimilar to those in `without`.

        A document's vector is the mean of its passages; `away`, from 0 on, is the weight of `without`, see
        `nearsay.indexer.exploring.similar`. Their own passages are left out. `Hit.score` is the cosine.
        Raises UnknownDocumentError; BadInputError for a document without a vector or on both sides;
        BadFilterError.
        """
        asked = ids, without, away, SearchRequest(k=k, where=where, by_document=by_document)
        return self._snapshot.searched(lambda snapshot: similar(self._store, snapshot, *asked), newest=True)

    def vectors(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The numbers (n,) and unit-length vectors (n, d) of all passages that are not removed."""
        snapshot = self.snapshot()
        ids = snapshot.living()
        return ids, snapshot.vectors.rows(snapshot.vectors.positions(ids))

    def sample(self, count: int, seed: int) -> Sample:
        """Draw passages at random, with their texts and stored vectors."""
        snapshot = self.snapshot()
        return drawn_sample(self._store, snapshot, self._encoder.of(snapshot.generation), count, seed)

    def document(self, id_: str) -> StoredDocument:
        """Get one document. UnknownDocumentError if it does not exist."""
        (found,) = self.get([id_])
        return found

    def get(
        self, ids: Sequence[str], *, missing: Literal["error", "ignore"] = "error"
    ) -> list[StoredDocument]:
        """Get documents by id, in this order, each once.

        Raises UnknownDocumentError for an unknown id; with missing="ignore" it is left out.
        """
        with self._record.reading() as (connection, row):
            there = there_of(connection, row, ids, missing)
            found = documents.fetch_all(connection, row.id, there)
        return [found[id_] for id_ in there]

    def documents(self, where: Where | None = None) -> Iterator[StoredDocument]:
        """Iterate over documents matching a filter, oldest first. BadFilterError, UnknownCollectionError."""
        return stored_documents(self._store, self._record.row().id, where)

    def count(self, where: Where | None = None) -> int:
        """Count the documents that match a filter, or all of them. Raises BadFilterError."""
        return self.browser.count(where)

    def __len__(self) -> int:
        """Number of documents; 0 if the collection does not exist yet."""
        return self.count() if self.exists() else 0

    def __iter__(self) -> Iterator[StoredDocument]:
        """Iterate over all documents in order of addition."""
        return self.documents()

    def __contains__(self, id_: object) -> bool:
        """Whether a document with this id exists."""
        return isinstance(id_, str) and self.exists() and bool(self.get([id_], missing="ignore"))

    def __bool__(self) -> bool:
        """Always True, also if the collection is empty."""
        return True

    def __repr__(self) -> str:
        """Name, number of documents and the library's folder."""
        count = f"{len(self):,} documents" if self.exists() else "not made yet"
        return f"Collection({self.name!r}, {count}, in {str(self._store.folder)!r})"

    @property
    def browser(self) -> "Browser":
        """The documents page by page, as for a list in a user interface."""
        from nearsay.indexer.query.browsing import Browser

        return Browser(self._record)

    def near_duplicates(self) -> list[NearDuplicate]:
        """The documents that were linked to an earlier near-duplicate, in order of addition."""
        with self._record.reading() as (connection, row):
            return linked(connection, row.id)

    def generations(self) -> list[GenerationRow]:
        """All generations, oldest first."""
        return self._record.generations()

    def warnings(self) -> tuple[str, ...]:
        """Warnings about the live generation, such as a recall target that is no longer met."""
        warning = Plan.from_json(self._record.live().plan).warning(self.name)
        return () if warning is None else (warning,)

    def overview(self) -> CollectionOverview:
        """The collection's sizes, generations and segments."""
        return overview(self._store, self._record.row())

    def export(self, out: str | Path | BinaryIO, *, where: Where | None = None, vectors: bool = False) -> int:
        """Write documents as JSON lines, which `add` can read back. Returns how many lines.

        vectors: write a line per passage, with its vector; of these, `add` takes only the first of a document
        """
        found = (
            export_passages(self._store, self.snapshot(), where)
            if vectors
            else export_documents(self._store, self._record.row().id, where)
        )
        return write_lines(found, Path(out) if isinstance(out, str | Path) else out)

    def snapshot(self, generation: int | None = None) -> Snapshot:
        """What a search of a generation sees at this moment: vectors, index and removed passages.

        Raises BadInputError if the collection is empty; UnknownGenerationError.
        """
        return self._snapshot.take(generation)

    @property
    def explore(self) -> "Explorer":
        """Exploration without a query: pairs, duplicates, clusters, maps and samples."""
        from nearsay.indexer.exploring.explorer import Explorer

        def locked(*what: Any) -> Any:  # noqa: ANN401 - writing is imported by who writes
            return self._writing.locked(*what)

        return Explorer(self.name, self._store, self.snapshot, locked, self._encoder.of)

    @property
    def judgements(self) -> "Judgements":
        """Relevance judgements of search results: add, list, import, export, compare."""
        from nearsay.indexer.judgements.judgements import Judgements

        return Judgements(self._record, self._searcher.many, self._searcher.log)

    def fields(self) -> "list[FieldLook]":
        """The metadata fields and the kind of their values, from the first thousand documents."""
        from nearsay.indexer.filters.fields import field_looks

        with self._record.reading() as (connection, row):
            return field_looks(connection, row.id)

    def facets(self, field: str, *, where: Where | None = None, limit: int = 20) -> "Facets":
        """Count documents by the values of a field, most common first, under a filter.

        Raises BadInputError for a limit outside 1 to 10,000; BadFilterError.
        """
        from nearsay.indexer.filters.facets import facets

        with self._record.reading() as (connection, row):
            expression = expression_of(connection, row.id, where)
            return facets(connection, row.id, parse_field(field), expression, limit)

    def exists(self) -> bool:
        """Whether the collection has been created."""
        return self._record.exists()

    @cached_property
    def _writing(self) -> "CollectionWriting":
        # Most of the indexer is for writing and exploring: a process that only searches imports none of it.
        from nearsay.indexer.collection_writing import CollectionWriting

        return CollectionWriting(self._record, self._encoder, self.library, self._snapshot, self._promise)
