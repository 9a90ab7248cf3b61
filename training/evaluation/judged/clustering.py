"""Labelled texts to be clustered, as a judged set."""

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    RowSet,
    mean_of_drawn,
)
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder, encoded_texts

_LEAST_FIGURE: Final = 1e-12  # below, it is 0 but for rounding, where it has no change


def v_measure(labels: NDArray[np.int64], clusters: NDArray[np.int64]) -> tuple[float, float, float]:
    """Return homogeneity, completeness and the V-measure of clusters, (items,) numbers from 0, each 0 to 1.

    homogeneity = 1 - H(label | cluster) / H(label), completeness = 1 - H(cluster | label) / H(cluster),
    1 where the entropy below is 0; V = 2 · homogeneity · completeness / (homogeneity + completeness)

    Rosenberg & Hirschberg 2007, https://aclanthology.org/D07-1043/
    """
    from sklearn.metrics import homogeneity_completeness_v_measure

    homogeneity, completeness, figure = homogeneity_completeness_v_measure(labels, clusters)
    return float(homogeneity), float(completeness), float(figure)


def v_measure_parts(labels: NDArray[np.int64], clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each item's part in the V-measure, (items,) float64: their mean is the V-measure.

    They are the figure and the first-order change that a little more weight on the item makes (its influence
    function), so the mean over items drawn with replacement varies as the figure would on other items. To
    compute the figure itself on such a draw would mislead: repeated items always fall into one cluster, which
    lifts it (by .03 for 300 texts of 77 labels) so that the interval lies beside the figure.

    Efron & Tibshirani 1993, section 22.3 (the infinitesimal jackknife)
    """
    h, c, figure = v_measure(labels, clusters)
    if figure < _LEAST_FIGURE:
        return np.zeros(len(labels))
    of_label, label_entropy = _entropy_changes(labels)
    of_cluster, cluster_entropy = _entropy_changes(clusters)
    of_both, _ = _entropy_changes(labels * (int(clusters.max()) + 1) + clusters)
    h_change = _quotient_change(of_both - of_cluster, of_label, 1 - h, label_entropy)
    c_change = _quotient_change(of_both - of_label, of_cluster, 1 - c, cluster_entropy)
    changes = 2 * (c**2 * h_change + h**2 * c_change) / (h + c) ** 2
    return np.asarray(figure + changes, dtype=np.float64)


def _entropy_changes(groups: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """The change of the groups' entropy with each item's weight, (items,), and the entropy."""
    surprises = -np.log(np.bincount(groups)[groups] / len(groups))
    entropy = float(surprises.mean())
    return surprises - entropy, entropy


def _quotient_change(
    above: NDArray[np.float64], below: NDArray[np.float64], quotient: float, denominator: float
) -> NDArray[np.float64]:
    """The change of 1 - numerator / denominator; none where the denominator is 0."""
    return -(above - quotient * below) / denominator if denominator else np.zeros(len(above))


@dataclass(frozen=True, slots=True)
class ClusteringSet(RowSet[tuple[str, str]]):
    """Texts and their labels; the V-measure of k-means, as many clusters as labels, over seeds decides."""

    kind = EvaluationKind.CLUSTERING
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the clusters' first centres

    def texts_of(self, row: tuple[str, str]) -> tuple[str, ...]:
        """The text, without its label."""
        return row[:1]

    def measure(self, encoder: VectorEncoder, progress: Progress | None = None) -> Outcome:
        """Cluster the vectors as the encoder makes them, once a seed, and compare with the labels.

        A draw takes texts with their parts in the figure (`v_measure_parts`): nothing is clustered again.
        Raises BadInputError for fewer than 2 labels. Muennighoff et al. 2023, section 3.3,
        https://arxiv.org/abs/2210.07316
        """
        started = perf_counter()
        names, labels = np.unique([label for _, label in self.rows], return_inverse=True)
        if len(names) < 2:
            raise BadInputError(
                f"{self.name} has one label alone, {str(names[0]) if len(names) else 'none'!r}; "
                "clusters are compared with 2 labels or more"
            )
        vectors, truncated = encoded_texts(encoder, list(self.texts()), progress=progress)
        clusters = [k_means(vectors, len(names), seed) for seed in self.seeds]
        found = np.array([v_measure(labels, each) for each in clusters])
        parts = np.mean([v_measure_parts(labels, each) for each in clusters], axis=0)
        return self.outcome(
            {
                "v_measure": float(np.mean(found[:, 2])),
                "homogeneity": float(np.mean(found[:, 0])),
                "completeness": float(np.mean(found[:, 1])),
            },
            mean_of_drawn(parts),
            truncated=truncated,
            started=started,
            details={
                "texts": len(self),
                "labels": len(names),
                "seeds": list(self.seeds),
                "v_measure_by_seed": found[:, 2].tolist(),
            },
        )


def k_means(vectors: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.int64]:
    """Return each vector's cluster, (texts,) numbers from 0: k-means from one k-means++ start.

    Arthur & Vassilvitskii 2007, https://theory.stanford.edu/~sergei/papers/kMeansPP-soda.pdf
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different texts than labels: still valid
        found = KMeans(clusters, n_init=1, random_state=seed).fit_predict(vectors)
    return np.asarray(found, dtype=np.int64)
