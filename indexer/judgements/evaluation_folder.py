"""Judgements as a folder to measure retrieval on, in the layout that `read_retrieval_set` reads."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from nearsay.data.durable import new_folder
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.judgement import Judgement
from nearsay.indexer.catalogue.judgements import query_hash
from nearsay.indexer.catalogue.passage import encoded_text
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.query.export import write_lines
from nearsay.indexer.vectors.progress import Progress, ProgressListener

__all__ = ["WrittenEvaluation", "passage_id", "write_evaluation"]

_PAGE = 1000
_QUERY_ID = 16  # hexadecimal digits
_UNSAFE = re.compile(r"[%\s\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class WrittenEvaluation:
    """What an evaluation folder holds."""

    judgements: int
    queries: int
    passages: int
    notes: tuple[str, ...]  # plain sentences: what was left out and why


def passage_id(document: str, passage: int) -> str:
    """A passage's id in the folder: its document's, # and its place.

    White space and what a table cannot hold is percent-encoded, as is the percent sign.
    """
    return f"{_UNSAFE.sub(lambda found: quote(found[0], safe=''), document)}#{passage}"


def write_evaluation(
    record: CollectionRecord,
    judgements: Sequence[Judgement],
    out: Path,
    *,
    judged_only: bool,
    listener: ProgressListener,
) -> WrittenEvaluation:
    """Write corpus.jsonl, queries.jsonl and qrels/test.tsv, in BEIR's layout; all of it or nothing.

    The corpus is each passage of the collection as it is now, or each judged one with `judged_only`. A
    judgement counts while its passage stands there as it was judged: one that was changed or removed since
    is left out, and so is a query of which no relevant passage is left. Passages that nobody judged count as
    not relevant. BadInputError if nothing is left.
    """
    row = record.row()
    places = {(one.document, one.passage) for one in judgements}
    found: Iterable[PassageRow] = (
        _judged_passages(record, row.id, places) if judged_only else _all_passages(record, row.id, listener)
    )
    standing: dict[tuple[str, int], str] = {}  # what stands now at each judged place
    with new_folder(out) as folder:
        written = _write(folder / "corpus.jsonl", _corpus(found, places, standing))
        there = [one for one in judgements if standing.get((one.document, one.passage)) == one.encoded]
        answered = {one.query for one in there if one.relevant}
        if not answered:
            raise BadInputError(
                f"no passage that was judged relevant stands in '{record.name}' as it was judged, so there "
                "is nothing to measure. Judge some that answer a query"
            )
        kept = [one for one in there if one.query in answered]
        queries = dict.fromkeys(one.query for one in kept)
        _write(folder / "queries.jsonl", ({"_id": _query_id(query), "text": query} for query in queries))
        (folder / "qrels").mkdir()
        with (folder / "qrels" / "test.tsv").open("wb") as stream:
            stream.write(b"query-id\tcorpus-id\tscore\n")
            for one in kept:
                cells = _query_id(one.query), passage_id(one.document, one.passage), str(int(one.relevant))
                stream.write("\t".join(cells).encode() + b"\n")
    notes = []
    if len(there) < len(judgements):
        gone = len(judgements) - len(there)
        notes.append(f"{gone:,} judgements are of passages that were changed or removed since: left out")
    asked = {one.query for one in judgements}
    if len(queries) < len(asked):
        lost = len(asked) - len(queries)
        notes.append(f"{lost:,} of {len(asked):,} queries have no relevant passage there and are left out")
    return WrittenEvaluation(len(kept), len(queries), written, tuple(notes))


def _corpus(
    found: Iterable[PassageRow], places: set[tuple[str, int]], standing: dict[tuple[str, int], str]
) -> Iterator[dict[str, str]]:
    """The corpus's rows; what stands at the judged places is entered into `standing` as they go by."""
    for row in found:
        place = row.document_id, row.ordinal
        text = encoded_text(row.title, row.text)
        if text.strip():  # nothing can be said of a passage without text, and nothing measured on it
            if place in places:
                standing[place] = text
            yield {"_id": passage_id(*place), "title": row.title, "text": row.text}


def _all_passages(
    record: CollectionRecord, collection_id: int, listener: ProgressListener
) -> Iterator[PassageRow]:
    """The passages that are there at this moment, a page at a time; what goes meanwhile is passed over."""
    database = record.store.database
    with database.reading() as connection:
        numbers = passages.passage_numbers(connection, collection_id).tolist()
    for begin in range(0, len(numbers), _PAGE):
        some = numbers[begin : begin + _PAGE]
        with database.reading() as connection:
            rows = passages.read_passages(connection, collection_id, some)
        yield from (rows[number] for number in some if number in rows)
        listener(Progress(begin + len(some), len(numbers)))


def _judged_passages(
    record: CollectionRecord, collection_id: int, places: set[tuple[str, int]]
) -> list[PassageRow]:
    """Those of the judged passages that are there, in the order of their documents' ids."""
    found: list[PassageRow] = []
    with record.store.database.reading() as connection:
        for document, of_it in groupby(sorted(places), key=lambda place: place[0]):
            there = passages.passage_numbers_of(connection, collection_id, document) or []
            numbers = [there[place] for _, place in of_it if place < len(there)]
            rows = passages.read_passages(connection, collection_id, numbers)
            found += [rows[number] for number in numbers if number in rows]
    return found


def _query_id(query: str) -> str:
    return query_hash(query)[:_QUERY_ID]


def _write(path: Path, rows: Iterable[dict[str, str]]) -> int:
    with path.open("wb") as stream:
        return write_lines(iter(rows), stream)
