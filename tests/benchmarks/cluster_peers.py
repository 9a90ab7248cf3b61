"""The ways to cluster that are measured, ours and the peers', each from vectors to labels."""

from collections.abc import Callable, Sequence

import numpy as np

from nearsay.indexer.clusters.partition import ClusterOptions, partition
from nearsay.indexer.neighbours.points import Points

__all__ = ["OURS", "PEERS", "bertopic", "ours"]

OURS: dict[str, ClusterOptions] = {
    "nearsay (the default)": ClusterOptions(),
    "nearsay kmeans": ClusterOptions("kmeans"),
}
PEERS = {
    "plain k-means": "scikit-learn's KMeans, told the true number of clusters, otherwise its defaults",
    "BERTopic": "BERTopic's defaults (UMAP to 5 dimensions, HDBSCAN with 10 passages or more), given the "
    "same vectors; its outliers count as one cluster, as its label -1 has them",
    "BERTopic, outliers assigned": "the same run, then its reduce_outliers by the same vectors",
    "sentence-transformers communities": "util.community_detection, its defaults (0.75, 10 or more)",
}


def ours(vectors: np.ndarray, options: ClusterOptions, seed: int) -> np.ndarray:
    points = Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors)
    return partition(points, options, seed=seed).labels


def plain_kmeans(vectors: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    return KMeans(clusters, random_state=seed).fit_predict(vectors)


def bertopic(
    vectors: np.ndarray, texts: Sequence[str], seed: int | None
) -> tuple[np.ndarray, Callable[[], np.ndarray]]:
    """Its labels, and what gives them with the outliers assigned.

    seed: of UMAP, which then runs on one thread; None as BERTopic has it: on all, another result each time
    """
    from bertopic import BERTopic
    from umap import UMAP

    reduction = None
    if seed is not None:  # otherwise as BERTopic makes it
        reduction = UMAP(
            n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", low_memory=False, random_state=seed
        )
    model = BERTopic(umap_model=reduction)
    found = np.array(model.fit_transform(list(texts), embeddings=vectors)[0])

    def assigned() -> np.ndarray:
        if not (found < 0).any() or found.max() < 0:
            return found
        put = model.reduce_outliers(list(texts), found.tolist(), strategy="embeddings", embeddings=vectors)
        return np.array(put)

    return found, assigned


def sentence_transformers_communities(vectors: np.ndarray) -> np.ndarray:
    from sentence_transformers.util import community_detection

    labels = np.full(len(vectors), -1)
    for number, members in enumerate(community_detection(vectors)):
        labels[members] = number
    return labels
