"""Judgements written out, in the form that training or evaluation reads."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.formulas import defused
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.judgement import Judgement
from nearsay.indexer.judgements.evaluation_folder import write_evaluation
from nearsay.indexer.judgements.part import Part, in_part
from nearsay.indexer.judgements.training_rows import TrainingKind, training_rows
from nearsay.indexer.query.export import write_lines
from nearsay.indexer.vectors.progress import ProgressListener

__all__ = ["ExportForm", "JudgementExport", "export_judgements"]

_COLUMNS: Final = ("query", "document", "passage", "relevant", "title", "text", "rater", "note", "created_at")
_ALL: Final = "all"  # of both parts
Choice = TypeVar("Choice", bound=StrEnum)


class ExportForm(StrEnum):
    """What is written, and what reads it."""

    EVALUATION = "evaluation"  # a folder for `nearsay evaluate retrieval`: corpus, queries, judgements
    TRAINING = "training"  # for `nearsay train sentence`: the first of the next three that there is any of
    TRIPLETS = "triplets"  # query, relevant passage, not relevant one: of queries that have both
    LABELLED = "labelled"  # query, passage, 1 or 0: every judgement
    PAIRS = "pairs"  # query, relevant passage
    CSV = "csv"  # a table with a row a judgement, which `load` reads back
    LINES = "lines"  # JSON lines with everything that is known of each judgement


_TO_LEARN_FROM: Final = frozenset(
    {ExportForm.TRAINING, ExportForm.TRIPLETS, ExportForm.LABELLED, ExportForm.PAIRS}
)


@dataclass(frozen=True, slots=True)
class JudgementExport:
    """What was written."""

    out: str
    form: ExportForm  # for TRAINING the one that was taken
    rows: int  # of the file; of an evaluation the judgements
    queries: int  # that these rows are of
    passages: int | None  # that an evaluation searches; None in other forms
    notes: tuple[str, ...]  # plain sentences: what was left out and why


def export_judgements(
    record: CollectionRecord,
    judgements: Sequence[Judgement],
    out: Path,
    form: ExportForm | str,
    *,
    part: Part | str | None,
    judged_only: bool,
    listener: ProgressListener,
) -> JudgementExport:
    """Write judgements of a collection; see `Judgements.export`."""
    chosen_form = _chosen(ExportForm, form)
    chosen_part = None if part in (None, _ALL) else _chosen(Part, str(part), _ALL)
    if part is None and chosen_form in _TO_LEARN_FROM:
        chosen_part = Part.TRAIN
    if judged_only and chosen_form is not ExportForm.EVALUATION:
        raise BadInputError(f"judged_only is for evaluation, not for {chosen_form}. Leave it out")
    _check_place(out, chosen_form)
    chosen = sorted(in_part(judgements, chosen_part), key=_place)  # whatever the order they came in
    if not chosen:
        raise _nothing(record.name, judgements, chosen_part)
    if chosen_form is ExportForm.EVALUATION:
        made = write_evaluation(record, chosen, out, judged_only=judged_only, listener=listener)
        return JudgementExport(
            str(out), chosen_form, made.judgements, made.queries, made.passages, made.notes
        )
    if chosen_form is ExportForm.CSV:
        _write_table(chosen, out)
        return JudgementExport(
            str(out), chosen_form, len(chosen), len({one.query for one in chosen}), None, ()
        )
    if chosen_form is ExportForm.LINES:
        count = write_lines((one.to_json() for one in chosen), out)
        return JudgementExport(str(out), chosen_form, count, len({one.query for one in chosen}), None, ())
    kind = None if chosen_form is ExportForm.TRAINING else TrainingKind(chosen_form)
    rows = training_rows(chosen, kind)
    write_lines(iter(rows.rows), out)
    notes = list(rows.notes)
    if in_part(chosen, Part.TEST):
        notes.append(
            "queries of the test part are in it: what learns from them cannot be measured on them any more"
        )
    elif part is None and len(chosen) < len(judgements):
        others = len({one.query for one in judgements} - {one.query for one in chosen})
        notes.append(
            f"{counted(others, 'query', 'queries')} of the test part left out, to measure on: take the part "
            "test for the evaluation"
        )
    return JudgementExport(str(out), ExportForm(rows.kind), len(rows.rows), rows.queries, None, tuple(notes))


def _place(judgement: Judgement) -> tuple[str, str, int]:
    return judgement.query, judgement.document, judgement.passage


def _write_table(judgements: Sequence[Judgement], out: Path) -> None:
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(_COLUMNS)
    for one in judgements:
        row = {**one.to_json(), "relevant": int(one.relevant)}
        table.writerow(["" if row[name] is None else defused(row[name]) for name in _COLUMNS])
    with replacing(out) as stream:
        stream.write(text.getvalue().encode("utf-8", "surrogatepass"))


def _chosen(kind: type[Choice], given: str, *others: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        raise BadInputError(
            f"'{given}' is none of: {', '.join([*kind, *others])}. Take one of these"
        ) from None


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
