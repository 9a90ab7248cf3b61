"""`collection.explore`: pairs, duplicates, clusters, maps and samples of a collection, without a query."""

from collections.abc import Sequence
from typing import Any

from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import NamedCluster
from nearsay.indexer.catalogue.documents import untouched
from nearsay.indexer.catalogue.explored import TokenSampleRow
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.clusters.clustered import cluster_collection
from nearsay.indexer.clusters.clustering import Clustering, ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.current import (
    assign_newer,
    current_clustering,
    kept_row,
    member_rows,
    rename_cluster,
    write_members,
)
from nearsay.indexer.clusters.partition import SEED
from nearsay.indexer.duplicates.groups import find_duplicates
from nearsay.indexer.duplicates.pairs import find_pairs
from nearsay.indexer.exploring.diverse import diverse
from nearsay.indexer.exploring.through_time import over_time
from nearsay.indexer.exploring.unlike import new_since, outliers
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.inside.tokens import (
    TokenSample,
    drawn_texts,
    make_sample,
    opened_sample,
    sample_rows,
    search_tokens,
)
from nearsay.indexer.maps.draw_map import draw_map
from nearsay.indexer.maps.drawing import drawing
from nearsay.indexer.maps.mapping import current_map, kept_map, kept_map_number
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.vectors.errors import chosen
from nearsay.indexer.vectors.progress import ProgressListener, unheard


class Explorer(Explored):
    """Pairs, duplicates, clusters, maps and samples of a collection, returned by `Collection.explore`."""

    __slots__ = ()

    pairs = find_pairs
    duplicates = find_duplicates
    clusters = current_clustering
    rename_cluster = rename_cluster
    write_clusters = write_members
    cluster_rows = member_rows
    assign_newer = assign_newer
    outliers = outliers
    diverse = diverse
    over_time = over_time
    new_since = new_since
    map = current_map
    kept_map = kept_map
    kept_map_number = kept_map_number
    drawing = drawing
    draw_map = draw_map
    sample_tokens = make_sample
    token_samples = sample_rows
    search_tokens = search_tokens
    drawn_texts = drawn_texts

    def untouched(self, ids: Sequence[str], since: str) -> set[str]:
        """The ids of those documents that exist and were not written since a moment (ISO 8601, UTC)."""
        collection = self.snapshot().collection
        with self.store.database.reading() as connection:
            return untouched(connection, collection.id, ids, since)

    def cluster(
        self,
        method: ClusterMethod | str | None = None,
        *,
        clusters: int | None = None,
        resolution: float | None = None,
        least_size: int | None = None,
        assign_outliers: bool = False,
        seed: int = SEED,
        where: Where | None = None,
        save: bool = True,
        progress: ProgressListener = unheard,
    ) -> Clustering:
        """Cluster the passages, name the clusters, and save them with the live generation.

        A cluster that shares enough passages with a cluster of the previous clustering keeps its number and a
        name given by a user; movements are reported. Filters can then select a cluster: `cluster = 12`.

        method:     graph (communities of the nearest-neighbour graph) or kmeans; None = graph, or kmeans if
                    the number of clusters is given
        clusters:   number of clusters (kmeans); None = chosen by a criterion
        resolution: of modularity (graph), up to 1000: higher values give more and smaller clusters; None =
                    chosen by a criterion
        least_size: smallest size of a cluster in passages; passages of smaller ones are outliers. None = 5
                    (graph; for fewer than 50 passages a tenth of them, at least 2), 1 (kmeans)
        assign_outliers: assign each outlier to the cluster with the nearest centre
        where:      cluster only matching passages; the result is returned and not saved
        save:       False = return the result without saving it

        Raises BadInputError for invalid options, and if there is nothing to cluster.
        """
        usual = ClusterOptions().method if clusters is None else ClusterMethod.KMEANS
        options = ClusterOptions(
            method=usual if method is None else chosen(ClusterMethod, method, "method"),
            clusters=clusters,
            resolution=resolution,
            least_size=least_size,
            assign_outliers=assign_outliers,
        )
        return cluster_collection(self, options, seed=seed, where=where, save=save, listener=progress)

    def has_clusters(self) -> bool:
        """Whether the live generation has a clustering."""
        return kept_row(self) is not None

    def cluster_names(self) -> tuple[NamedCluster, ...]:
        """The names of the live generation's clusters, lowest level first; empty without a clustering."""
        row = kept_row(self)
        if row is None:
            return ()
        with self.store.database.reading() as connection:
            return tuple(clusterings.named_clusters(connection, row.id))

    def last_settings(self) -> dict[str, Any]:
        """The settings of `cluster` for the live generation's clustering; empty without one.

        Empty, too, if its method is one of an earlier version that no longer exists.
        """
        row = kept_row(self)
        asked = {} if row is None else dict(row.parameters["asked"])
        return asked if asked.get("method", ClusterMethod.GRAPH) in list(ClusterMethod) else {}

    def open_sample(self, row: TokenSampleRow) -> TokenSample:
        """Map a token sample after checking its hash; DamagedSegmentError if it differs or is missing."""
        return opened_sample(self.store, row)

    def passages(self, numbers: Sequence[int]) -> list[PassageRow]:
        """The existing passages with these numbers, ascending."""
        rows = self.rows(self.snapshot(), numbers)
        return [rows[number] for number in sorted(rows)]
