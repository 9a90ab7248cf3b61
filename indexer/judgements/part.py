"""Some queries to learn from, the others to measure on."""

from collections.abc import Iterable
from enum import StrEnum

from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue.judgements import Judgement, query_hash

__all__ = ["TEST_SHARE", "Part", "drawn_share", "in_part"]

TEST_SHARE = 0.2  # of the queries


class Part(StrEnum):
    """Which of the two; the words of a query decide, so it is in the same one for ever.

    What differs in case, punctuation and spaces alone is one query: asked again in another way, it would
    measure what was learned from it.
    """

    TRAIN = "train"
    TEST = "test"  # about a fifth of the queries


def in_part(judgements: Iterable[Judgement], part: Part | None) -> list[Judgement]:
    """The judgements whose query is in that part; None = all."""
    return [one for one in judgements if part is None or _part_of(one.query) is part]


def drawn_share(query: str) -> float:
    """A number from 0 to 1 that a query's words decide, evenly spread."""
    return int(query_hash(normalised_text(query))[:8], 16) / 16**8


def _part_of(query: str) -> Part:
    return Part.TEST if drawn_share(query) < TEST_SHARE else Part.TRAIN
