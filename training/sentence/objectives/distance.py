"""How far apart two vectors are: what an objective may be told."""

from enum import StrEnum

__all__ = ["Distance"]


class Distance(StrEnum):
    """Lower is closer."""

    EUCLIDEAN = "euclidean"  # length of u - v; for a teacher, the mean of its squares
    MANHATTAN = "manhattan"  # sum of |u - v|
    COSINE = "cosine"  # 1 - cosine, from 0 to 2
