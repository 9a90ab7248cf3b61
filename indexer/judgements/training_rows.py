"""Judgements as the rows that sentence encoders learn from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue.judgement import Judgement

__all__ = ["TrainingKind", "TrainingRows", "training_rows"]


class TrainingKind(StrEnum):
    """What a row holds; the names of its columns are those that `read_sentence_examples` knows."""

    TRIPLETS = "triplets"  # query, positive, negative: a ranking loss with a hard negative
    LABELLED = "labelled"  # query, passage, label 1 or 0: a contrastive loss
    PAIRS = "pairs"  # query, positive: a ranking loss whose negatives are the other rows of a batch


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows of a training file."""

    kind: TrainingKind
    rows: list[dict[str, Any]]
    queries: int  # that they are of
    notes: tuple[str, ...]  # plain sentences: what was left out and why


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """The different texts that were judged for one query."""

    query: str
    relevant: list[str]
    not_relevant: list[str]


def training_rows(judgements: Sequence[Judgement], kind: TrainingKind | None = None) -> TrainingRows:
    """The rows that judgements, sorted by query, make.

    kind: None = triplets if a query has both relevant and other passages, else labelled if there are both at
        all, else pairs

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
    chosen = kind or _best(verdicts)
    rows: list[dict[str, Any]] = []
    queries = 0
    for each in verdicts:
        made = list(_rows(each, chosen))
        rows += made
        queries += bool(made)
    if not rows:
        raise BadInputError(_why_none(chosen))
    notes = []
    if disputed:
        notes.append(f"{disputed:,} texts were judged both ways for one query and are left out")
    if queries < len(verdicts):
        notes.append(f"{len(verdicts) - queries:,} of {len(verdicts):,} queries have {_lacking(chosen)}")
    return TrainingRows(chosen, rows, queries, tuple(notes))


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


def _best(verdicts: Sequence[_Verdicts]) -> TrainingKind:
    if any(each.relevant and each.not_relevant for each in verdicts):
        return TrainingKind.TRIPLETS
    if any(each.relevant for each in verdicts) and any(each.not_relevant for each in verdicts):
        return TrainingKind.LABELLED
    return TrainingKind.PAIRS


def _rows(each: _Verdicts, kind: TrainingKind) -> Iterator[dict[str, Any]]:
    if kind is TrainingKind.PAIRS:
        yield from ({"query": each.query, "positive": text} for text in each.relevant)
    elif kind is TrainingKind.LABELLED:
        for label, texts in ((1, each.relevant), (0, each.not_relevant)):
            yield from ({"query": each.query, "passage": text, "label": label} for text in texts)
    elif each.relevant and each.not_relevant:
        for number in range(max(len(each.relevant), len(each.not_relevant))):
            yield {
                "query": each.query,
                "positive": each.relevant[number % len(each.relevant)],
                "negative": each.not_relevant[number % len(each.not_relevant)],
            }


def _lacking(kind: TrainingKind) -> str:
    lacking = {
        TrainingKind.TRIPLETS: "no relevant passage or no other one beside it; labelled takes them, too",
        TrainingKind.LABELLED: "no text left",
        TrainingKind.PAIRS: "no relevant passage; labelled takes them, too",
    }
    return lacking[kind]


def _why_none(kind: TrainingKind) -> str:
    if kind is TrainingKind.TRIPLETS:
        return "no query has both a relevant and a not relevant passage. Judge both for some, or take pairs"
    return "no passage was judged relevant, so there is nothing to learn from. Judge some that answer"
