"""Sentence examples of one kind made into those of another."""

from collections.abc import Sequence

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.columns import is_negative_name
from nearsay.data.sentence_examples.examples import NLI_LABELS, ExampleKind, SentenceExamples
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["as_pairs", "as_texts", "as_tuples", "require_translations"]

_ENTAILED = float(NLI_LABELS.index("entailment"))
_CONTRADICTED = float(NLI_LABELS.index("contradiction"))


def as_tuples(examples: SentenceExamples, *, minimum_score: float | None = None) -> SentenceExamples:
    """Give what ranking and triplet objectives learn from: anchors with positives, and negatives if known.

    NLI gives triplets (premise, entailed, contradicted) of the premises with both: the first entailed
    hypothesis with the first contradicted one and so on, the shorter list starting again, so that each
    hypothesis is used. Tuples and pairs stay; all else is made pairs by `as_pairs`. Gao et al. 2021, section
    4, https://arxiv.org/abs/2104.08821

    BadInputError for texts alone, scored pairs without a minimum score, and when nothing comes out.
    """
    if examples.kind is ExampleKind.TUPLES:
        return examples
    if examples.kind is not ExampleKind.NLI:
        return as_pairs(examples, minimum_score=minimum_score)
    entailed: dict[str, list[str]] = {}
    contradicted: dict[str, list[str]] = {}
    for (premise, hypothesis), label in zip(examples.texts, examples.labels or (), strict=True):
        if label == _ENTAILED:
            entailed.setdefault(premise, []).append(hypothesis)
        elif label == _CONTRADICTED:
            contradicted.setdefault(premise, []).append(hypothesis)
    rows: list[tuple[str, ...]] = []
    disputed = alone = 0
    for premise, positives in entailed.items():
        negatives = contradicted.pop(premise, [])
        if not negatives:
            alone += 1
            continue
        for number in range(max(len(positives), len(negatives))):
            positive = positives[number % len(positives)]
            negative = negatives[number % len(negatives)]
            if normalised_text(positive) == normalised_text(negative):
                disputed += 1
            else:
                rows.append((premise, positive, negative))
    alone += len(contradicted)
    notes = [f"{examples.name}: {len(rows)} triplets; {alone} premises miss a positive or a negative"]
    if disputed:
        notes.append(f"{examples.name}: {disputed} triplets with one text in both places are left out")
    if not rows:
        raise BadInputError(
            f"{examples.name} has no premise with both an entailed and a contradicted hypothesis, so no "
            "triplets come of it; use its pairs, or an objective for nli"
        )
    columns = ("premise", "entailed", "contradicted")
    return _made(examples, ExampleKind.TUPLES, columns, rows, notes)


def as_pairs(examples: SentenceExamples, *, minimum_score: float | None = None) -> SentenceExamples:
    """Give the pairs that belong together, each once.

    Tuples give (anchor, positive), NLI its entailed pairs, labelled pairs those with 1, scored pairs those of
    at least `minimum_score`, which they need; pairs stay.

    BadInputError for texts alone, scored pairs without a minimum score, and when nothing comes out.
    """
    if examples.kind is ExampleKind.PAIRS:
        return examples
    if examples.kind is ExampleKind.TEXTS:
        raise BadInputError(
            f"{examples.name} holds single texts, which make no pairs; take an objective for texts"
        )
    labels = examples.labels or ()
    if examples.kind is ExampleKind.TUPLES:
        rows: list[tuple[str, ...]] = [row[:2] for row in examples.texts]
        what = "anchors with their positives"
    elif examples.kind is ExampleKind.SCORED:
        if minimum_score is None:
            raise BadInputError(
                f"{examples.name} holds scored pairs; name the minimum score from which on two texts belong "
                f"together (its scores go from {min(labels):g} to {max(labels):g}), or take an "
                "objective for scored pairs"
            )
        rows = [row for row, score in zip(examples.texts, labels, strict=True) if score >= minimum_score]
        what = f"pairs with a score of at least {minimum_score:g}"
    elif examples.kind is ExampleKind.NLI:
        rows = [row for row, label in zip(examples.texts, labels, strict=True) if label == _ENTAILED]
        what = "entailed pairs"
    else:
        rows = [row for row, label in zip(examples.texts, labels, strict=True) if label]
        what = "pairs labelled 1"
    if not rows:
        raise BadInputError(f"{examples.name} holds no {what}; give a set that does, or another objective")
    rows = list(dict.fromkeys(rows))
    notes = [f"{examples.name}: {len(rows)} {what} of {len(examples)} rows"]
    return _made(examples, ExampleKind.PAIRS, examples.columns[:2], rows, notes)


def as_texts(examples: SentenceExamples) -> SentenceExamples:
    """Give every distinct text once, in the order of its first row."""
    rows = [(text,) for text in dict.fromkeys(text for row in examples.texts for text in row)]
    if examples.kind is ExampleKind.TEXTS and len(rows) == len(examples):
        return examples
    notes = [f"{examples.name}: {len(rows)} distinct texts of {len(examples)} rows"]
    return _made(examples, ExampleKind.TEXTS, ("text",), rows, notes)


def _made(
    examples: SentenceExamples,
    kind: ExampleKind,
    columns: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    notes: Sequence[str],
) -> SentenceExamples:
    return SentenceExamples(
        examples.name, kind, tuple(columns), tuple(rows), None, (), (*examples.notes, *notes)
    )


def require_translations(texts: Sequence[SentenceExamples]) -> None:
    """BadInputError unless each row is a text and its translations: two texts or more, and no negatives."""
    for one in texts:
        if one.kind not in {ExampleKind.PAIRS, ExampleKind.TUPLES} or any(map(is_negative_name, one.columns)):
            raise BadInputError(
                f"{one.name} holds {one.kind} in {', '.join(one.columns)}, and translations are two texts or "
                "more of one meaning. Name their fields, the teacher's language first: "
                "--columns english,german"
            )
