"""Sentence examples of one kind made into those of another."""

from collections.abc import Sequence
from dataclasses import replace
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
    """Return what ranking and triplet objectives learn from: anchors with positives, and negatives if known.

    NLI gives triplets (premise, entailed, contradicted) of the premises with both: the first entailed
    hypothesis with the first contradicted one and so on, the shorter list starting again, so that each
    hypothesis is used. Gao et al. 2021, section 4, https://arxiv.org/abs/2104.08821. Classes give triplets of
    a text, another of its class and one of another class, as sections of articles do in Reimers & Gurevych
    2019, section 4.4, https://arxiv.org/abs/1908.10084. Tuples and pairs stay; all else is made pairs by
    `as_pairs`.

    BadInputError for texts alone, scored pairs without a minimum score, and when nothing comes out.
    """
    if examples.kind is ExampleKind.TUPLES:
        return examples
    if examples.kind is ExampleKind.CLASSES:
        return _of_classes(examples)
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


def _of_classes(examples: SentenceExamples) -> SentenceExamples:
    """Put each text between another of its class and one of another class."""
    of, alike = _same_class(examples)
    sizes = np.bincount(of)
    classes, alone = int(np.count_nonzero(sizes)), int((sizes == 1).sum())
    if classes < 2 or alone == classes:
        raise BadInputError(
            f"{examples.name} has {counted(len(of), 'text')} of {counted(classes, 'class', 'classes')}, and "
            "they make no triplets. Give texts of two classes or more, two of one of them at least, or take "
            "the kind texts, which leaves the classes out"
        )
    class_by_class, begins = np.argsort(of, kind="stable"), np.cumsum(sizes) - sizes
    other = (np.random.default_rng(0).random(len(of)) * (len(of) - sizes[of])).astype(np.int64)
    other += np.where(other >= begins[of], sizes[of], 0)  # passes the own class over
    made = np.stack([np.arange(len(of)), alike, class_by_class[other]], axis=1)[sizes[of] > 1]
    triplets, disputed = _undisputed(TextRows(examples.texts.texts, examples.texts.numbers[:, 0][made]))
    notes = [f"{examples.name}: {counted(len(triplets), 'triplet')} of {classes} classes"]
    if alone:
        notes.append(f"{examples.name}: {counted(alone, 'class', 'classes')} of one text: negatives alone")
    if disputed:
        notes.append(f"{examples.name}: {counted(disputed, 'triplet')} with one text in both places left out")
    return _made(examples, ExampleKind.TUPLES, ("text", "same class", "other class"), triplets, notes)


def same_class_pairs(examples: SentenceExamples) -> SentenceExamples:
    """Put each text of classes beside another of its class, a text that is alone there beside itself.

    A text that stands in several classes, whose own other row is pushed away, is counted in the notes.
    """
    if len(examples.columns) > 1:
        return examples
    _, alike = _same_class(examples)
    texts = examples.texts.numbers[:, 0]
    rows = TextRows(examples.texts.texts, np.stack([texts, texts[alike]], axis=1))
    made = replace(examples, columns=("text", "same class"), texts=rows, sha256="")
    several = len(texts) - len(np.unique(texts))
    if not several:
        return made
    return made.noted(
        f"{examples.name}: {counted(several, 'row')} more of texts that stand in several classes"
    )


def _same_class(examples: SentenceExamples) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each text's class, and the row of another text of it, drawn always alike; its own where it is alone."""
    if examples.labels is None or len(examples.columns) > 1:
        raise BadInputError(
            f"{examples.name} has no texts with a class each. Give a text and its class a row"
        )
    of = examples.labels.astype(np.int64)
    shuffled = np.random.default_rng(1).permutation(len(of))
    order = np.lexsort((shuffled, of))  # class by class
    sizes = np.bincount(of)
    begins, place = (np.cumsum(sizes) - sizes)[of], np.argsort(order)
    return of, order[begins + (place - begins + 1) % sizes[of]]


def _undisputed(triplets: TextRows) -> tuple[TextRows, int]:
    """Leave out triplets of which the negative is one text with another of the three, and count them."""
    kept = np.fromiter(
        (
            normalised_text(negative) not in {normalised_text(anchor), normalised_text(positive)}
            for anchor, positive, negative in triplets
        ),
        np.bool_,
        len(triplets),
    )
    return triplets.take(np.flatnonzero(kept)), int((~kept).sum())


def as_pairs(examples: SentenceExamples) -> SentenceExamples:
    """Return the pairs that belong together, each once.

    Tuples give (anchor, positive), NLI its entailed pairs, labelled pairs those with 1; pairs stay.

    BadInputError for texts alone, with their classes or without, scored pairs, and when nothing comes out.
    """
    if examples.kind is ExampleKind.PAIRS:
        return examples
    if examples.kind in {ExampleKind.TEXTS, ExampleKind.CLASSES}:
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
    """Return every distinct text once, in the order of its first row."""
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
