"""Sentence examples of one kind made into those of another."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.mapped import numbered
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.columns import is_negative_name
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import NLI_LABELS, SentenceExamples
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.data.sentence_examples.text_rows import TextRows

_ENTAILED = float(NLI_LABELS.index("entailment"))
_CONTRADICTED = float(NLI_LABELS.index("contradiction"))


def as_tuples(examples: SentenceExamples) -> SentenceExamples:
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
        return as_pairs(examples)
    if examples.labels is None:
        raise BadInputError(f"{examples.name} has no labels to make triplets by; give examples with labels")
    entailed = examples.texts.numbers[examples.labels == _ENTAILED]
    contradicted = examples.texts.numbers[examples.labels == _CONTRADICTED]
    made, alone = _triplets(entailed, contradicted)
    triplets, disputed = _undisputed(TextRows(examples.texts.texts, made))
    rows = len(triplets)
    notes = [f"{examples.name}: {counted(rows, 'triplet')}; {alone} premises miss a positive or a negative"]
    if disputed:
        notes.append(f"{examples.name}: {counted(disputed, 'triplet')} with one text in both places left out")
    if not rows:
        raise BadInputError(
            f"{examples.name} has no premise with both an entailed and a contradicted hypothesis, so no "
            "triplets come of it; use its pairs, or an objective for nli"
        )
    columns = ("premise", "entailed", "contradicted")
    return _made(examples, ExampleKind.TUPLES, columns, triplets, notes)


def _triplets(
    entailed: NDArray[np.integer[Any]], contradicted: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.integer[Any]], int]:
    """Put hypotheses of each premise together, and count the premises that miss one of either sort.

    entailed, contradicted: (rows, 2) numbers of premise and hypothesis
    returns: (triplets, 3) numbers, premises in the order of their first entailed row
    """
    firsts, group = numbered(entailed[:, 0])
    premises = entailed[firsts, 0]
    by_number = np.argsort(premises)
    place = np.searchsorted(premises, contradicted[:, 0], sorter=by_number)
    others = by_number[np.minimum(place, len(premises) - 1)] if len(premises) else place
    both = premises[others] == contradicted[:, 0] if len(premises) else np.zeros(len(place), np.bool_)
    alone = len(np.unique(contradicted[~both, 0]))
    against, contradicted = others[both], contradicted[both]
    positives = np.bincount(group, minlength=len(premises))
    negatives = np.bincount(against, minlength=len(premises))
    alone += int((negatives == 0).sum())
    rows = np.where(negatives > 0, np.maximum(positives, negatives), 0)
    of = np.repeat(np.arange(len(premises)), rows)  # (triplets,) the group of each
    turn = np.arange(len(of)) - (np.cumsum(rows) - rows)[of]
    made = [premises[of]]
    for counts, groups, hypotheses in (
        (positives, group, entailed[:, 1]),
        (negatives, against, contradicted[:, 1]),
    ):
        starts = np.cumsum(counts) - counts
        made.append(hypotheses[np.argsort(groups, kind="stable")][starts[of] + turn % counts[of]])
    return np.stack(made, axis=1), alone


def _undisputed(triplets: TextRows) -> tuple[TextRows, int]:
    """Leave out triplets whose positive and negative are one text, and count them."""
    kept = np.fromiter(
        (normalised_text(positive) != normalised_text(negative) for _, positive, negative in triplets),
        np.bool_,
        len(triplets),
    )
    return triplets.take(np.flatnonzero(kept)), int((~kept).sum())


def as_pairs(examples: SentenceExamples) -> SentenceExamples:
    """Give the pairs that belong together, each once.

    Tuples give (anchor, positive), NLI its entailed pairs, labelled pairs those with 1; pairs stay.

    BadInputError for texts alone, scored pairs, and when nothing comes out.
    """
    if examples.kind is ExampleKind.PAIRS:
        return examples
    if examples.kind is ExampleKind.TEXTS:
        raise BadInputError(
            f"{examples.name} holds single texts, which make no pairs; take an objective for texts"
        )
    labels = np.zeros(len(examples)) if examples.labels is None else examples.labels
    if examples.kind is ExampleKind.TUPLES:
        chosen = np.ones(len(examples), np.bool_)
        what = "anchors with their positives"
    elif examples.kind is ExampleKind.SCORED:
        least, most = examples.label_range or (0.0, 0.0)
        raise BadInputError(
            f"{examples.name} holds scored pairs, from {least:g} to {most:g}, and pairs that belong together "
            "are wanted. Give a file of those with a high score, without the scores, or take an objective "
            "for scored pairs"
        )
    elif examples.kind is ExampleKind.NLI:
        chosen = labels == _ENTAILED
        what = "entailed pairs"
    else:
        chosen = labels != 0
        what = "pairs labelled 1"
    if not chosen.any():
        raise BadInputError(f"{examples.name} holds no {what}; give a set that does, or another objective")
    rows = examples.texts.columns((0, 1)).take(np.flatnonzero(chosen))
    rows = rows.take(numbered(rows.numbers)[0])
    notes = [f"{examples.name}: {len(rows)} {what} of {len(examples)} rows"]
    return _made(examples, ExampleKind.PAIRS, examples.columns[:2], rows, notes)


def as_texts(examples: SentenceExamples) -> SentenceExamples:
    """Give every distinct text once, in the order of its first row."""
    flat = examples.texts.numbers.reshape(-1, 1)
    rows = TextRows(examples.texts.texts, flat[numbered(flat)[0]])
    if examples.kind is ExampleKind.TEXTS and len(rows) == len(examples):
        return examples
    notes = [f"{examples.name}: {len(rows)} distinct texts of {len(examples)} rows"]
    return _made(examples, ExampleKind.TEXTS, ("text",), rows, notes)


def _made(
    examples: SentenceExamples,
    kind: ExampleKind,
    columns: Sequence[str],
    rows: TextRows,
    notes: Sequence[str],
) -> SentenceExamples:
    return SentenceExamples(examples.name, kind, tuple(columns), rows, None, (), (*examples.notes, *notes))


def require_translations(texts: Sequence[SentenceExamples]) -> None:
    """BadInputError unless each row is a text and its translations: two texts or more, and no negatives."""
    for one in texts:
        if one.kind not in {ExampleKind.PAIRS, ExampleKind.TUPLES} or any(map(is_negative_name, one.columns)):
            raise BadInputError(
                f"{one.name} holds {one.kind} in {', '.join(one.columns)}, and translations are two texts or "
                "more of one meaning. Name their fields, the teacher's language first: "
                "--columns english,german"
            )
