"""Relevance judgements of a collection's search results: `collection.judgements`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from nearsay.data.errors import BadInputError
from nearsay.data.formulas import fused
from nearsay.data.quantity import counted
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.row_files import file_lines, file_rows
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue import collections, generations, judgements, passages
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.judgements import (
    JudgedQuery,
    Judgement,
    JudgementCounts,
    JudgementState,
    Part,
    SearchMode,
)
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.judgements.export import ExportForm, JudgementExport, export_judgements
from nearsay.indexer.judgements.judging import Judged, Pair, plain_query, stored
from nearsay.indexer.query.hit import Hit
from nearsay.indexer.query.search_log import SearchLog
from nearsay.indexer.vectors.errors import UnknownDocumentError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judging import JudgedComparison, Search

_TABLES: Final = (".csv", ".tsv", ".jsonl", ".parquet")
_YES: Final = frozenset({"1", "true", "yes", "relevant"})
_NO: Final = frozenset({"0", "false", "no", "not relevant"})
_TREC_COLUMNS: Final = 4
_DIGITS: Final = 18  # of a number: Python rejects more than 4,300
_SHOWN: Final = 60  # characters of an unreadable value


@dataclass(frozen=True, slots=True)
class ImportedJudgement:
    """A judgement read from a file."""

    query: str
    document: str  # its id
    passage: int | None  # 0-based position; None: the whole document
    relevant: bool | None  # None: undecided
    rater: str | None = None
    note: str | None = None
    text: str | None = None  # of the passage when it was judged; None: not in the file


@dataclass(frozen=True, slots=True)
class JudgementImport:
    """The result of an import."""

    judgements: int
    queries: int  # with imported judgements
    notes: tuple[str, ...]  # what was left out and why


def read_judgements(source: Path, queries: Path | None, notes: list[str]) -> Iterator[ImportedJudgement]:
    """Read the judgements of a file or a folder.

    source:  a folder in BEIR's layout; a table (.csv, .tsv, .jsonl, .parquet) with the columns query,
             document (or id), relevant, and optionally passage, its text, rater and note, or with BEIR's
             columns query-id, corpus-id and score; other files are TREC's qrels, whose lines hold a query id,
             an ignored column, a document id and a relevance
    queries: for qrels, the queries' texts: a table with the columns _id (or id) and text (or query)
    notes:   receives notes on unusable parts of a folder

    A document id that ends with # and a number refers to that passage, as in exports, if the collection has
    no document with the complete id; otherwise an id refers to the whole document. A relevance above 0 is
    relevant. Raises BadInputError with the line for unreadable rows.
    """
    if source.is_dir():
        found = read_retrieval_set(source)
        notes += found.notes
        for query, of_it in found.judgements.items():
            for document, relevance in of_it.items():
                yield ImportedJudgement(found.queries[query], document, None, relevance > 0)
        return
    if not source.is_file():
        raise BadInputError(f"{source} does not exist. Give a file or folder of judgements")
    texts: dict[str, str] = {}
    if queries is not None:
        rows = file_rows(queries)
        texts = {_cell(row, "_id", "id", "query_id"): _cell(row, "text", "query") for _, row in rows}
    for line, row in file_rows(source) if source.suffix.lower() in _TABLES else _trec_rows(source):
        place, cells = f"{source.name}, line {line}", {name.lower(): fused(row[name]) for name in row}
        number = "" if _cell(cells, "query") else _cell(cells, "query-id")
        if number:
            if queries is None:
                raise BadInputError(
                    f"{place}: '{number[:_SHOWN]}' is a query id. Give a table of the queries' texts "
                    "(queries), with the columns _id and text"
                )
            if not texts.get(number):
                raise BadInputError(f"{place}: {queries.name} has no query '{number[:_SHOWN]}'")
            cells["query"] = texts[number]
        yield _of_row(place, cells)


def _trec_rows(source: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The lines of TREC's qrels as rows with BEIR's columns."""
    for line, text in file_lines(source):
        cells = text.split()
        if not cells:
            continue
        if len(cells) != _TREC_COLUMNS or _integer(cells[3]) is None:
            raise BadInputError(
                f"{source.name}, line {line}: '{text[:_SHOWN]}' is not: query 0 document relevance"
            )
        yield line, {"query-id": cells[0], "corpus-id": cells[2], "score": cells[3]}


def _of_row(place: str, row: Mapping[str, object]) -> ImportedJudgement:
    query, document = _cell(row, "query"), _cell(row, "document", "id", "corpus-id")
    # In a file with `relevant`, the score is that of a hit.
    verdict = _cell(row, "relevant" if "relevant" in row else "score")
    given = _cell(row, "passage")
    passage = _integer(given)
    if not query or not document:
        raise BadInputError(f"{place}: the columns query and document are required")
    if given and (passage is None or passage < 0):
        raise BadInputError(f"{place}: '{given[:_SHOWN]}' is not a passage. Give a number from 0")
    if not {"relevant", "score"} & row.keys() and _cell(row, "unsure").lower() != "true":
        raise BadInputError(
            f"{place}: the column 'relevant' is missing. Rename the one that holds 1 or 0; there are "
            f"{', '.join(map(repr, row))}"
        )
    word = verdict.strip().lower()
    relevance = _integer(word)
    if word not in _YES | _NO and relevance is None and word not in ("", "unsure"):
        raise BadInputError(
            f"{place}: relevant is '{verdict[:_SHOWN]}'. Write 1 or 0, or leave it empty if undecided"
        )
    unsure = word in ("", "unsure") or _cell(row, "unsure").lower() == "true"
    relevant = None if unsure else word in _YES or (relevance or 0) > 0
    rater, note = (stored(_cell(row, name), f"{place}: the {name}") for name in ("rater", "note"))
    text = None if passage is None else _cell(row, "text") or None
    return ImportedJudgement(query, document, passage, relevant, rater or None, note or None, text)


def _cell(row: Mapping[str, object], *names: str) -> str:
    """The first of these columns that exists, as text; "" if none does."""
    for name in names:
        value = row.get(name)
        if isinstance(value, float) and value.is_integer():  # a column with a missing cell
            return str(int(value))
        if value is not None:
            return str(value)
    return ""


def _integer(text: str) -> int | None:
    """The integer that a text is, as 1 or 1.0; None for others, and for more than 18 digits."""
    text = text.removesuffix(".0")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _DIGITS else None


_TOGETHER: Final = 2_000  # judgements whose documents are looked up together


def _found(
    connection: sa.Connection, collection_id: int, read: Sequence[ImportedJudgement], lost: Counter[str]
) -> list[tuple[ImportedJudgement, Judged, tuple[int, str, str]]]:
    """The judgements of existing passages, with position, title and text; others are counted in `lost`."""
    named = [(one.document, one.passage) for one in read]
    within = [_passage_of_id(*each) for each in named]  # for passage ids
    ids = {id_ for id_, _ in named} | {each[0] for each in within if each is not None}
    known = passages.numbers_by_id(connection, collection_id, sorted(ids))
    placed: list[tuple[ImportedJudgement, Judged, int]] = []
    for one, (document, passage), inside in zip(read, named, within, strict=True):
        if document not in known and inside is not None:
            document, passage = inside  # noqa: PLW2901
        there = known.get(document, ())
        if not there:
            lost["of missing documents"] += 1
        elif passage is None and len(there) > 1:
            lost["of whole documents of which a search for the query finds no passage"] += 1
        elif (passage or 0) >= len(there):
            lost["of passages that their document does not have"] += 1
        else:
            judged = Judged.of(document, passage, None, None, None)
            placed.append((one, judged, there[passage or 0]))
    rows = passages.read_passages(connection, collection_id, [number for *_, number in placed])
    found = []
    for one, judged, number in placed:
        if number not in rows:
            continue
        if one.text is not None and normalised_text(one.text) != normalised_text(rows[number].text):
            lost["of passages whose text has changed"] += 1
        else:
            found.append((one, judged, (judged.passage or 0, rows[number].title, rows[number].text)))
    return found


def _passage_of_id(document: str, passage: int | None) -> tuple[str, int] | None:
    """The document and position in a passage id, see `passage_id`; None if it is not one."""
    base, hash_, place = document.rpartition("#")
    number = _integer(place) if hash_ and passage is None else None
    return None if number is None or number < 0 else (unquote(base), number)


def _judgement(
    query: str,
    judged: Judged,
    place: int,
    title: str,
    text: str,
    live: GenerationRow | None,
    *,
    relevant: bool,
) -> Judgement:
    """A judgement of a passage.

    live: the live generation, if no hit gives the one that found it
    """
    lineage = judged.lineage
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


def _by_passage(
    record: CollectionRecord, search: "Search", read: list[ImportedJudgement], notes: list[str]
) -> list[ImportedJudgement]:
    """Convert judgements of documents with several passages to judgements of passages, see `load`."""
    named = sorted({one.document for one in read if one.passage is None})
    sizes: dict[str, int] = {}
    with record.reading() as (connection, row):
        for begin in range(0, len(named), _TOGETHER):
            there = passages.numbers_by_id(connection, row.id, named[begin : begin + _TOGETHER])
            sizes |= {document: len(numbers) for document, numbers in there.items() if len(numbers) > 1}
    whole = [one for one in read if one.passage is None and one.document in sizes]
    if not whole:
        return read
    answering: dict[str, list[str]] = {}
    for one in whole:
        if one.relevant:
            answering.setdefault(one.query, []).append(one.document)
    first: dict[tuple[str, str], int] = {}
    for query, documents in answering.items():
        for begin in range(0, len(documents), _TOGETHER):
            some = documents[begin : begin + _TOGETHER]
            hits = search([query], len(some), where={"id": {"in": some}}, by_document=True)[0]
            first |= {(query, hit.id): hit.passage for hit in hits}
    by_passage: list[ImportedJudgement] = []
    for one in read:
        if one.passage is not None or one.document not in sizes:
            by_passage.append(one)
        elif one.relevant:
            by_passage.append(replace(one, passage=first.get((one.query, one.document))))
        else:
            by_passage += (replace(one, passage=place) for place in range(sizes[one.document]))
    notes.append(
        f"{counted(len(whole), 'judgement')} of documents with several passages: if relevant, applied to the "
        "passage that a search for the query ranks first, otherwise to all passages"
    )
    return by_passage


class Judgements:
    """The judgements of a collection. Get them with `Collection.judgements`.

    Thread-safe. Any number of people can judge at once, and while documents are added: each judgement is one
    short transaction, and the last one on a query and passage stays. Judging does not take the collection's
    writer lock, because a judgement refers to its document by id and stores the judged text, so changes of
    the collection cannot invalidate it.
    """

    def __init__(self, record: CollectionRecord, search: "Search", searches: SearchLog) -> None:
        """search: searches several queries in the collection; searches: the search log"""
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
        """Store whether a passage is relevant to a query, replacing an earlier judgement.

        query:    stored without surrounding white space
        found:    the hit, whose shown text is judged, or a document's id
        relevant: None = undecided; listed by `unsure`, and not used for training
        rater, note: who judged it, and a comment
        passage:  0-based position in the document; None = the hit's, or the document's only one
        rank, score, mode: how it was found; None = as in the hit, unknown for an id

        Raises UnknownDocumentError for a document that does not exist, and BadInputError for a passage that
        the document does not have, or if it has several and none is given.
        """
        words = plain_query(query)
        judged = Judged.of(found, passage, rank, score, mode)
        rater, note = stored(rater or "", "the rater") or None, stored(note or "", "the note") or None
        row = self._record.row()
        try:
            with self._database.writing() as connection:
                self._record.require(connection, row)
                passage_ = self._passage(connection, row, judged)
                live = generations.live(connection, row.id) if judged.lineage is None else None
                judgement = _judgement(words, judged, *passage_, live, relevant=bool(relevant))
                judgement = replace(judgement, unsure=relevant is None, rater=rater, note=note)
                judgements.put(connection, row.id, judgement)
        except IntegrityError:
            self._record.row()  # raises if the collection was deleted meanwhile
            raise
        return judgement

    def remove(self, query: str, found: Hit | str, passage: int | None = None) -> int:
        """Delete the judgements of a query and a passage, or all passages of a document; returns how many.

        The document need not exist.
        """
        words = plain_query(query)
        judged = Judged.of(found, passage, None, None, None)
        row = self._record.row()
        with self._database.writing() as connection:
            return judgements.take_back(connection, row.id, words, judged.document, judged.passage)

    def clear(self) -> int:
        """Delete all judgements of the collection; returns how many."""
        row = self._record.row()
        with self._database.writing() as connection:
            return judgements.forget(connection, row.id)

    def list(
        self, query: str | None = None, document: str | None = None, *, relevant: bool | None = None
    ) -> tuple[Judgement, ...]:
        """The judgements of a query, of a document's id, or all, in the order in which they were first made.

        relevant: only those that are relevant (True) or not (False); None = both
        """
        words = None if query is None else plain_query(query)
        with self._record.reading() as (connection, row):
            return tuple(judgements.listed(connection, row.id, words, document, relevant=relevant))

    def unsure(self) -> tuple[Judgement, ...]:
        """The undecided judgements."""
        with self._record.reading() as (connection, row):
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
        """Compare two ways of searching with as few judgements as possible.

        first, second: a mode, rrf, generation=2, or several separated by commas: dense,generation=2
        queries:       None = the judged queries. Of more than 1,000 a fixed sample is used: `queries` of the
            result
        level:         confidence level of the difference's interval, valid at any number of looks
        margin:        a difference of DCG@10 that does not matter

        `next` of the result is the passage to judge, `difference` the current estimate. Raises BadInputError
        for invalid ways, and without queries.
        """
        from nearsay.indexer.judgements.judging import JudgedComparison, SearchWay

        texts = [one.query for one in self.queries()] if queries is None else queries
        ways = SearchWay.parse(first), SearchWay.parse(second)
        return JudgedComparison(self, self._search, self._said_of, texts, *ways, level=level, margin=margin)

    def load(self, source: str | Path, queries: str | Path | None = None) -> JudgementImport:
        """Import judgements from a file or folder in one transaction; see `read_judgements`.

        Existing judgements of the same query and passage are replaced. Judgements of missing documents, and
        of passages whose text differs from the file's, are left out and counted. A judgement of a document
        with several passages becomes one of the passage that a search for the query ranks first among them,
        if it is relevant (MaxP of Dai & Callan 2019), and otherwise one of each passage. Raises BadInputError
        for unreadable input, and errors of the searches.
        """
        notes: list[str] = []
        found = read_judgements(Path(source), None if queries is None else Path(queries), notes)
        read = [
            replace(one, query=plain_query(one.query), document=stored(one.document, "a document's id"))
            for one in found
        ]
        read = _by_passage(self._record, self._search, read, notes)
        row, lost, taken = self._record.row(), Counter[str](), 0
        imported: set[str] = set()
        with self._database.writing() as connection:
            self._record.require(connection, row)
            collections.fence(connection, row.id)  # two imports in different orders would deadlock
            live = generations.live(connection, row.id)
            for begin in range(0, len(read), _TOGETHER):
                there = _found(connection, row.id, read[begin : begin + _TOGETHER], lost)
                made = [
                    replace(
                        _judgement(one.query, judged, *passage, live, relevant=bool(one.relevant)),
                        unsure=one.relevant is None,
                        rater=one.rater,
                        note=one.note,
                    )
                    for one, judged, passage in there
                ]
                if made:
                    judgements.put(connection, row.id, *made)
                taken += len(made)
                imported.update(one.query for one in made)
        notes += [f"left out: {counted(count, 'judgement')} {why}" for why, count in lost.items()]
        return JudgementImport(taken, len(imported), tuple(notes))

    def of(self, query: str) -> dict[tuple[str, int], bool]:
        """The judgements of a query, by document id and passage position: whether each is relevant.

        Judgements of passages that were changed or removed since are omitted.
        """
        current = [one for one in self.list(query) if one.state is JudgementState.CURRENT]
        return {(one.document, one.passage): one.relevant for one in current}

    def _said_of(self, texts: Mapping[Pair, str]) -> dict[Pair, bool]:
        """The judgements of pairs of a query and a passage with these text hashes."""
        with self._record.reading() as (connection, row):
            said = judgements.said_of(connection, row.id, set(texts.values()))
        return {pair: relevant for pair, text, relevant in said if texts.get(pair) == text}

    def queries(self) -> Sequence[JudgedQuery]:
        """The judged queries, in the order of their first judgements."""
        with self._record.reading() as (connection, row):
            return judgements.queries(connection, row.id)

    def counts(self) -> JudgementCounts:
        """The number of judgements, and of those whose passage was changed or removed since."""
        with self._record.reading() as (connection, row):
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
        """Write judgements for evaluation, for training, or complete; atomically.

        out:         a new folder for `evaluation`, a .csv file for `csv`, a .jsonl file for other forms
        form:        see `ExportForm`; csv and lines include undecided judgements
        part:        `train`, `test` or `all` queries; None = `train` for training forms (training, triplets,
                     labelled, pairs), else all
        judged_only: the evaluation's corpus is only the judged passages instead of the whole collection:
                     faster, with higher scores
        progress:    called with the number of passages written; an exception from it stops the export, which
                     then leaves nothing

        Raises BadInputError if no judgement fits that form.
        """
        return export_judgements(
            self._record,
            self.list(),
            self.unsure(),
            Path(out),
            form,
            part=part,
            judged_only=judged_only,
            listener=progress,
        )

    def _passage(self, connection: sa.Connection, row: CollectionRow, judged: Judged) -> tuple[int, str, str]:
        """The position, title and text of the judged passage.

        A hit that was searched with selected fields may lack its title or text; these are read if the rest is
        unchanged.
        """
        there = passages.numbers_by_id(connection, row.id, [judged.document])
        numbers = there.get(judged.document)
        if not numbers:  # every existing document has a passage
            raise UnknownDocumentError.of(row.name, judged.document)
        if judged.passage is not None and judged.seen is not None:
            there_now = self._standing(connection, row, numbers, judged.passage)
            carried = there_now is not None and all(
                shown in ("", standing) for shown, standing in zip(judged.seen, there_now, strict=True)
            )
            return judged.passage, *(there_now if there_now is not None and carried else judged.seen)
        if judged.passage is None and len(numbers) != 1:
            raise BadInputError(
                f"document '{judged.document}' has {len(numbers)} passages. Give the judged one, from 0"
            )
        place = judged.passage or 0
        if place >= len(numbers):
            raise BadInputError(
                f"document '{judged.document}' has no passage {place}. Its {len(numbers)} passages are "
                "numbered from 0"
            )
        found = self._standing(connection, row, numbers, place)
        if found is None:  # removed meanwhile
            raise UnknownDocumentError.of(row.name, judged.document)
        return place, *found

    @staticmethod
    def _standing(
        connection: sa.Connection, row: CollectionRow, numbers: Sequence[int], place: int
    ) -> tuple[str, str] | None:
        """The title and text of the passage at a position of its document; None if there is none."""
        some = numbers[place : place + 1]
        found = next(iter(passages.read_passages(connection, row.id, some).values()), None)
        return None if found is None else (found.title, found.text)
