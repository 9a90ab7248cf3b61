"""Some queries to learn from, the others to measure on."""

from collections.abc import Iterable
from enum import StrEnum

from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue.judgement import Judgement
from nearsay.indexer.catalogue.judgements import query_hash

__all__ = ["TEST_SHARE", "Part", "in_part"]

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


def _part_of(query: str) -> Part:
    drawn = int(query_hash(normalised_text(query))[:8], 16) / 16**8  # evenly from 0 to 1
    return Part.TEST if drawn < TEST_SHARE else Part.TRAIN
