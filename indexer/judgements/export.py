"""Export judgements in the formats that training and evaluation read."""

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
    """Export formats."""

    EVALUATION = "evaluation"  # a folder for `nearsay evaluate retrieval`: corpus, queries, judgements
    TRAINING = "training"  # for `nearsay train sentence`: the first possible of the next three
    TRIPLETS = "triplets"  # query, relevant passage, other passage; for queries that have both
    LABELLED = "labelled"  # query, passage, 1 or 0; for every judgement
    PAIRS = "pairs"  # query, relevant passage
    CSV = "csv"  # a table with a row for each judgement, readable by `load`
    LINES = "lines"  # JSON lines with all fields of each judgement


@dataclass(frozen=True, slots=True)
class JudgementExport:
    """The result of an export."""

    out: str
    form: ExportForm  # for TRAINING, the chosen one
    rows: int  # of the file; for an evaluation, judgements
    queries: int  # with rows in the file
    passages: int | None  # in the corpus of an evaluation; None for other forms
    notes: tuple[str, ...]  # what was left out and why


def passage_id(document: str, passage: int) -> str:
    """A passage's id in the exported folder: its document's id, # and its ordinal.

    White space, control characters and the percent sign are percent-encoded.
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
    """Write corpus.jsonl, queries.jsonl and qrels/test.tsv, in BEIR's layout, atomically.

    The corpus is all passages of the collection, or the judged ones with `judged_only`. Judgements of
    passages that were changed or removed since are left out, and so are queries without a remaining relevant
    passage. Unjudged passages count as not relevant. Raises BadInputError if nothing is left.
    """
    row = record.row()
    places = {(one.document, one.passage) for one in judgements}
    found: Iterable[PassageRow] = (
        _judged_passages(record, row.id, places) if judged_only else _all_passages(record, row.id, listener)
    )
    standing: dict[tuple[str, int], str] = {}  # current texts of judged passages
    with new_folder(out) as folder:
        written = _write(folder / "corpus.jsonl", _corpus(found, places, standing))
        there = [one for one in judgements if standing.get((one.document, one.passage)) == one.encoded]
        answered = {one.query for one in there if one.relevant}
        if not answered:
            raise BadInputError(
                f"no passage in '{record.name}' that was judged relevant is unchanged, so there is nothing "
                "to measure. Judge relevant passages of some queries"
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
        stale = len(judgements) - len(there)
        notes.append(f"left out: {counted(stale, 'judgement')} of passages changed or removed since")
    judged = {one.query for one in judgements}
    if len(queries) < len(judged):
        lost = len(judged) - len(queries)
        notes.append(f"left out: {lost:,} of {len(judged):,} queries, which have no relevant passage")
    return JudgementExport(str(out), ExportForm.EVALUATION, len(kept), len(queries), written, tuple(notes))


def _corpus(
    found: Iterable[PassageRow], places: set[tuple[str, int]], standing: dict[tuple[str, int], str]
) -> Iterator[dict[str, str]]:
    """The corpus's rows; fills `standing` with the current texts of judged passages."""
    for row in found:
        place = row.document_id, row.ordinal
        text = encoded_text(row.title, row.text)
        if text.strip():  # passages without text are not searched
            if place in places:
                standing[place] = text
            yield {"_id": passage_id(*place), "title": row.title, "text": row.text}


def _all_passages(
    record: CollectionRecord, collection_id: int, listener: ProgressListener
) -> Iterator[PassageRow]:
    """The collection's passages, in pages; those removed meanwhile are skipped."""
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
    """The existing judged passages, sorted by their documents' ids."""
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
    queries: int  # with rows
    notes: tuple[str, ...]  # what was left out and why


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """The distinct judged texts of a query."""

    query: str
    relevant: list[str]
    not_relevant: list[str]


def training_rows(judgements: Sequence[Judgement], kind: ExportForm | None = None) -> TrainingRows:
    """Convert judgements, sorted by query, to training rows.

    kind: triplets, labelled or pairs; None = triplets if a query has both relevant and other passages, else
          labelled if there are both at all, else pairs

    Triplets pair the relevant with the other passages of a query, cycling through the shorter list. Texts are
    those that were judged, with titles, whether or not their documents have changed. Texts that differ only
    in case, punctuation and spaces count as one; texts with contradictory judgements for a query are left
    out. Raises BadInputError if there are no rows.
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
        raise BadInputError(_no_rows(taken))
    notes = []
    if disputed:
        notes.append(f"left out: {counted(disputed, 'text')} with contradictory judgements for a query")
    if queries < len(verdicts):
        notes.append(f"{len(verdicts) - queries:,} of {len(verdicts):,} queries have {_lacking(taken)}")
    return TrainingRows(taken, rows, queries, tuple(notes))


def _verdicts(query: str, judgements: Iterator[Judgement]) -> tuple[_Verdicts, int]:
    """The texts of a query, and the number of texts with contradictory judgements."""
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
        ExportForm.TRIPLETS: "no relevant passage, or no other one; use labelled to include them",
        ExportForm.LABELLED: "no text left",
        ExportForm.PAIRS: "no relevant passage; use labelled to include them",
    }
    return lacking[kind]


def _no_rows(kind: ExportForm) -> str:
    if kind is ExportForm.TRIPLETS:
        return "no query has both a relevant and a not relevant passage. Judge both, or choose pairs"
    return "no passage was judged relevant, so there is nothing to train on. Judge relevant passages"


_COLUMNS: Final = ("query", "document", "passage", "relevant", "title", "text", "rater", "note", "created_at")
_ALL: Final = "all"  # both parts


_TRAINING_FORMS: Final = frozenset(
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
    """Export a collection's judgements; see `Judgements.export`.

    unsure: judgements that are undecided, which are exported to CSV and JSON lines only
    """
    chosen_form = chosen(ExportForm, form, "form")
    if chosen_form in (ExportForm.CSV, ExportForm.LINES):
        judgements = [*judgements, *unsure]
    chosen_part = None if part in (None, _ALL) else chosen(Part, str(part), "part", _ALL)
    if part is None and chosen_form in _TRAINING_FORMS:
        chosen_part = Part.TRAIN
    if judged_only and chosen_form is not ExportForm.EVALUATION:
        raise BadInputError(f"judged_only applies to evaluation, not to {chosen_form}. Omit it")
    _check_place(out, chosen_form)
    wanted = sorted(in_part(judgements, chosen_part), key=lambda one: (one.query, one.document, one.passage))
    if not wanted:
        raise _no_judgements(record.name, judgements, chosen_part)
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
        notes.append("it includes test queries: an encoder trained on them cannot be measured on them")
    elif part is None and len(wanted) < len(judgements):
        others = len({one.query for one in judgements} - {one.query for one in wanted})
        notes.append(
            f"left out: {counted(others, 'query', 'queries')} of the test part, for the evaluation: choose "
            "the part test there"
        )
    return JudgementExport(str(out), found.kind, len(found.rows), found.queries, None, tuple(notes))


def _check_place(out: Path, form: ExportForm) -> None:
    if form is ExportForm.EVALUATION:
        if out.exists():
            raise BadInputError(f"{out} exists already. Give a new folder, or remove it")
    elif form is ExportForm.CSV:
        if out.suffix.lower() != ".csv":
            raise BadInputError(f"{out} does not end with .csv. Give a file that does")
    elif out.suffix.lower() != ".jsonl":
        raise BadInputError(f"{out} does not end with .jsonl. Give a file that does")


def _no_judgements(name: str, judgements: Sequence[Judgement], part: Part | None) -> BadInputError:
    if judgements:
        return BadInputError(
            f"none of the {len({one.query for one in judgements})} judged queries of '{name}' is in the "
            f"part {part}. Judge more queries, or choose the part {_ALL}"
        )
    return BadInputError(
        f"'{name}' has no judgements. Add one: nearsay judgements add {name} QUERY --id ID --relevant"
    )
