"""Which kind of judgements rows hold, told by their columns and values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.data.sentence_examples.labels import kind_of_labels, written_label
from nearsay.training.evaluation.judged.candidates import ANCHORS, NEGATIVES, POSITIVES
from nearsay.training.evaluation.judged.kind import EvaluationKind

__all__ = ["kind_of_rows"]

_SCORES: Final = ("score", "similarity", "similarity_score", "similarity score", "relatedness_score")
_LABELS: Final = (
    "label",
    "gold_label",
    "entailment_judgment",
    "is_duplicate",
    "gold",
    "class",
    "category",
    "intent",
    "target",
    "sentiment",
    "labels",
    "relation",
)
_PAIRS: Final = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
)
_TEXTS: Final = ("text", "sentence", "utterance", "content", "body", "document", "question", "query", "title")
_NO_AGREEMENT: Final = "-"  # what NLI's annotators leave where they do not agree
_KINDS: Final = {
    ExampleKind.NLI: EvaluationKind.NLI,
    ExampleKind.LABELLED: EvaluationKind.PAIRS,
    ExampleKind.SCORED: EvaluationKind.STS,
}


def kind_of_rows(rows: Sequence[Mapping[str, object]]) -> EvaluationKind | None:
    """Tell the kind by the columns' usual names, and by what the label's column holds.

    rows: some of the file, at least one

    None: none of them, or labels that could mean several, as 0 and 1 of premises and hypotheses. Labels of
    pairs are told apart as training does, by `kind_of_labels`. Labelled texts are CLASSIFICATION; without
    anything to learn from they are a set for CLUSTERING, which is for the caller to see.
    """
    names = {name.lower(): name for name in rows[0]}
    positive, negative = _first(names, POSITIVES), _first(names, NEGATIVES)
    if positive and negative and _first(names, ANCHORS):
        listed = isinstance(rows[0][positive], list) or isinstance(rows[0][negative], list)
        return EvaluationKind.RERANKING if listed else EvaluationKind.TRIPLETS
    label = _first(names, _LABELS)
    pair = next(((first, second) for first, second in _PAIRS if first in names and second in names), None)
    if pair:
        told = label and _kind_of_labels(rows, label, entailing=pair == _PAIRS[0])
        return told or (EvaluationKind.STS if _first(names, _SCORES) else None)
    if label and _first(names, _TEXTS):
        return EvaluationKind.CLASSIFICATION
    return None


def _kind_of_labels(
    rows: Sequence[Mapping[str, object]], label: str, *, entailing: bool
) -> EvaluationKind | None:
    counts = Counter(_written(row.get(label)) for row in rows)
    counts.pop("", None)
    if set(counts) == {_NO_AGREEMENT}:
        return EvaluationKind.NLI
    try:
        return _KINDS[kind_of_labels(counts, column=label, entailing=entailing, path="")]
    except BadInputError:
        return None  # its remedies are those of training; the caller tells how a judged set is named


def _written(value: object) -> str:
    return written_label(value) if value is None or isinstance(value, str | int | float) else str(value)


def _first(names: Mapping[str, str], wanted: Sequence[str]) -> str | None:
    return next((names[name] for name in wanted if name in names), None)
