"""Labelled texts to be clustered, as a judged set."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.judged.drawing import drawn_note, drawn_rows
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.evaluation.v_measure import v_measure, v_measure_parts
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["ClusteringSet", "k_means"]


@dataclass(frozen=True, slots=True)
class ClusteringSet:
    """Labelled texts; the V-measure of k-means, as many clusters as labels, averaged over seeds, decides."""

    kind: ClassVar = EvaluationKind.CLUSTERING
    name: str
    items: tuple[tuple[str, str], ...]  # text, label
    notes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the clusters' first centres

    def __len__(self) -> int:
        return len(self.items)

    def texts(self) -> Iterator[str]:
        """The texts, without their labels."""
        for text, _ in self.items:
            yield text

    def held_out(self) -> Iterator[str]:
        """The texts."""
        return self.texts()

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its texts."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(self, items=tuple(self.items[row] for row in rows), notes=(*self.notes, note))

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """Cluster the vectors as the encoder makes them, once a seed, and compare with the labels.

        A draw takes texts with their parts in the figure (`v_measure_parts`): nothing is clustered again.
        Raises BadInputError for fewer than 2 labels. Muennighoff et al. 2023, section 3.3,
        https://arxiv.org/abs/2210.07316
        """
        started = perf_counter()
        names, labels = np.unique([label for _, label in self.items], return_inverse=True)
        if len(names) < 2:
            raise BadInputError(
                f"{self.name} has one label alone, {str(names[0]) if len(names) else 'none'!r}; "
                "clusters are compared with 2 labels or more"
            )
        texts = list(self.texts())
        vectors, truncated = encoded_texts(
            encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
        )
        clusters = [k_means(vectors, len(names), seed) for seed in self.seeds]
        found = [v_measure(labels, each) for each in clusters]
        parts = np.mean([v_measure_parts(labels, each) for each in clusters], axis=0)
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics={
                "v_measure": float(np.mean([each.figure for each in found])),
                "homogeneity": float(np.mean([each.homogeneity for each in found])),
                "completeness": float(np.mean([each.completeness for each in found])),
            },
            main="v_measure",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=mean_of_drawn(parts),
            details={
                "texts": len(self),
                "labels": len(names),
                "seeds": list(self.seeds),
                "v_measure_by_seed": [each.figure for each in found],
            },
        )


def k_means(vectors: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.int64]:
    """Give each vector's cluster, (texts,) numbers from 0: k-means from one k-means++ start.

    Arthur & Vassilvitskii 2007, https://theory.stanford.edu/~sergei/papers/kMeansPP-soda.pdf
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different texts than labels: still valid
        found = KMeans(clusters, n_init=1, random_state=seed).fit_predict(vectors)
    return np.asarray(found, dtype=np.int64)
