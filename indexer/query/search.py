"""From queries to hits.

The filter is evaluated before the search and checked again in the query that fetches the rows, all in one
transaction, so a document that was removed or changed meanwhile is never returned.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue import collections, passages
from nearsay.indexer.catalogue.collection_record import CollectionEncoder
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.filters.expression import Path
from nearsay.indexer.filters.parse import Where, parse_field
from nearsay.indexer.filters.selection import Selection, list_all, passing, select
from nearsay.indexer.filters.sql import metadata_path
from nearsay.indexer.query.hit import Hit, Hits, HitScores, Lineage
from nearsay.indexer.query.lexical import LexicalCandidates, lexical_candidates, unreadable_words
from nearsay.indexer.query.ranking import (
    DEPTH,
    RERANKED,
    Fusion,
    PairJudge,
    PairJudges,
    Ranking,
    candidates,
    dense_candidates,
    judged_anew,
    weight_of_words,
)
from nearsay.indexer.query.search_log import SearchLog
from nearsay.indexer.query.search_notes import search_notes
from nearsay.indexer.snapshots.latest_snapshot import LatestSnapshot
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import UnknownCollectionError, UnreadableWordsError, chosen
from nearsay.indexer.vectors.vector_store import Candidates, unit_length
from nearsay.training.sentence.known_languages import UNNAMED, unknown_language
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

Queries = Sequence[str] | NDArray[np.floating]

_MOST = 10_000  # results
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The options of a search, for any query; BadInputError for an invalid one."""

    k: int = 10
    where: Where | None = None
    without: frozenset[int] = frozenset()  # passages that must not be found
    by_document: bool = False  # only the best passage of each document
    mode: SearchMode | str = SearchMode.DENSE
    fusion: Fusion | str = Fusion.WEIGHTED  # in hybrid mode
    offset: int = 0  # hits to skip
    min_score: float | None = None  # leave out hits with a lower score
    fields: Sequence[str] | None = None  # to return, as filters name them; None = all
    with_vectors: bool = False
    word_weight: float | None = None  # in weighted fusion; None: the collection's
    judge: PairJudge | None = None  # reranks the first candidates
    explained_by: TextEncoder | None = None  # explains why the hits match

    def __post_init__(self) -> None:
        if not _whole(self.k) or not 1 <= self.k <= _MOST:
            raise BadInputError(f"k is {self.k!r}. Ask for 1 to {_MOST} results")
        if not _whole(self.offset) or not 0 <= self.offset <= _MOST - self.k:
            raise BadInputError(f"offset is {self.offset!r}. Give 0 or more, at most {_MOST} together with k")
        if self.min_score is not None and (
            isinstance(self.min_score, bool)
            or not isinstance(self.min_score, int | float | np.number)
            or not math.isfinite(self.min_score)
        ):
            raise BadInputError(f"min_score is {self.min_score!r}. Give a number, as hits have in `score`")
        if isinstance(self.fields, str):
            raise BadInputError(
                f"'{self.fields}' is one field, not a list. Put it in a list: [{self.fields!r}]"
            )
        for name in self.fields or ():
            if not isinstance(name, str):
                raise BadInputError(
                    f"fields holds {name!r}. Give names, as in ['title', 'year', 'author.name']"
                )
            parse_field(name)
        for number in ("k", "offset"):  # FAISS takes no NumPy integers
            object.__setattr__(self, number, int(getattr(self, number)))
        object.__setattr__(self, "mode", chosen(SearchMode, self.mode, "mode"))
        object.__setattr__(self, "fusion", chosen(Fusion, self.fusion, "fusion"))

    @property
    def last(self) -> int:
        """Number of best hits needed, including skipped ones."""
        return self.offset + self.k

    @property
    def reads_text(self) -> bool:
        """Whether the passages' texts are needed: to return, rerank or explain them."""
        asked = self.fields is None or ("text",) in map(parse_field, self.fields)
        return asked or self.judge is not None or self.explained_by is not None

    @property
    def drawn(self) -> int:
        """Number of nearest passages that a search starts with."""
        fused = DEPTH if self.mode is SearchMode.HYBRID else 0
        return max(self.wanted, fused)

    @property
    def judged_together(self) -> int:
        """Size of the blocks of candidates that are reranked."""
        return max(self.k, RERANKED)

    @property
    def wanted(self) -> int:
        """Number of best hits to fetch: more than are returned if they are reranked."""
        if self.judge is None:
            return self.last
        return -(-self.last // self.judged_together) * self.judged_together


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of `Collection.search`, for callers that pass them on."""

    where: Where | None
    mode: SearchMode | str | None
    by_document: bool
    fusion: Fusion | str
    rerank: str | PairJudge | None
    explain: bool
    generation: int | None
    offset: int
    min_score: float | None
    fields: Sequence[str] | None
    with_vectors: bool


class Searcher:
    """Encodes queries like the searched generation, and searches its newest snapshot."""

    def __init__(self, store: Store, encoder: CollectionEncoder, snapshot: LatestSnapshot, name: str) -> None:
        """Nothing is read or loaded yet; name: the collection's."""
        self.log = SearchLog(store, name)
        self._store = store
        self._encoder = encoder
        self._snapshot = snapshot
        self._judges = PairJudges(store.device)

    def search(
        self,
        queries: Queries,
        request: SearchRequest,
        *,
        rerank: str | PairJudge | None = None,
        explain: bool = False,
        generation: int | None = None,
        asked: bool = True,
    ) -> list[Hits]:
        """Search for each query; BadInputError for an invalid one.

        queries: texts, or their vectors (n, d), which are scaled to unit length; vectors have no words, so
                 the mode has to be dense, without reranking or explanation
        asked: by people, so the texts are logged if logging is on
        """
        texts: Sequence[str] = [""] * len(queries)
        if not isinstance(queries, np.ndarray):
            texts = [
                _checked(query, f"query {number} of {len(queries)}" if len(queries) > 1 else "the query")
                for number, query in enumerate(queries, 1)
            ]
        elif request.mode is not SearchMode.DENSE or rerank is not None or explain:
            what = "the words of a query" if request.mode is not SearchMode.DENSE else "its text"
            raise BadInputError(
                f"a vector cannot be searched by {what}. Give the text, or mode='dense' alone"
            )
        if not len(queries):
            return []
        judge = None if rerank is None else self._judges.judge(rerank)
        numbered = generation is not None
        found = self._snapshot.searched(
            lambda snapshot: self._searched(
                snapshot, queries, texts, request, judge, explain=explain, numbered=numbered
            ),
            generation,
        )
        if asked and not isinstance(queries, np.ndarray):
            self.log.add(queries)
        return found

    def many(
        self,
        queries: Queries,
        k: int = 10,
        *,
        mode: SearchMode | str = SearchMode.HYBRID,
        generation: int | None = None,
        **request: Any,  # noqa: ANN401
    ) -> list[Hits]:
        """The k best hits of each query, as in a usual search but not logged; request: see SearchRequest."""
        asked = SearchRequest(k=k, mode=mode, **request)
        return self.search(queries, asked, generation=generation, asked=False)

    def vectors(self, queries: Queries) -> NDArray[np.float32]:
        """The query vectors (n, d), of unit length, for texts or vectors; raises like `search`."""
        snapshot = self._snapshot.take()
        if isinstance(queries, np.ndarray):
            return query_vectors(queries, snapshot)
        return text_vectors(queries, self._encoder.of(snapshot.generation), snapshot)

    def _searched(
        self,
        snapshot: Snapshot,
        queries: Queries,
        texts: Sequence[str],
        request: SearchRequest,
        judge: PairJudge | None,
        *,
        explain: bool,
        numbered: bool,
    ) -> list[Hits]:
        encoder: TextEncoder | None = None
        vectors: NDArray[np.float32] | None = None
        if isinstance(queries, np.ndarray):
            vectors = query_vectors(queries, snapshot)
        elif request.mode is not SearchMode.LEXICAL or explain:
            encoder = self._encoder.of(snapshot.generation, numbered=numbered)
            if request.mode is not SearchMode.LEXICAL:
                vectors = text_vectors(texts, encoder, snapshot)
        request = replace(request, judge=judge, explained_by=encoder if explain else None)
        found = search(self._store, snapshot, vectors, request, texts)
        if encoder is None or request.mode is SearchMode.LEXICAL:
            return found
        return [_with_language(hits, text, encoder) for hits, text in zip(found, texts, strict=True)]


def _with_language(hits: Hits, query: str, encoder: TextEncoder) -> Hits:
    """Add a note if the encoder hardly knows the language of the query."""
    language = unknown_language(query, encoder)
    if language is None:
        return hits
    named = "a language that" if language == UNNAMED else f"{language}, which"
    note = (
        f"the question is in {named} {encoder.name} hardly knows, so results by meaning are unreliable. Ask "
        "in the language of the encoder, or rebuild the collection with a multilingual one"
    )
    return replace(hits, notes=(*hits.notes, note))


def as_queries(query: object) -> tuple[Queries, bool]:
    """The queries, as texts or as vectors (n, d), and whether there is a single one.

    Raises BadInputError for anything but a text, a vector, or a sequence or array of either.
    """
    if isinstance(query, str):
        return [query], True
    if hasattr(query, "__array__"):  # numpy's own, pandas' and torch's
        array = np.asarray(query)
        if array.ndim != 1 or array.dtype.kind not in "OUT":
            return np.atleast_2d(array), array.ndim < 2
        query = array.tolist()
    if not isinstance(query, Sequence) or isinstance(query, bytes):
        raise BadInputError(
            f"the query is a {type(query).__name__}, not a text, a vector, or a list of either"
        )
    if not query or isinstance(query[0], str):
        return query, False
    try:
        array = np.asarray(query)
    except ValueError:
        return query, False  # rows of different lengths are named later
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiu":
        return query, False  # what is no text among them is named later
    return np.atleast_2d(array), array.ndim == 1


def text_vectors(texts: Sequence[str], encoder: TextEncoder, snapshot: Snapshot) -> NDArray[np.float32]:
    """The query vectors (n, d), of unit length, of texts, after the learned adapter."""
    vectors = unit_length(encoder.encode(list(texts), kind=TextKind.QUERY))
    return vectors if snapshot.adapter is None else snapshot.adapter(vectors)


def query_vectors(given: NDArray[np.floating], snapshot: Snapshot) -> NDArray[np.float32]:
    """Scale vectors (n, d) to unit length; BadInputError if they do not match the snapshot's."""
    encoder = snapshot.generation.encoder
    if given.ndim != 2 or given.shape[1] != encoder.dimension or given.dtype.kind not in "fiu":
        raise BadInputError(
            f"the query is an array {given.shape} of {given.dtype}; the vectors of collection "
            f"'{snapshot.collection.name}' have {encoder.dimension} dimensions. Give ({encoder.dimension},) "
            f"or (queries, {encoder.dimension}), made by {encoder.name}"
        )
    wide = given.astype(np.float64, order="C")
    largest = np.abs(wide).max(axis=1, keepdims=True)
    bad = ~np.isfinite(largest) | (largest == 0.0)
    if bad.any():
        raise BadInputError(f"query vector {bad.argmax()} is zero, infinite or not a number: no direction")
    exponents = np.frexp(largest)[1]  # one so far from 1 that float32 holds no squares is scaled, exactly
    return unit_length(np.ldexp(wide, -exponents * (np.abs(exponents) > 40)).astype(np.float32))


def search(
    store: Store,
    snapshot: Snapshot,
    vectors: NDArray[np.float32] | None,
    request: SearchRequest,
    texts: Sequence[str] = ("",),
) -> list[Hits]:
    """The k best passages that match the filter, for each query, in one transaction.

    vectors: (n, d) of unit length; None in lexical mode
    texts:   of the queries, (n), for words, reranking and explanations

    Raises UnknownCollectionError if the collection was deleted meanwhile and its words are needed.
    """
    try:
        with store.database.reading() as connection:
            selection = select(connection, snapshot, request.where, request.without)
            each: Iterable[tuple[str, NDArray[np.float32] | None, Candidates | None]]
            each = ((text, None, None) for text in texts)
            if vectors is not None:
                drawn = request.drawn
                near = dense_candidates(connection, snapshot, vectors, drawn, selection, request.wanted)
                each = zip(texts, vectors, near, strict=True)
            found = [_Query(connection, snapshot, request, selection, *one).found() for one in each]
    except UnreadableWordsError as error:
        raise _without_words(store, snapshot) from error
    qualifying = _qualifying(snapshot, selection)
    return [_hits(snapshot, request, qualifying, text, one) for text, one in zip(texts, found, strict=True)]


@dataclass(slots=True)
class _Found:
    """The result of one query, before reranking and explanation."""

    best: list[tuple[float, PassageRow]]
    ranking: Ranking
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Query:
    """One query in a transaction."""

    connection: sa.Connection
    snapshot: Snapshot
    request: SearchRequest
    selection: Selection
    text: str
    vector: NDArray[np.float32] | None  # (d,) unit length; None in lexical mode
    near: Candidates | None  # the `request.drawn` nearest; None in lexical mode

    def found(self) -> _Found:
        """The best passages, and notes."""
        lexical, request = None, self.request
        if request.mode is not SearchMode.DENSE:
            narrowed = self.selection.expression is None and not request.by_document
            # Of the first hundred hardly any goes by it, of a thousand a quarter may. Where pages go past the
            # hundredth hit, the two rankings meet: a hit may come twice, or not at all.
            narrowed = narrowed and request.wanted <= DEPTH
            lexical = self._by_words(self.selection.numbers, narrowed=narrowed)
        best, ranking = self._fetched(lexical)
        if lexical is not None and lexical.narrowed and len(best) < self.request.wanted:
            lexical = self._by_words(self.selection.numbers)
            best, ranking = self._fetched(lexical)
        unlisted = self.selection.expression is not None and self.selection.numbers is None
        if lexical is not None and not lexical.complete and unlisted and len(best) < request.last:
            # Too few of the passages ranked pass the filter: all that pass are listed, and ranked alone.
            lexical = self._by_words(list_all(self.connection, self.snapshot, self.selection))
            best, ranking = self._fetched(lexical)
        notes = search_notes(
            self.connection,
            self.snapshot,
            self.selection.expression,
            lexical,
            by_words_alone=request.mode is SearchMode.LEXICAL,
            found=min(len(best), request.last),
            asked=request.last,
            by_document=request.by_document,
        )
        return _Found(best, ranking, notes)

    def _by_words(self, allowed: NDArray[np.int64] | None, *, narrowed: bool = False) -> LexicalCandidates:
        """Leave out passages that have no vector in the snapshot, because no other mode finds those."""
        besides = np.zeros(0, dtype=np.int64) if self.near is None else self.near.ids
        collection_id, left_in = self.snapshot.collection.id, besides if narrowed else None
        lexical = lexical_candidates(
            self.connection, collection_id, self.text, allowed=allowed, besides=left_in
        )
        there = self.snapshot.finds(lexical.ids)
        return replace(lexical, ids=lexical.ids[there], scores=lexical.scores[there])

    def _nearest(self, count: int) -> Candidates:
        assert self.vector is not None and self.near is not None  # noqa: PT018, S101 - for the type checker
        if count <= self.request.drawn:
            return Candidates(self.near.ids[:count], self.near.scores[:count])
        query = self.vector[None, :]  # too few of those drawn first count, so these are needed as surely
        return dense_candidates(self.connection, self.snapshot, query, count, self.selection, count)[0]

    def _passes(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return passing(self.connection, self.snapshot, ids, self.selection)

    def _fetched(self, lexical: LexicalCandidates | None) -> tuple[list[tuple[float, PassageRow]], Ranking]:
        """The best rows, more than k for reranking, and their ranking.

        Draws more candidates until there are enough, or no more exist.
        """
        request, snapshot, enough = self.request, self.snapshot, self.request.wanted
        drawn, fusion, longest = enough, Fusion(request.fusion), None if request.reads_text else 0
        while True:
            ranking = candidates(
                snapshot,
                self.vector,
                self._nearest,
                lexical,
                self._passes,
                fusion,
                drawn,
                weight=weight_of_words(snapshot) if request.word_weight is None else request.word_weight,
            )
            best: list[tuple[float, PassageRow]] = []
            seen: set[str] = set()
            # Behind so many candidates others may stand that were not drawn.
            for begin in range(0, len(ranking.ids) if ranking.exhausted else drawn, drawn):
                some = ranking.ids[begin : begin + drawn]
                condition = self.selection.condition
                rows = passages.read_passages(
                    self.connection, snapshot.collection.id, some, condition, longest=longest
                )
                for number, score in zip(some, ranking.scores[begin : begin + drawn], strict=True):
                    row = rows.get(number)
                    if row is None or (request.by_document and row.document_id in seen):
                        continue
                    seen.add(row.document_id)
                    best.append((score, row))
                if len(best) >= enough:
                    return best[:enough], ranking
            if ranking.exhausted:
                return best, ranking
            drawn *= 4


def _without_words(store: Store, snapshot: Snapshot) -> NearsayError:
    """The error if words cannot be read: the collection was deleted, or they are damaged."""
    name = snapshot.collection.name
    with store.database.reading() as connection:
        row = collections.find(connection, name)
    if row is None or row.id != snapshot.collection.id:
        return UnknownCollectionError(
            f"collection '{name}' was deleted while it was searched. "
            "See which there are: nearsay collections list"
        )
    return unreadable_words(name)


def _qualifying(snapshot: Snapshot, selection: Selection) -> int | None:
    if selection.numbers is not None:
        inside = selection.numbers[selection.numbers < snapshot.alive.size]
        return int(np.count_nonzero(snapshot.alive[inside]))
    if selection.chosen is not None:
        size = min(selection.chosen.size, snapshot.alive.size)
        return int(np.count_nonzero(selection.chosen[:size] & snapshot.alive[:size]))
    if selection.condition is not None:
        return None
    without = np.fromiter(selection.without, dtype=np.int64)
    inside = without[without < snapshot.alive.size]
    return snapshot.searchable - int(np.count_nonzero(snapshot.alive[inside]))


def _hits(
    snapshot: Snapshot, request: SearchRequest, qualifying: int | None, text: str, found: _Found
) -> Hits:
    ranked, notes, judge = found.best, found.notes, request.judge
    if judge is not None:
        ranked = judged_anew(judge, text, ranked, request.judged_together, request.offset)
    chosen = ranked[request.offset : request.last]
    if request.min_score is not None:
        best = [pair for pair in chosen if pair[0] >= request.min_score]
        if len(best) < len(chosen):
            following = max(score for score, _ in chosen if score < request.min_score)
            notes = (
                *notes,
                f"{len(best)} of the {request.k} asked for: the next scores {following:.3f}",
            )
        chosen = best
    vectors = _vectors(snapshot, [row.number for _, row in chosen]) if request.with_vectors else {}
    encoder, ranking = snapshot.generation.encoder, found.ranking
    lineage = Lineage(
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        generation=snapshot.generation.number,
        plan=snapshot.answered_by,
        made_by=snapshot.lineage,
        device=snapshot.device,
    )
    fused = dict(zip(ranking.ids, ranking.scores, strict=True)) if request.mode is SearchMode.HYBRID else {}
    hits = tuple(
        Hit(
            rank=rank,
            score=score,
            id=row.document_id,
            title=row.title,
            text=row.text,
            metadata=row.metadata,
            source=row.source,
            passage=row.ordinal,
            start=row.start,
            end=row.end,
            lineage=lineage,
            scores=HitScores(
                dense=ranking.cosines.get(row.number),
                lexical=ranking.words.get(row.number),
                word_share=_word_share(ranking, row.number),
                fused=fused.get(row.number),
                rerank=None if judge is None else score,
            ),
            vector=vectors.get(row.number),
        )
        for rank, (score, row) in enumerate(chosen, request.offset + 1)
    )
    hits = _explained(snapshot, hits, request, text)
    if request.fields is not None:
        paths = [parse_field(name) for name in request.fields]
        hits = tuple(_with_fields(hit, paths) for hit in hits)
    return Hits(hits, request.k, qualifying, notes)


def _with_fields(hit: Hit, paths: Sequence[Path]) -> Hit:
    """The hit with only these fields; the others are empty."""
    kept: dict[str, JsonValue] = {}
    for path in filter(None, map(metadata_path, paths)):
        value: object = hit.metadata
        for name in path:
            value = value.get(name, _NOTHING) if isinstance(value, Mapping) else _NOTHING
        if value is not _NOTHING:
            inside: Any = kept
            for name in path[:-1]:
                inside = inside.setdefault(name, {})
            inside[path[-1]] = value
    own = {path[0] for path in paths if metadata_path(path) is None}
    return replace(
        hit,
        metadata=kept,
        title=hit.title if "title" in own else "",
        text=hit.text if "text" in own else "",
        source=hit.source if "source" in own else None,
    )


def _vectors(snapshot: Snapshot, numbers: list[int]) -> dict[int, NDArray[np.float32]]:
    """The stored vector of each passage."""
    rising = np.array(sorted(numbers), dtype=np.int64)
    return dict(zip(rising.tolist(), snapshot.vectors.rows(snapshot.vectors.positions(rising)), strict=True))


def _word_share(ranking: Ranking, number: int) -> float | None:
    known = ranking.full_score > 0 and number in ranking.words
    return ranking.words[number] / ranking.full_score if known else None


def _explained(
    snapshot: Snapshot, hits: tuple[Hit, ...], request: SearchRequest, text: str
) -> tuple[Hit, ...]:
    if request.explained_by is None or not hits:
        return hits
    from nearsay.indexer.query.explain import explain_hits

    language = Chunking.parse(snapshot.collection.chunking).language
    adapter = snapshot.adapter
    explanations = explain_hits(request.explained_by, text, hits, language=language, adapter=adapter)
    return tuple(replace(hit, explanation=one) for hit, one in zip(hits, explanations, strict=True))


def _checked(query: str, which: str) -> str:
    if not isinstance(query, str):
        raise BadInputError(f"{which} is a {type(query).__name__}, not text. Search for one text at a time")
    if not query.strip():
        raise BadInputError(f"{which} is empty. Write what you look for")
    try:
        query.encode()
    except UnicodeEncodeError:  # as of bytes that are not UTF-8 on a command line
        raise BadInputError(
            f"{which} holds half a surrogate pair, which is no character. Write it in UTF-8"
        ) from None
    return query


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
