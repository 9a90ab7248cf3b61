"""Triplet accuracy: is the positive nearer to its anchor than the negative?"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.vector_similarity import Similarity, pair_similarities

__all__ = ["right_triplets", "triplet_accuracy"]


def right_triplets(
    anchors: NDArray[np.float32], positives: NDArray[np.float32], negatives: NDArray[np.float32]
) -> dict[Similarity, NDArray[np.bool_]]:
    """Say of each triplet whether sim(anchor, positive) > sim(anchor, negative); a tie is wrong.

    anchors, positives, negatives: (triplets, dimension) float32
    returns: by similarity (triplets,) bool

    Reimers & Gurevych 2019, section 4.4, https://arxiv.org/abs/1908.10084
    """
    near, far = pair_similarities(anchors, positives), pair_similarities(anchors, negatives)
    return {similarity: near[similarity] > far[similarity] for similarity in Similarity}


def triplet_accuracy(right: Mapping[Similarity, NDArray[np.bool_]]) -> dict[str, float]:
    """Give the share of right triplets, 0 to 1, as `accuracy` of the cosine, `accuracy_dot` and so on.

    Raises BadInputError when there are no triplets.
    """
    if not len(right[Similarity.COSINE]):
        raise BadInputError("there are no triplets to measure on; give some")
    return {f"accuracy{similarity.suffix}": float(each.mean()) for similarity, each in right.items()}
