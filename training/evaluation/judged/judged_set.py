"""The kinds of judged sets, what each can do, and what an encoder reached on one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder


class EvaluationKind(StrEnum):
    """What a judged set asks of an encoder."""

    STS = "sts"  # scored pairs: are similarities in the order of people's scores?
    TRIPLETS = "triplets"  # anchor, positive, negative: is the positive nearer?
    PAIRS = "pairs"  # pairs labelled 0 or 1: do similarities part the same from the different?
    NLI = "nli"  # premise, hypothesis, label: does a linear layer on the vectors tell the label?
    RETRIEVAL = "retrieval"  # corpus, queries, judgements: are the relevant documents found?
    RERANKING = "reranking"  # a query with positives and negatives: are the positives ranked first?
    CLUSTERING = "clustering"  # labelled texts: do clusters come out as the labels?
    CLASSIFICATION = "classification"  # labelled texts with a train file: does a linear layer tell the label?


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The figures of one encoder on one set, and what is needed to say how sure they are."""

    name: str  # the set's
    kind: EvaluationKind
    metrics: Mapping[str, float]  # by name; correlations times 100, everything else 0 to 1
    main: str  # the name of the figure that decides; higher is better
    items: int  # what is drawn for an interval: pairs, triplets, queries, texts
    truncated: int  # texts that were cut at the encoder's length limit
    seconds: float  # encoding included
    resampled: Callable[[NDArray[np.int64]], float]  # the main figure over items drawn with replacement,
    # given by their numbers; NaN where it is not defined on them
    details: Mapping[str, JsonValue] = field(default_factory=dict)  # counts and settings beside the figures

    @property
    def figure(self) -> float:
        """The figure that decides."""
        return self.metrics[self.main]


def mean_of_drawn(each: NDArray[np.float64]) -> Callable[[NDArray[np.int64]], float]:
    """Return the `resampled` of a figure that is the mean of one value an item, (items,)."""
    return lambda drawn: float(each[drawn].mean())


def drawn_rows(items: int, most: int, seed: int) -> list[int]:
    """The numbers of at most `most` items, ascending, each as likely; BadInputError for most under 1."""
    if most < 1:
        raise BadInputError(f"{most} items are asked for; ask for 1 or more")
    if items <= most:
        return list(range(items))
    return sorted(int(row) for row in np.random.default_rng(seed).choice(items, most, replace=False))


def drawn_note(name: str, drawn: int, items: int, seed: int) -> str:
    """Say that a set is a sample, so that nobody compares its figures with published ones."""
    return (
        f"{name}: {drawn:,} of {items:,} items, drawn with seed {seed}; not comparable with published figures"
    )


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class RowSet(ABC, Generic[Row]):
    """A judged set whose items are rows of one shape."""

    kind: ClassVar[EvaluationKind]
    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def texts_of(self, row: Row) -> tuple[str, ...]:
        """The texts of a row, which are judged together."""

    def texts(self) -> Iterator[str]:
        """See `JudgedSet`."""
        for row in self.rows:
            yield from self.texts_of(row)

    def held_out(self) -> Iterator[str | tuple[str, ...]]:
        """See `JudgedSet`."""
        for row in self.rows:
            texts = self.texts_of(row)
            yield texts if len(texts) > 1 else texts[0]

    def content(self) -> Iterator[object]:
        """See `JudgedSet`."""
        yield from self.rows

    def limited(self, most: int, seed: int) -> Self:
        """See `JudgedSet`."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(self, rows=tuple(self.rows[row] for row in rows), notes=(*self.notes, note))

    def outcome(
        self,
        metrics: Mapping[str, float],
        resampled: Callable[[NDArray[np.int64]], float],
        *,
        truncated: int,
        started: float,
        details: Mapping[str, JsonValue],
    ) -> Outcome:
        """Put the outcome together; the first of the metrics decides, `started` is by `perf_counter`."""
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics=metrics,
            main=next(iter(metrics)),
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=resampled,
            details=details,
        )


_SCORED_AT_ONCE: Final = 1024  # pairs between two calls of the listener


class JudgedSet(Protocol):
    """Texts with people's judgements, and how an encoder is measured on them."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def kind(self) -> EvaluationKind:
        """What it asks of an encoder."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user: what was guessed, left out, or learned from what."""

    def __len__(self) -> int:
        """Items that are judged."""

    def texts(self) -> Iterable[str]:
        """Every text that the figure is measured on; not those it may learn from."""

    def held_out(self) -> Iterable[str | tuple[str, ...]]:
        """What no encoder may have been trained on: texts judged together as one, others alone.

        A row of one text gives the set away beside whatever it stands, as `find_leaks` has it.
        """

    def content(self) -> Iterable[object]:
        """All that decides an encoder's figures, texts and judgements, in pieces whose `repr` tells them."""

    def limited(self, most: int, seed: int) -> Self:
        """A set of at most so many of its items, drawn by chance, for a quick look; a note says so."""

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """Measure an encoder; `progress` is called with texts encoded and texts in all."""


@runtime_checkable
class PairScorer(Protocol):
    """A model that reads two texts together: a cross-encoder."""

    @property
    def name(self) -> str:
        """What people call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return each pair's score, (pairs,); higher fits better."""

    def cut(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Count the pairs that are cut at the length limit."""


@runtime_checkable
class PairwiseSet(Protocol):
    """A judged set that needs scores of pairs alone, so that a cross-encoder can be measured on it, too."""

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """Measure a cross-encoder; `progress` is called with pairs scored and pairs in all."""


def evaluate_judged_set(
    encoder: VectorEncoder | PairScorer, judged: JudgedSet, *, progress: Progress | None = None
) -> Outcome:
    """Measure an encoder, or a cross-encoder, on a judged set.

    progress: called with texts (or pairs) done and texts (or pairs) in all
    Raises BadInputError where the set's figures are not defined, as for one pair alone, and for a
    cross-encoder on a set that compares vectors.
    """
    if not isinstance(encoder, PairScorer):
        return judged.measure(encoder, progress)
    return pairwise(judged, encoder.name).measure_pairs(encoder, progress)


def pairwise(judged: JudgedSet, name: str) -> PairwiseSet:
    """Return the set as one that a cross-encoder can be measured on; BadInputError if it is none."""
    if not isinstance(judged, PairwiseSet):
        raise BadInputError(
            f"{judged.name} is a set of the kind {judged.kind}, which is measured by vectors, and the "
            f"cross-encoder {name} gives a score a pair. Name an encoder, or a set of the kind "
            "reranking, pairs, triplets or sts"
        )
    return judged


def scores_of_pairs(
    scorer: PairScorer, pairs: Sequence[tuple[str, str]], progress: Progress | None
) -> NDArray[np.float32]:
    """Score the pairs, (pairs,), and report how many are done."""
    found = [np.empty(0, dtype=np.float32)]
    for start in range(0, len(pairs), _SCORED_AT_ONCE):
        found.append(scorer.scores(pairs[start : start + _SCORED_AT_ONCE]))
        if progress is not None:
            progress(min(start + _SCORED_AT_ONCE, len(pairs)), len(pairs))
    return np.concatenate(found)


def trained_on_note(judged: JudgedSet, encoder: str, source: str | Path) -> str | None:
    """A note if an encoder was trained on texts that the set judges together; None if it was not.

    source: the encoder's folder, which records the texts. Without a record there is no note
    """
    learned = LearnedTexts.of(source)
    rows = [row for row in judged.held_out() if not isinstance(row, str) and len(row) > 1]
    seen = sum(all(map(learned.has, row)) for row in rows) if learned.hashes else 0
    if not seen:
        return None
    return (
        f"{judged.name}: {encoder} was trained on all texts of {seen:,} of {len(rows):,} items, so its "
        "figures there may be too good. Measure on texts that it was not trained on"
    )
