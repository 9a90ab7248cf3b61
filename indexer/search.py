"""From a query to hits.

What a filter lets through is worked out before the search and checked again in the query that fetches the
rows, all in one transaction, so a document that was removed or changed in between never comes back.
"""

from dataclasses import dataclass, replace

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue import collections, passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.errors import UnknownCollectionError, UnreadableWordsError
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.selection import Selection, list_all, select
from nearsay.indexer.hit import Hit, Hits, HitScores, Lineage
from nearsay.indexer.hybrid.fusion import Fusion
from nearsay.indexer.hybrid.lexical import LexicalCandidates, lexical_candidates
from nearsay.indexer.hybrid.mode import SearchMode
from nearsay.indexer.hybrid.ranking import Ranking, Wanted, candidates
from nearsay.indexer.hybrid.reranking import RERANKED, PairJudge
from nearsay.indexer.passage import encoded_text
from nearsay.indexer.search_notes import search_notes
from nearsay.indexer.snapshot import Snapshot
from nearsay.indexer.store import Store
from nearsay.indexer.vector_store import Candidates
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["SearchRequest", "search"]

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What is searched for."""

    k: int = 10
    where: Where | None = None
    without: frozenset[int] = frozenset()  # passages that are not to be found
    by_document: bool = False  # only the best passage of each document
    mode: SearchMode = SearchMode.DENSE
    fusion: Fusion = Fusion.WEIGHTED  # in hybrid mode
    text: str = ""  # the query's, where words are looked for, passages judged or explained
    judge: PairJudge | None = None  # ranks the first candidates anew
    explained_by: TextEncoder | None = None  # hits say why they matched

    def __post_init__(self) -> None:
        whole = isinstance(self.k, int | np.integer) and not isinstance(self.k, bool)
        if not whole or not 1 <= self.k <= _MOST:
            raise BadInputError(f"k is {self.k!r}. Ask for 1 to {_MOST} results")


def search(
    store: Store,
    snapshot: Snapshot,
    query: NDArray[np.float32] | None,
    request: SearchRequest,
    nearest: Candidates | None = None,
    drawn: int = 0,
) -> Hits:
    """The k best living passages that the filter lets through.

    query:   (d,) unit length; None in lexical mode
    nearest: the query's nearest, if they were found already: `drawn` of them

    UnknownCollectionError if the collection was deleted meanwhile and its words are looked for.
    """
    try:
        return _search(store, snapshot, query, request, nearest, drawn)
    except UnreadableWordsError as error:
        raise _without_words(store, snapshot) from error


def _search(
    store: Store,
    snapshot: Snapshot,
    query: NDArray[np.float32] | None,
    request: SearchRequest,
    nearest: Candidates | None,
    drawn: int,
) -> Hits:
    lexical: LexicalCandidates | None = None
    with store.database.reading() as connection:
        selection = select(connection, snapshot, request.where, request.without, store.database.dialect)
        if request.mode is not SearchMode.DENSE:
            lexical = _by_words(connection, snapshot, request.text, selection.numbers)
        wanted = Wanted(request.mode, request.fusion, query, selection, nearest, drawn)
        found, ranking = _fetch(connection, snapshot, wanted, request, lexical)
        unlisted = selection.condition is not None and selection.numbers is None
        if lexical is not None and not lexical.complete and unlisted and len(found) < request.k:
            # Too few of the passages ranked pass the filter: all that pass are listed, and ranked alone.
            numbers = list_all(connection, snapshot, selection)
            lexical = _by_words(connection, snapshot, request.text, numbers)
            found, ranking = _fetch(connection, snapshot, wanted, request, lexical)
        notes = search_notes(
            connection,
            snapshot,
            request.where,
            lexical,
            by_words_alone=request.mode is SearchMode.LEXICAL,
            found=min(len(found), request.k),
            asked=request.k,
            by_document=request.by_document,
        )
    judged = _judged(request, found)
    chosen = judged[: request.k]
    hits = _hits(snapshot, request, chosen, ranking)
    return Hits(_explained(snapshot, hits, request), request.k, _qualifying(snapshot, selection), notes)


def _without_words(store: Store, snapshot: Snapshot) -> NearsayError:
    """Why the words of a collection cannot be read: it was deleted, or they are damaged."""
    name = snapshot.collection.name
    with store.database.reading() as connection:
        row = collections.find(connection, name)
    if row is None or row.id != snapshot.collection.id:
        return UnknownCollectionError(
            f"collection '{name}' was deleted while it was searched. See which there are: nearsay index list"
        )
    return UnreadableWordsError(
        f"the words of collection '{name}' are gone or damaged. Enter them anew: nearsay index rebuild {name}"
    )


def _by_words(
    connection: sa.Connection, snapshot: Snapshot, text: str, allowed: NDArray[np.int64] | None
) -> LexicalCandidates:
    """Without passages that have no vector in the snapshot: no way of searching finds those."""
    lexical = lexical_candidates(connection, snapshot.collection.id, text, allowed=allowed)
    there = lexical.ids < snapshot.alive.size
    there[there] = snapshot.alive[lexical.ids[there]]
    return replace(lexical, ids=lexical.ids[there], scores=lexical.scores[there])


def _qualifying(snapshot: Snapshot, selection: Selection) -> int | None:
    if selection.numbers is not None:
        inside = selection.numbers[selection.numbers < snapshot.alive.size]
        return int(np.count_nonzero(snapshot.alive[inside]))
    if selection.condition is not None:
        return None
    without = np.fromiter(selection.without, dtype=np.int64)
    inside = without[without < snapshot.alive.size]
    return snapshot.searchable - int(np.count_nonzero(snapshot.alive[inside]))


def _fetch(
    connection: sa.Connection,
    snapshot: Snapshot,
    wanted: Wanted,
    request: SearchRequest,
    lexical: LexicalCandidates | None,
) -> tuple[list[tuple[float, PassageRow]], Ranking]:
    """The best rows, more than k where they are judged once more, and what they were ranked by.

    More candidates are drawn until enough are there or no more can come.
    """
    enough = request.k if request.judge is None else max(request.k, RERANKED)
    drawn = enough
    while True:
        ranking = candidates(connection, snapshot, wanted, lexical, drawn)
        best: list[tuple[float, PassageRow]] = []
        seen: set[str] = set()
        for begin in range(0, len(ranking.ids), drawn):
            some = ranking.ids[begin : begin + drawn]
            condition = wanted.selection.condition
            rows = passages.read_passages(connection, snapshot.collection.id, some, condition)
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


def _judged(request: SearchRequest, found: list[tuple[float, PassageRow]]) -> list[tuple[float, PassageRow]]:
    if request.judge is None or not found:
        return found
    pairs = [(request.text, encoded_text(row.title, row.text)) for _, row in found]
    scores = request.judge.scores(pairs).tolist()
    judged = [(score, row) for score, (_, row) in zip(scores, found, strict=True)]
    return sorted(judged, key=lambda pair: -pair[0])  # stable: what ties stays in the order it came in


def _hits(
    snapshot: Snapshot, request: SearchRequest, chosen: list[tuple[float, PassageRow]], ranking: Ranking
) -> tuple[Hit, ...]:
    encoder = snapshot.generation.encoder
    lineage = Lineage(
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        generation=snapshot.generation.number,
        plan=snapshot.answered_by,
        made_by=encoder.lineage,
        device=snapshot.device,
    )
    fused = dict(zip(ranking.ids, ranking.scores, strict=True)) if request.mode is SearchMode.HYBRID else {}
    return tuple(
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
                rerank=None if request.judge is None else score,
            ),
        )
        for rank, (score, row) in enumerate(chosen, 1)
    )


def _word_share(ranking: Ranking, number: int) -> float | None:
    known = ranking.full_score > 0 and number in ranking.words
    return ranking.words[number] / ranking.full_score if known else None


def _explained(snapshot: Snapshot, hits: tuple[Hit, ...], request: SearchRequest) -> tuple[Hit, ...]:
    if request.explained_by is None or not hits:
        return hits
    from nearsay.indexer.explain.explain import explain_passages
    from nearsay.indexer.explain.explanation import ExplainedPassage

    explained = [ExplainedPassage(hit.title, hit.text, hit.scores.dense) for hit in hits]
    language = Chunking.parse(snapshot.collection.chunking).language
    explanations = explain_passages(request.explained_by, request.text, explained, language=language)
    return tuple(replace(hit, explanation=one) for hit, one in zip(hits, explanations, strict=True))
