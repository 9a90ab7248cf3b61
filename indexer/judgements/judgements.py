"""What people said of a collection's search results: `collection.judgements`."""

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
_DIGITS: Final = 18  # of a number: Python refuses texts of more than 4,300
_SHOWN: Final = 60  # characters of what cannot be read


@dataclass(frozen=True, slots=True)
class ImportedJudgement:
    """A judgement as a file has it."""

    query: str
    document: str  # its id
    passage: int | None  # 0-based place; None: all of the document
    relevant: bool | None  # None: whoever judged could not say
    rater: str | None = None
    note: str | None = None
    text: str | None = None  # of the passage, as it was judged; None: the file does not say


@dataclass(frozen=True, slots=True)
class JudgementImport:
    """What was taken over."""

    judgements: int
    queries: int  # that they are of
    notes: tuple[str, ...]  # plain sentences: what was left out and why


def read_judgements(source: Path, queries: Path | None, notes: list[str]) -> Iterator[ImportedJudgement]:
    """Read the judgements of a file or a folder.

    source:  a folder in BEIR's layout; a table (.csv, .tsv, .jsonl, .parquet) with the columns query,
             document (or id), relevant, and perhaps passage, its text, rater and note, or with BEIR's columns
             query-id, corpus-id and score; anything else is TREC's qrels, of which a line holds a query's
             number, a column that nobody reads, a document's id and its relevance
    queries: of qrels the queries' texts: a table with the columns _id (or id) and text (or query)
    notes:   gets what a folder has that cannot be used

    A document's id that ends with # and a number names that passage, as `judgements export` writes it, where
    the collection has no document of the whole id; an id alone is all of a document. A relevance above 0 is
    relevant. BadInputError for what cannot be read, by line.
    """
    if source.is_dir():
        found = read_retrieval_set(source)
        notes += found.notes
        for query, of_it in found.judgements.items():
            for document, relevance in of_it.items():
                yield ImportedJudgement(found.queries[query], document, None, relevance > 0)
        return
    if not source.is_file():
        raise BadInputError(f"{source} is not there. Name a file or folder of judgements")
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
                    f"{place}: '{number[:_SHOWN]}' is a query's number. Add a table of their "
                    "texts (queries), with the columns _id and text"
                )
            if not texts.get(number):
                raise BadInputError(f"{place}: {queries.name} has no query '{number[:_SHOWN]}'")
            cells["query"] = texts[number]
        yield _of_row(place, cells)


def _trec_rows(source: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The lines of TREC's qrels as rows of BEIR's."""
    for line, text in file_lines(source):
        cells = text.split()
        if not cells:
            continue
        if len(cells) != _TREC_COLUMNS or _whole(cells[3]) is None:
            raise BadInputError(
                f"{source.name}, line {line}: '{text[:_SHOWN]}' is not: query 0 document relevance"
            )
        yield line, {"query-id": cells[0], "corpus-id": cells[2], "score": cells[3]}


def _of_row(place: str, row: Mapping[str, object]) -> ImportedJudgement:
    query, document = _cell(row, "query"), _cell(row, "document", "id", "corpus-id")
    said = _cell(row, "relevant" if "relevant" in row else "score")  # beside a verdict the score is the hit's
    given = _cell(row, "passage")
    passage = _whole(given)
    if not query or not document:
        raise BadInputError(f"{place}: a query and a document are needed, in columns of these names")
    if given and (passage is None or passage < 0):
        raise BadInputError(f"{place}: '{given[:_SHOWN]}' is no passage. They are numbered from 0")
    if not {"relevant", "score"} & row.keys() and _cell(row, "unsure").lower() != "true":
        raise BadInputError(
            f"{place}: there is no column 'relevant'. Call the one that says 1 or 0 so; there are "
            f"{', '.join(map(repr, row))}"
        )
    word = said.strip().lower()
    relevance = _whole(word)
    if word not in _YES | _NO and relevance is None and word not in ("", "unsure"):
        raise BadInputError(
            f"{place}: relevant is '{said[:_SHOWN]}'. Write 1 or 0, or nothing where nobody can say"
        )
    unsure = word in ("", "unsure") or _cell(row, "unsure").lower() == "true"
    relevant = None if unsure else word in _YES or (relevance or 0) > 0
    rater, note = (stored(_cell(row, name), f"{place}: the {name}") for name in ("rater", "note"))
    text = None if passage is None else _cell(row, "text") or None
    return ImportedJudgement(query, document, passage, relevant, rater or None, note or None, text)


def _cell(row: Mapping[str, object], *names: str) -> str:
    """The first of these columns that there is, as text; "" without any."""
    for name in names:
        value = row.get(name)
        if isinstance(value, float) and value.is_integer():  # where a cell of the column is missing
            return str(int(value))
        if value is not None:
            return str(value)
    return ""


def _whole(text: str) -> int | None:
    """The whole number that a text is, as 1 or 1.0; None for any other, and for more than 18 digits."""
    text = text.removesuffix(".0")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) <= _DIGITS else None


_TOGETHER: Final = 2_000  # judgements of a file whose documents are looked up in a few statements


def _found(
    connection: sa.Connection, collection_id: int, read: Sequence[ImportedJudgement], lost: Counter[str]
) -> list[tuple[ImportedJudgement, Judged, tuple[int, str, str]]]:
    """Those whose passage is there, with its place, title and text; the others are counted in `lost`."""
    named = [(one.document, one.passage) for one in read]
    within = [_within(*each) for each in named]  # as a passage's name says, where no document has all of it
    ids = {id_ for id_, _ in named} | {each[0] for each in within if each is not None}
    known = passages.numbers_by_id(connection, collection_id, sorted(ids))
    placed: list[tuple[ImportedJudgement, Judged, int]] = []
    for one, (document, passage), inside in zip(read, named, within, strict=True):
        if document not in known and inside is not None:
            document, passage = inside  # noqa: PLW2901
        there = known.get(document, ())
        if not there:
            lost["of documents that are not there"] += 1
        elif passage is None and len(there) > 1:
            lost["of whole documents of whose passages a search for the query finds none"] += 1
        elif (passage or 0) >= len(there):
            lost["of passages that their document has not got"] += 1
        else:
            judged = Judged.of(document, passage, None, None, None)
            placed.append((one, judged, there[passage or 0]))
    rows = passages.read_passages(connection, collection_id, [number for *_, number in placed])
    found = []
    for one, judged, number in placed:
        if number not in rows:
            continue
        if one.text is not None and normalised_text(one.text) != normalised_text(rows[number].text):
            lost["of passages that say something else now"] += 1
        else:
            found.append((one, judged, (judged.passage or 0, rows[number].title, rows[number].text)))
    return found


def _within(document: str, passage: int | None) -> tuple[str, int] | None:
    """The document and the place that a passage's id says, see `passage_id`; None where it says none."""
    base, hash_, place = document.rpartition("#")
    number = _whole(place) if hash_ and passage is None else None
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
    """A judgement of a passage as it stands; live: the generation that answers, if no hit says which did."""
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
    """Judgements of whole documents of several passages as judgements of passages, see `load`."""
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
        f"{counted(len(whole), 'judgement')} of documents of several passages: the one that answers is the "
        "one that a search for the query ranks first; where a document does not answer, none of them does"
    )
    return by_passage


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
        with self._record.reading() as (connection, row):
            return tuple(judgements.listed(connection, row.id, words, document, relevant=relevant))

    def unsure(self) -> tuple[Judgement, ...]:
        """The passages of which somebody looked and could not say whether they answer."""
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
        """Compare two ways of searching by as few judgements as decide which is better.

        first, second: a mode, rrf, generation=2, or several with commas: dense,generation=2
        queries:       to compare by; None = those that were judged so far. Of more than 1,000, that many are
                       taken, which their words choose: `queries` of what comes back
        level:         with that chance the interval of the difference is right, however often one looks
        margin:        a difference of DCG@10 that does not matter

        `next` of what comes back is the passage to judge, `difference` what is known. BadInputError for ways
        that are none, and without queries.
        """
        from nearsay.indexer.judgements.judging import JudgedComparison, SearchWay

        asked = [one.query for one in self.queries()] if queries is None else queries
        ways = SearchWay.parse(first), SearchWay.parse(second)
        return JudgedComparison(self, self._search, self._said_of, asked, *ways, level=level, margin=margin)

    def load(self, source: str | Path, queries: str | Path | None = None) -> JudgementImport:
        """Take over judgements from a file or folder, all or none; see `read_judgements`.

        What was said before of the same query and passage is replaced. Judgements of documents that are not
        there, and of passages that say something else than the file's text of them, are left out and counted.
        A judgement of a whole document of several passages becomes one of the passage that a search for the
        query ranks first among them, if the document answers (MaxP of Dai & Callan 2019), and one of each
        passage, if it does not.
        BadInputError for what cannot be read; for whole documents whatever a search raises.
        """
        notes: list[str] = []
        found = read_judgements(Path(source), None if queries is None else Path(queries), notes)
        read = [
            replace(one, query=plain_query(one.query), document=stored(one.document, "a document's id"))
            for one in found
        ]
        read = _by_passage(self._record, self._search, read, notes)
        row, lost, taken = self._record.row(), Counter[str](), 0
        asked: set[str] = set()
        with self._database.writing() as connection:
            self._record.require(connection, row)
            collections.fence(connection, row.id)  # two files' rows in different orders would lock each other
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
                asked.update(one.query for one in made)
        notes += [f"{counted(count, 'judgement')} {why}: left out" for why, count in lost.items()]
        return JudgementImport(taken, len(asked), tuple(notes))

    def of(self, query: str) -> dict[tuple[str, int], bool]:
        """What was said for a query of each passage, by its document's id and its place: whether it answers.

        Passages that were changed or removed since have no word here: nobody judged what stands there now.
        """
        current = [one for one in self.list(query) if one.state is JudgementState.CURRENT]
        return {(one.document, one.passage): one.relevant for one in current}

    def _said_of(self, texts: Mapping[Pair, str]) -> dict[Pair, bool]:
        """What was said of pairs of a query and a passage with these texts, of each its hash."""
        with self._record.reading() as (connection, row):
            said = judgements.said_of(connection, row.id, set(texts.values()))
        return {pair: relevant for pair, text, relevant in said if texts.get(pair) == text}

    def queries(self) -> Sequence[JudgedQuery]:
        """The queries that passages were judged for, in the order in which that began."""
        with self._record.reading() as (connection, row):
            return judgements.queries(connection, row.id)

    def counts(self) -> JudgementCounts:
        """How many judgements there are, and of how many the passage is no longer there as it was judged."""
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
        """Write judgements for evaluation, for training, or as they are; whole or not at all.

        out:         a folder that is not there yet for `evaluation`, a .jsonl file for everything else
        form:        see `ExportForm`; csv and lines have those of which nobody could say, too
        part:        `train` or `test`, to learn from some queries and measure on the others, or `all`; None =
                     `train` for what is learned from (training, triplets, labelled, pairs), else all
        judged_only: an evaluation searches the judged passages alone instead of the whole collection: quick,
                     and its figures are higher
        progress:    hears of passages written; what it raises ends the work and leaves nothing

        BadInputError where the judgements make nothing of that form.
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
        """The place, title and text of what is judged.

        A hit that was asked for with some fields alone lacks its title or text: where the rest still stands
        there, they are read.
        """
        there = passages.numbers_by_id(connection, row.id, [judged.document])
        numbers = there.get(judged.document)
        if not numbers:  # every document has a passage: one without is being removed
            raise UnknownDocumentError.of(row.name, judged.document)
        if judged.passage is not None and judged.seen is not None:
            there_now = self._standing(connection, row, numbers, judged.passage)
            carried = there_now is not None and all(
                shown in ("", standing) for shown, standing in zip(judged.seen, there_now, strict=True)
            )
            return judged.passage, *(there_now if there_now is not None and carried else judged.seen)
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
        found = self._standing(connection, row, numbers, place)
        if found is None:  # removed between the two questions
            raise UnknownDocumentError.of(row.name, judged.document)
        return place, *found

    @staticmethod
    def _standing(
        connection: sa.Connection, row: CollectionRow, numbers: Sequence[int], place: int
    ) -> tuple[str, str] | None:
        """The title and text of the passage that stands at a place of its document; None for none."""
        some = numbers[place : place + 1]
        found = next(iter(passages.read_passages(connection, row.id, some).values()), None)
        return None if found is None else (found.title, found.text)
