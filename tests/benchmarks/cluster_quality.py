"""What a clustering is worth: beside labels where there are some, by itself where there are none."""

from collections.abc import Sequence

import numpy as np

from nearsay.indexer.clusters.scores import centres, each_silhouette
from nearsay.indexer.neighbours.points import Points

__all__ = ["beside_labels", "by_itself", "coherence"]

_TERMS = 10


def beside_labels(truth: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """With outliers (-1) as one cluster, as each score takes them."""
    from sklearn.metrics import (
        adjusted_mutual_info_score,
        adjusted_rand_score,
        normalized_mutual_info_score,
        v_measure_score,
    )

    inside = labels >= 0
    return {
        "v_measure": float(v_measure_score(truth, labels)),
        "nmi": float(normalized_mutual_info_score(truth, labels)),
        "ami": float(adjusted_mutual_info_score(truth, labels)),
        "ari": float(adjusted_rand_score(truth, labels)),
        # without the outliers: easier, since the doubtful are left out
        "v_measure_of_the_rest": float(v_measure_score(truth[inside], labels[inside]))
        if inside.any()
        else 0.0,
    }


def by_itself(vectors: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """How many there are, how many are left out, how far the clusters lie apart."""
    points = Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors)
    labels = labels.astype(np.int32)
    sizes = np.bincount(labels[labels >= 0])
    inside = labels >= 0
    silhouette = 0.0
    if sizes.size > 1:
        silhouette = float(each_silhouette(points, labels, centres(points, labels))[inside].mean())
    return {
        "clusters": int(sizes.size),
        "outlier_share": float((~inside).mean()),
        "largest_share": float(sizes.max() / len(labels)) if sizes.size else 0.0,
        "simplified_silhouette": silhouette,
    }


def coherence(texts: Sequence[str], labels: np.ndarray) -> float:
    """The mean NPMI of the ten words that tell each cluster from the others (class-based TF-IDF).

    Over the passages themselves: how much oftener two of a cluster's words stand in one passage than chance
    has it, -1 to 1. Bouma 2009; Lau et al. 2014, https://aclanthology.org/E14-1056. The words are found in
    the same way for every method.
    """
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    if labels.max() < 0:
        return float("nan")
    counter = CountVectorizer(stop_words="english", min_df=5)
    counts = csr_array(counter.fit_transform(texts))
    inside = np.flatnonzero(labels >= 0)
    of_cluster = csr_array(
        (np.ones(inside.size), (labels[inside], inside)), shape=(labels.max() + 1, len(texts))
    )
    words = (of_cluster @ counts).toarray()
    words /= np.maximum(words.sum(axis=1, keepdims=True), 1)
    total = counts.sum(axis=0)
    scored = words * np.log1p(total.sum() / (labels.max() + 1) / total)
    there = (counts > 0).astype(np.float64)
    values = []
    for row in scored:
        best = np.argsort(-row, kind="stable")[:_TERMS]
        some = there[:, best]
        together = (some.T @ some).toarray() / len(texts)
        alone = np.diag(together)
        upper = np.triu_indices(len(best), 1)
        joint = together[upper]
        with np.errstate(divide="ignore", invalid="ignore"):
            npmi = np.log(joint / (alone[upper[0]] * alone[upper[1]])) / -np.log(joint)
        values.append(np.where(joint > 0, npmi, -1.0).mean())
    return float(np.mean(values))
