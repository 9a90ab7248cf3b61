"""The texts that negatives are taken from."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read
from nearsay.data.sentence_examples.normalised_text import normalised_text

_MOST_RANKS = 10_000


class NegativeSampling(StrEnum):
    """TOP takes the hardest that every filter lets through; RANDOM draws among all of them."""

    TOP = "top"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class MiningConfig:
    """The choices of mining; BadInputError for values that cannot be.

    A score is the cosine similarity of anchor and text by the mining encoder; an anchor with several
    positives is held to its lowest-scoring one. The relative margin is the "TopK-PercPos" of NV-Retriever,
    whose 95 % of the positive's score is a margin of 0.05: https://arxiv.org/abs/2407.15831
    """

    per_anchor: int = 3  # negatives wanted for each anchor
    first_rank: int = 1  # the nearest text that is not known to belong to the anchor has rank 1
    last_rank: int = 100  # texts farther than this one are not looked at
    relative_margin: float | None = 0.05  # score at most positive - |positive| * this; None: no such bound
    absolute_margin: float | None = None  # score at most positive - this; None: no such bound
    min_score: float | None = None  # score at least this; None: no such bound
    max_score: float | None = None  # score at most this; None: no such bound
    sampling: NegativeSampling = NegativeSampling.TOP
    triplets: bool = False  # a row for each negative, instead of one row with all of them
    seed: int = 0  # of random sampling

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampling", NegativeSampling(self.sampling))
        if self.per_anchor < 1:
            raise BadInputError(f"{self.per_anchor} negatives an anchor are none. Ask for 1 or more")
        if not 1 <= self.first_rank <= self.last_rank <= _MOST_RANKS:
            raise BadInputError(
                f"the ranks {self.first_rank}-{self.last_rank} are no range. Give two numbers from 1 to "
                f"{_MOST_RANKS}, the smaller first, as in 10-100"
            )
        if self.last_rank - self.first_rank + 1 < self.per_anchor:
            raise BadInputError(
                f"the ranks {self.first_rank}-{self.last_rank} hold fewer texts than the {self.per_anchor} "
                "negatives an anchor that are wanted. Widen the ranks or ask for fewer"
            )
        self._check_scores()
        if self.seed < 0:
            raise BadInputError(f"the seed is {self.seed}. Give 0 or more")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of a row's texts."""
        if self.triplets or self.per_anchor == 1:
            return ("anchor", "positive", "negative")
        return ("anchor", "positive", *(f"negative_{number + 1}" for number in range(self.per_anchor)))

    @property
    def least(self) -> int:
        """Negatives that an anchor needs to be in the rows: triplets have nothing to fill."""
        return 1 if self.triplets else self.per_anchor

    def _check_scores(self) -> None:
        bounds = {
            "relative margin": self.relative_margin,
            "absolute margin": self.absolute_margin,
            "lowest score": self.min_score,
            "highest score": self.max_score,
        }
        for name, value in bounds.items():
            if value is not None and not math.isfinite(value):
                raise BadInputError(f"the {name} is {value}. Give a number")
        if self.relative_margin is not None and not 0 <= self.relative_margin <= 1:
            raise BadInputError(
                f"the relative margin is {self.relative_margin}. Give a share of the positive's score from 0 "
                "to 1, as in 0.05"
            )
        if self.min_score is not None and self.max_score is not None and self.min_score > self.max_score:
            raise BadInputError(
                f"no score is at least {self.min_score} and at most {self.max_score}. "
                "Give a lowest score that is not above the highest"
            )


_USUAL = ReadOptions(metadata=(), split=Split.LINES)


@dataclass(frozen=True, slots=True)
class MiningCorpus:
    """Different texts, and their vectors where they are known already."""

    name: str
    texts: tuple[str, ...]
    keys: tuple[str, ...]  # what `normalised_text` says of each, all different
    untitled_keys: tuple[str, ...]  # the same of each without its title, perhaps not all different
    repeated: int  # texts that were left out, being blank or there before
    vectors: NDArray[np.float32] | None = None  # (texts, dimension) unit vectors; None: to be encoded
    notes: tuple[str, ...] = field(default=())  # what is to be told of its reading

    @classmethod
    def of(
        cls,
        name: str,
        texts: Iterable[str],
        vectors: NDArray[np.float32] | None = None,
        notes: Sequence[str] = (),
        untitled: Sequence[str] | None = None,
    ) -> "MiningCorpus":
        """Keep the first of texts that are the same; BadInputError when there is none.

        vectors:  (texts, dimension), unit vectors that the mining encoder gave the texts as passages
        untitled: each text without the title that stands before it; None: no text has one
        """
        first: dict[str, tuple[int, str]] = {}
        count = 0
        for text in texts:
            first.setdefault(normalised_text(text), (count, text))
            count += 1
        first.pop("", None)
        if not first:
            raise BadInputError(f"{name} holds no texts to mine from. Name a corpus with some")
        rows = [row for row, _ in first.values()]
        kept = vectors
        if vectors is not None and len(rows) < count:
            kept = np.ascontiguousarray(vectors[rows])
        plain = tuple(first)
        if untitled is not None:
            plain = tuple(normalised_text(untitled[row]) for row in rows)
        return cls(
            name,
            tuple(text for _, text in first.values()),
            tuple(first),
            plain,
            count - len(first),
            kept,
            tuple(notes),
        )


def read_mining_corpus(sources: Sequence[str | Path], options: ReadOptions = _USUAL) -> MiningCorpus:
    """Read files, folders, globs and '-' as `nearsay documents add` reads them.

    A document's title stands before its text, and it is not cut into passages. What belongs to an
    anchor is known with its title and without: pairs of titles with their texts hold the texts alone. Rows
    that cannot be used are named in the notes, with their count.
    """
    reading = read(sources, options)
    texts: list[str] = []
    untitled: list[str] = []
    for item in reading.documents():
        texts.append(f"{item.title} {item.text}" if item.title else item.text)
        untitled.append(item.text)
    name = ", ".join(str(source) for source in sources)
    return MiningCorpus.of(name, texts, notes=reading.notes, untitled=untitled)
