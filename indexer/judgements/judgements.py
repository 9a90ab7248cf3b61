"""What people said of a collection's search results: `collection.judgements`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import generations, judgements, passages
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.judgements import JudgedQuery, Judgement, JudgementCounts, JudgementState
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.judgements.export import ExportForm, JudgementExport, export_judgements
from nearsay.indexer.judgements.importing import JudgementImport, read_judgements
from nearsay.indexer.judgements.judging import Judged, plain_query
from nearsay.indexer.judgements.part import Part
from nearsay.indexer.query.hit import Hit
from nearsay.indexer.query.search_log import SearchLog
from nearsay.indexer.vectors.errors import UnknownDocumentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judging import JudgedComparison, Search

__all__ = ["Judgements"]


class Judgements:
    """The judgements of a collection; made by `Collection.judgements`.

    Safe to share between threads. Any number of people judge at once, and while documents are added: each
    judgement is one short transaction, and of two on the same query and passage the last one stays. The
    collection's writer lock is not taken: a judgement names its document by its id and keeps the text itself,
    so nothing that a writer does can make it wrong.
    """

    def __init__(self, record: CollectionRecord, search: "Search", searches: SearchLog) -> None:
        """Nothing is read yet; `search`: the collection's, of several queries; `searches`: of people."""
        self._record = record
        self._search = search
        self.searches = searches
        self._database = record.store.database

    def add(
        self,
        query: str,
        found: Hit | str,
        relevant: bool | None,
        *,
        passage: int | None = None,
        rank: int | None = None,
        score: float | None = None,
        mode: SearchMode | str | None = None,
        rater: str | None = None,
        note: str | None = None,
    ) -> Judgement:
        """Keep that a passage answers a query, or that it does not, instead of what was said of it before.

        query:    kept without white space around it
        found:    the hit, whose text as it was shown is what was judged, or a document's id
        relevant: it answers; None = nobody can say: `unsure` lists it, and nothing learns from it
        rater, note: who says so, and what else
        passage:  0-based place in the document; None = the hit's, or the document's only one
        rank, score, mode: how it was found; None = as the hit says, and unknown for an id

        UnknownDocumentError for a document that is not, or no longer, there; BadInputError for a passage that
        the document has not got, or of several not named.
        """
        words = plain_query(query)
        judged = Judged.of(found, passage, rank, score, mode)
        row = self._record.row()
        try:
            with self._database.writing() as connection:
                self._record.require(connection, row)
                judgement = self._judgement(connection, row, words, judged, relevant=bool(relevant))
                judgement = replace(judgement, unsure=relevant is None, rater=rater, note=note)
                judgements.put(connection, row.id, judgement)
        except IntegrityError:
            self._record.row()  # tells of a collection that was removed at this moment
            raise
        return judgement

    def remove(self, query: str, found: Hit | str, passage: int | None = None) -> int:
        """Take back what was said of a query and a passage, or all passages of a document; how many.

        The document need not be there any more.
        """
        words = plain_query(query)
        judged = Judged.of(found, passage, None, None, None)
        row = self._record.row()
        with self._database.writing() as connection:
            return judgements.take_back(connection, row.id, words, judged.document, judged.passage)

    def clear(self) -> int:
        """Take back everything that was said of the collection; how much that was."""
        row = self._record.row()
        with self._database.writing() as connection:
            return judgements.forget(connection, row.id)

    def list(
        self, query: str | None = None, document: str | None = None, *, relevant: bool | None = None
    ) -> tuple[Judgement, ...]:
        """The judgements in the order in which they were first made: of a query, of a document's id, or all.

        relevant: only those that say so, or only those that say the opposite; None = both
        """
        words = None if query is None else plain_query(query)
        row = self._record.row()
        with self._database.reading() as connection:
            return tuple(judgements.listed(connection, row.id, words, document, relevant=relevant))

    def unsure(self) -> tuple[Judgement, ...]:
        """The passages of which somebody looked and could not say whether they answer."""
        row = self._record.row()
        with self._database.reading() as connection:
            return tuple(judgements.listed(connection, row.id, unsure=True))

    def compare(
        self,
        first: str = "hybrid",
        second: str = "dense",
        queries: Iterable[str] | None = None,
        *,
        level: float = 0.95,
        margin: float = 0.01,
    ) -> "JudgedComparison":
        """Compare two ways of searching by as few judgements as decide which is better.

        first, second: a mode, rrf, generation=2, or several with commas: dense,generation=2
        queries:       to compare by; None = those that were judged so far
        level:         with that chance the interval of the difference is right, however often one looks
        margin:        a difference of DCG@10 that does not matter

        `next` of what comes back is the passage to judge, `difference` what is known. BadInputError for ways
        that are none, and without queries.
        """
        from nearsay.indexer.judgements.judging import JudgedComparison, SearchWay

        asked = [one.query for one in self.queries()] if queries is None else queries
        ways = SearchWay.parse(first), SearchWay.parse(second)
        return JudgedComparison(self, self._search, asked, *ways, level=level, margin=margin)

    def load(self, source: str | Path, queries: str | Path | None = None) -> JudgementImport:
        """Take over judgements from a file or folder, all or none; see `read_judgements`.

        What was said before of the same query and passage is replaced. Judgements of documents that are not
        there, and of documents of several passages without saying which, are left out and counted.
        BadInputError for what cannot be read.
        """
        read = list(read_judgements(Path(source), None if queries is None else Path(queries)))
        row, lost, taken, asked = self._record.row(), Counter[str](), 0, set[str]()
        with self._database.writing() as connection:
            self._record.require(connection, row)
            for one in read:
                query = plain_query(one.query)
                document, passage = one.document, one.passage
                base, hash_, place = document.rpartition("#")
                there = passages.passage_numbers_of(connection, row.id, document)
                if not there and passage is None and hash_ and place.isdecimal():
                    document, passage = unquote(base), int(place)
                    there = passages.passage_numbers_of(connection, row.id, document)
                if not there:
                    lost["of documents that are not there"] += 1
                elif (passage is None and len(there) > 1) or (passage or 0) >= len(there):
                    lost["that do not say of which passage of their document they are"] += 1
                else:
                    judged = Judged.of(document, passage, None, None, None)
                    made = self._judgement(connection, row, query, judged, relevant=bool(one.relevant))
                    said = replace(made, unsure=one.relevant is None, rater=one.rater, note=one.note)
                    judgements.put(connection, row.id, said)
                    taken += 1
                    asked.add(query)
        notes = [f"{counted(count, 'judgement')} {why}: left out" for why, count in lost.items()]
        return JudgementImport(taken, len(asked), tuple(notes))

    def of(self, query: str) -> dict[tuple[str, int], bool]:
        """What was said for a query of each passage, by its document's id and its place: whether it answers.

        Passages that were changed or removed since have no word here: nobody judged what stands there now.
        """
        current = [one for one in self.list(query) if one.state is JudgementState.CURRENT]
        return {(one.document, one.passage): one.relevant for one in current}

    def queries(self) -> Sequence[JudgedQuery]:
        """The queries that passages were judged for, in the order in which that began."""
        row = self._record.row()
        with self._database.reading() as connection:
            return judgements.queries(connection, row.id)

    def counts(self) -> JudgementCounts:
        """How many judgements there are, and of how many the passage is no longer there as it was judged."""
        row = self._record.row()
        with self._database.reading() as connection:
            return judgements.counts(connection, row.id)

    def export(
        self,
        out: str | Path,
        form: ExportForm | str = ExportForm.LINES,
        *,
        part: Part | str | None = None,
        judged_only: bool = False,
        progress: ProgressListener = unheard,
    ) -> JudgementExport:
        """Write judgements for evaluation, for training, or as they are; whole or not at all.

        out:         a folder that is not there yet for `evaluation`, a .jsonl file for everything else
        form:        see `ExportForm`
        part:        `train` or `test`, to learn from some queries and measure on the others, or `all`; None =
                     `train` for what is learned from (training, triplets, labelled, pairs), else all
        judged_only: an evaluation searches the judged passages alone instead of the whole collection: quick,
                     and its figures are higher
        progress:    hears of passages written; what it raises ends the work and leaves nothing

        BadInputError where the judgements make nothing of that form.
        """
        return export_judgements(
            self._record, self.list(), Path(out), form, part=part, judged_only=judged_only, listener=progress
        )

    def _judgement(
        self, connection: sa.Connection, row: CollectionRow, query: str, judged: Judged, *, relevant: bool
    ) -> Judgement:
        place, title, text = self._passage(connection, row, judged)
        lineage = judged.lineage
        live = generations.live(connection, row.id) if lineage is None else None
        answered_by: tuple[str | None, str | None, int | None] = (None, None, None)
        if lineage is not None:
            answered_by = (lineage.encoder, lineage.fingerprint, lineage.generation)
        elif live is not None:
            answered_by = (live.encoder.name, live.encoder.fingerprint, live.number)
        return Judgement(
            query,
            judged.document,
            place,
            relevant,
            title,
            text,
            judged.rank,
            judged.score,
            judged.mode,
            *answered_by,
            created_at=now("milliseconds"),
        )

    def _passage(self, connection: sa.Connection, row: CollectionRow, judged: Judged) -> tuple[int, str, str]:
        """The place, title and text of what is judged."""
        numbers = passages.passage_numbers_of(connection, row.id, judged.document)
        if not numbers:  # every document has a passage: one without is being removed
            raise UnknownDocumentError.of(row.name, judged.document)
        if judged.passage is not None and judged.seen is not None:
            return judged.passage, *judged.seen
        if judged.passage is None and len(numbers) != 1:
            raise BadInputError(
                f"document '{judged.document}' has {len(numbers)} passages. Say which one is judged, from 0"
            )
        place = judged.passage or 0
        if place >= len(numbers):
            raise BadInputError(
                f"document '{judged.document}' has no passage {place}. Its {len(numbers)} passages are "
                "numbered from 0"
            )
        found = passages.read_passages(connection, row.id, [numbers[place]]).get(numbers[place])
        if found is None:  # removed between the two questions
            raise UnknownDocumentError.of(row.name, judged.document)
        return place, found.title, found.text
