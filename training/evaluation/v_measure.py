"""V-measure: how well clusters agree with labels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

__all__ = ["VMeasure", "v_measure", "v_measure_parts"]


@dataclass(frozen=True, slots=True)
class VMeasure:
    """How well clusters agree with labels, each 0 to 1; the clusters' names do not matter."""

    homogeneity: float  # 1: no cluster holds two labels
    completeness: float  # 1: no label is in two clusters

    @property
    def figure(self) -> float:
        """The harmonic mean of the two; 0 where both are 0."""
        both = self.homogeneity + self.completeness
        return 2 * self.homogeneity * self.completeness / both if both else 0.0


def v_measure(labels: NDArray[np.int64], clusters: NDArray[np.int64]) -> VMeasure:
    """Compare clusters with labels.

    homogeneity = 1 - H(label | cluster) / H(label), completeness = 1 - H(cluster | label) / H(cluster),
    1 where the entropy below is 0; V = 2 · homogeneity · completeness / (homogeneity + completeness)

    labels, clusters: (items,) numbers from 0
    Raises BadInputError for arrays that are empty or of unlike length.
    Rosenberg & Hirschberg 2007, https://aclanthology.org/D07-1043/
    """
    if labels.shape != clusters.shape or labels.ndim != 1 or not len(labels):
        raise BadInputError(
            f"there are {labels.size} labels and {clusters.size} clusters' numbers; "
            "give one of each for every item, and at least one item"
        )
    width = int(clusters.max()) + 1
    together = np.bincount(labels * width + clusters, minlength=(int(labels.max()) + 1) * width)
    table = together.reshape(-1, width)
    of_labels, of_clusters = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    of_both = _entropy(together)
    # H(label | cluster) is H(both) - H(cluster); rounding may put it a little below 0.
    homogeneity = 1 - max(of_both - of_clusters, 0.0) / of_labels if of_labels else 1.0
    completeness = 1 - max(of_both - of_labels, 0.0) / of_clusters if of_clusters else 1.0
    return VMeasure(max(homogeneity, 0.0), max(completeness, 0.0))


def v_measure_parts(labels: NDArray[np.int64], clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give each item's part in the V-measure, (items,) float64: their mean is the V-measure.

    They are the figure and the first-order change that a little more weight on the item makes (its influence
    function), so the mean over items drawn with replacement varies as the figure would on other items. To
    compute the figure itself on such a draw would mislead: repeated items always fall into one cluster, which
    lifts it (by .03 for 300 texts of 77 labels) so that the interval lies beside the figure.
    Raises BadInputError as `v_measure` does.

    Efron & Tibshirani 1993, section 22.3 (the infinitesimal jackknife)
    """
    found = v_measure(labels, clusters)
    h, c, figure = found.homogeneity, found.completeness, found.figure
    if not figure:
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
    counts = np.bincount(groups)
    entropy = _entropy(counts)
    return -np.log(counts[groups] / len(groups)) - entropy, entropy


def _quotient_change(
    above: NDArray[np.float64], below: NDArray[np.float64], quotient: float, denominator: float
) -> NDArray[np.float64]:
    """The change of 1 - numerator / denominator; none where the denominator is 0."""
    return -(above - quotient * below) / denominator if denominator else np.zeros(len(above))


def _entropy(counts: NDArray[np.int64]) -> float:
    some = counts[counts > 0]
    shares = some / some.sum()
    return float(-(shares * np.log(shares)).sum()) if len(some) > 1 else 0.0
