"""How a search looks for passages."""

from enum import StrEnum

__all__ = ["SearchMode"]


class SearchMode(StrEnum):
    """By meaning, by words, or by both."""

    DENSE = "dense"  # the cosine of vectors
    LEXICAL = "lexical"  # the words that query and passage share, no encoder needed
    HYBRID = "hybrid"  # both, fused
