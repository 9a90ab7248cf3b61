"""Judgements written out, in the form that training or evaluation reads."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from nearsay.data.durable import new_folder
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.judgements import Judgement, Part, in_part, query_hash
from nearsay.indexer.catalogue.passages import PassageRow, encoded_text
from nearsay.indexer.query.export import write_csv, write_lines
from nearsay.indexer.vectors.errors import chosen
from nearsay.indexer.vectors.progress import Progress, ProgressListener

_PAGE = 1000
_QUERY_ID = 16  # hexadecimal digits
_UNSAFE = re.compile(r"[%\s\x00-\x1f\x7f-\x9f]+")


class ExportForm(StrEnum):
    """What is written, and what reads it."""

    EVALUATION = "evaluation"  # a folder for `nearsay evaluate retrieval`: corpus, queries, judgements
    TRAINING = "training"  # for `nearsay train sentence`: the first of the next three that there is any of
    TRIPLETS = "triplets"  # query, relevant passage, not relevant one: of queries that have both
    LABELLED = "labelled"  # query, passage, 1 or 0: every judgement
    PAIRS = "pairs"  # query, relevant passage
    CSV = "csv"  # a table with a row a judgement, which `load` reads back
    LINES = "lines"  # JSON lines with everything that is known of each judgement


@dataclass(frozen=True, slots=True)
class JudgementExport:
    """What was written."""

    out: str
    form: ExportForm  # for TRAINING the one that was taken
    rows: int  # of the file; of an evaluation the judgements
    queries: int  # that these rows are of
    passages: int | None  # that an evaluation searches; None in other forms
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
) -> JudgementExport:
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
        notes.append(f"{counted(gone, 'judgement')} of passages that were changed or removed since: left out")
    asked = {one.query for one in judgements}
    if len(queries) < len(asked):
        lost = len(asked) - len(queries)
        notes.append(f"{lost:,} of {len(asked):,} queries have no relevant passage there and are left out")
    return JudgementExport(str(out), ExportForm.EVALUATION, len(kept), len(queries), written, tuple(notes))


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
    ordered = sorted(places)
    with record.store.database.reading() as connection:
        for begin in range(0, len(ordered), _PAGE):
            some = ordered[begin : begin + _PAGE]
            there = passages.numbers_by_id(connection, collection_id, list({id_ for id_, _ in some}))
            numbers = [number for id_, at in some for number in there.get(id_, [])[at : at + 1]]
            rows = passages.read_passages(connection, collection_id, numbers)
            found += [rows[number] for number in numbers if number in rows]
    return found


def _query_id(query: str) -> str:
    return query_hash(query)[:_QUERY_ID]


def _write(path: Path, rows: Iterable[dict[str, str]]) -> int:
    with path.open("wb") as stream:
        return write_lines(iter(rows), stream)


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows of a training file."""

    kind: ExportForm  # triplets, labelled or pairs
    rows: list[dict[str, Any]]
    queries: int  # that they are of
    notes: tuple[str, ...]  # plain sentences: what was left out and why


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """The different texts that were judged for one query."""

    query: str
    relevant: list[str]
    not_relevant: list[str]


def training_rows(judgements: Sequence[Judgement], kind: ExportForm | None = None) -> TrainingRows:
    """The rows that judgements, sorted by query, make.

    kind: triplets, labelled or pairs; None = triplets if a query has both relevant and other passages, else
        labelled if there are both at all, else pairs

    Triplets put the relevant and the other passages of a query side by side, the fewer ones again and again
    until each was in a row, as they come of NLI's sentences. Passages are the texts that were judged, title
    first, whatever became of their documents. What differs in case, punctuation and spaces alone is one
    text; one that was judged both ways for a query is left out. BadInputError when there is no such row.
    """
    verdicts: list[_Verdicts] = []
    disputed = 0
    for query, of_it in groupby(judgements, key=lambda one: one.query):
        found, both = _verdicts(query, of_it)
        verdicts.append(found)
        disputed += both
    taken = kind or _best(verdicts)
    rows: list[dict[str, Any]] = []
    queries = 0
    for each in verdicts:
        made = list(_rows(each, taken))
        rows += made
        queries += bool(made)
    if not rows:
        raise BadInputError(_why_none(taken))
    notes = []
    if disputed:
        notes.append(f"{counted(disputed, 'text')} judged both ways for one query left out")
    if queries < len(verdicts):
        notes.append(f"{len(verdicts) - queries:,} of {len(verdicts):,} queries have {_lacking(taken)}")
    return TrainingRows(taken, rows, queries, tuple(notes))


def _verdicts(query: str, judgements: Iterator[Judgement]) -> tuple[_Verdicts, int]:
    """The texts of a query, and how many were judged both ways."""
    texts: dict[bool, dict[str, str]] = {True: {}, False: {}}
    for one in judgements:
        if one.encoded.strip():
            texts[one.relevant].setdefault(normalised_text(one.encoded), one.encoded)
    both = texts[True].keys() & texts[False].keys()
    relevant, others = (
        [text for key, text in texts[verdict].items() if key not in both] for verdict in (True, False)
    )
    return _Verdicts(query, relevant, others), len(both)


def _best(verdicts: Sequence[_Verdicts]) -> ExportForm:
    if any(each.relevant and each.not_relevant for each in verdicts):
        return ExportForm.TRIPLETS
    if any(each.relevant for each in verdicts) and any(each.not_relevant for each in verdicts):
        return ExportForm.LABELLED
    return ExportForm.PAIRS


def _rows(each: _Verdicts, kind: ExportForm) -> Iterator[dict[str, Any]]:
    if kind is ExportForm.PAIRS:
        yield from ({"query": each.query, "positive": text} for text in each.relevant)
    elif kind is ExportForm.LABELLED:
        for label, texts in ((1, each.relevant), (0, each.not_relevant)):
            yield from ({"query": each.query, "passage": text, "label": label} for text in texts)
    elif each.relevant and each.not_relevant:
        for number in range(max(len(each.relevant), len(each.not_relevant))):
            yield {
                "query": each.query,
                "positive": each.relevant[number % len(each.relevant)],
                "negative": each.not_relevant[number % len(each.not_relevant)],
            }


def _lacking(kind: ExportForm) -> str:
    lacking = {
        ExportForm.TRIPLETS: "no relevant passage or no other one beside it; labelled takes them, too",
        ExportForm.LABELLED: "no text left",
        ExportForm.PAIRS: "no relevant passage; labelled takes them, too",
    }
    return lacking[kind]


def _why_none(kind: ExportForm) -> str:
    if kind is ExportForm.TRIPLETS:
        return "no query has both a relevant and a not relevant passage. Judge both for some, or take pairs"
    return "no passage was judged relevant, so there is nothing to learn from. Judge some that answer"


_COLUMNS: Final = ("query", "document", "passage", "relevant", "title", "text", "rater", "note", "created_at")
_ALL: Final = "all"  # of both parts


_TO_LEARN_FROM: Final = frozenset(
    {ExportForm.TRAINING, ExportForm.TRIPLETS, ExportForm.LABELLED, ExportForm.PAIRS}
)


def export_judgements(
    record: CollectionRecord,
    judgements: Sequence[Judgement],
    unsure: Sequence[Judgement],
    out: Path,
    form: ExportForm | str,
    *,
    part: Part | str | None,
    judged_only: bool,
    listener: ProgressListener,
) -> JudgementExport:
    """Write judgements of a collection; see `Judgements.export`.

    unsure: those of which nobody could say, for what keeps every word
    """
    chosen_form = chosen(ExportForm, form, "form")
    if chosen_form in (ExportForm.CSV, ExportForm.LINES):
        judgements = [*judgements, *unsure]
    chosen_part = None if part in (None, _ALL) else chosen(Part, str(part), "part", _ALL)
    if part is None and chosen_form in _TO_LEARN_FROM:
        chosen_part = Part.TRAIN
    if judged_only and chosen_form is not ExportForm.EVALUATION:
        raise BadInputError(f"judged_only is for evaluation, not for {chosen_form}. Leave it out")
    _check_place(out, chosen_form)
    wanted = sorted(
        in_part(judgements, chosen_part), key=lambda one: (one.query, one.document, one.passage)
    )  # whatever the order they came in
    if not wanted:
        raise _nothing(record.name, judgements, chosen_part)
    if chosen_form is ExportForm.EVALUATION:
        return write_evaluation(record, wanted, out, judged_only=judged_only, listener=listener)
    queries = len({one.query for one in wanted})
    if chosen_form is ExportForm.CSV:
        rows = ({**one.to_json(), "relevant": "" if one.unsure else int(one.relevant)} for one in wanted)
        return JudgementExport(str(out), chosen_form, write_csv(rows, _COLUMNS, out), queries, None, ())
    if chosen_form is ExportForm.LINES:
        count = write_lines((one.to_json() for one in wanted), out)
        return JudgementExport(str(out), chosen_form, count, queries, None, ())
    kind = None if chosen_form is ExportForm.TRAINING else chosen_form
    found = training_rows(wanted, kind)
    write_lines(iter(found.rows), out)
    notes = list(found.notes)
    if in_part(wanted, Part.TEST):
        notes.append(
            "queries of the test part are in it: what learns from them cannot be measured on them any more"
        )
    elif part is None and len(wanted) < len(judgements):
        others = len({one.query for one in judgements} - {one.query for one in wanted})
        notes.append(
            f"{counted(others, 'query', 'queries')} of the test part left out, to measure on: take the part "
            "test for the evaluation"
        )
    return JudgementExport(str(out), found.kind, len(found.rows), found.queries, None, tuple(notes))


def _check_place(out: Path, form: ExportForm) -> None:
    if form is ExportForm.EVALUATION:
        if out.exists():
            raise BadInputError(f"{out} is there already. Name a folder that is not, or remove it")
    elif form is ExportForm.CSV:
        if out.suffix.lower() != ".csv":
            raise BadInputError(f"{out} does not end with .csv. Name a file that does")
    elif out.suffix.lower() != ".jsonl":
        raise BadInputError(
            f"{out} does not end with .jsonl, the kind of file that keeps tabs and line breaks. Name one"
        )


def _nothing(name: str, judgements: Sequence[Judgement], part: Part | None) -> BadInputError:
    if judgements:
        return BadInputError(
            f"none of the {len({one.query for one in judgements})} judged queries of '{name}' falls into the "
            f"part {part}. Judge more queries, or take the part {_ALL}"
        )
    return BadInputError(
        f"nothing was judged in '{name}'. Judge: nearsay judgements add {name} QUERY --id ID --relevant"
    )
