"""Which kind of judgements rows hold, told by their columns and values."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

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
_ENTAILMENT: Final = frozenset({"entailment", "neutral", "contradiction", "-"})
_TWO_VALUES: Final = frozenset({"0", "1", "0.0", "1.0", "true", "false"})


def kind_of_rows(rows: Sequence[Mapping[str, object]]) -> EvaluationKind | None:
    """Tell the kind by the columns' usual names, and by what the label's column holds; None: none of them.

    rows: some of the file, at least one. Labelled texts are CLASSIFICATION; without anything to learn from
    they are a set for CLUSTERING, which is for the caller to see.
    """
    names = {name.lower(): name for name in rows[0]}
    positive, negative = _first(names, POSITIVES), _first(names, NEGATIVES)
    if positive and negative and _first(names, ANCHORS):
        listed = isinstance(rows[0][positive], list) or isinstance(rows[0][negative], list)
        return EvaluationKind.RERANKING if listed else EvaluationKind.TRIPLETS
    label = _first(names, _LABELS)
    values = set() if label is None else {str(row.get(label)).strip().lower() for row in rows}
    if any(first in names and second in names for first, second in _PAIRS):
        return _kind_of_pairs(names, values)
    if label and _first(names, _TEXTS):
        return EvaluationKind.CLASSIFICATION
    return None


def _kind_of_pairs(names: Collection[str], values: set[str]) -> EvaluationKind | None:
    if values and values <= _ENTAILMENT:
        return EvaluationKind.NLI
    if values and values <= _TWO_VALUES:
        return EvaluationKind.PAIRS
    if _first(dict.fromkeys(names, ""), _SCORES) is not None or _are_numbers(values):
        return EvaluationKind.STS
    return None


def _are_numbers(values: Collection[str]) -> bool:
    return bool(values) and all(value.removeprefix("-").replace(".", "", 1).isdigit() for value in values)


def _first(names: Mapping[str, str], wanted: Sequence[str]) -> str | None:
    return next((names[name] for name in wanted if name in names), None)
