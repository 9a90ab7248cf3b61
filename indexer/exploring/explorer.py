"""Everything that a collection says of itself without a query: `collection.explore`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import clusterings
from nearsay.indexer.catalogue.clusterings import NamedCluster
from nearsay.indexer.catalogue.documents import untouched
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.token_samples import TokenSampleRow
from nearsay.indexer.clusters.clustered import cluster_collection
from nearsay.indexer.clusters.clustering import Clustering, ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.current import (
    Assigned,
    assign_newer,
    current_clustering,
    kept_row,
    no_clusters,
    rename_cluster,
    shown_clustering,
    write_members,
)
from nearsay.indexer.clusters.partition import SEED
from nearsay.indexer.duplicates.groups import By, DuplicateGroups, Link, find_duplicates
from nearsay.indexer.duplicates.pairs import Pairs, find_pairs
from nearsay.indexer.exploring.dates import Period
from nearsay.indexer.exploring.diverse import BALANCE, DiversePassage, diverse
from nearsay.indexer.exploring.newest import News, When, new_since
from nearsay.indexer.exploring.remotest import RemotePassage, outliers
from nearsay.indexer.exploring.through_time import Counted, ThroughTime, over_time
from nearsay.indexer.filters.field_kinds import FieldLook, field_looks
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.inside.token_sample import (
    TOKENS,
    TokenSample,
    drawn_texts,
    make_sample,
    opened_sample,
    sample_rows,
)
from nearsay.indexer.inside.token_search import SearchBy, TokenMatches, search_tokens
from nearsay.indexer.maps.draw_map import MapReport, draw_map
from nearsay.indexer.maps.drawing import Drawing, drawing
from nearsay.indexer.maps.map import Map, kept_map, kept_map_number
from nearsay.indexer.maps.mapping import current_map
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.neighbours.shown import Shown, rows_of
from nearsay.indexer.vectors.progress import ProgressListener, unheard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearsay.training.bert.attention import AttentionReader

__all__ = ["Explorer"]


class Explorable(Protocol):
    """A collection."""

    @property
    def explore(self) -> "Explorer":
        """What there is to see in it without a query."""


class Explorer:
    """Pairs, duplicates, clusters, maps and samples of a collection; made by `Collection.explore`."""

    def __init__(self, explored: Explored) -> None:
        """Nothing is read yet."""
        self._explored = explored

    def pairs(
        self,
        top: int | None = None,
        *,
        threshold: float | None = None,
        where: Where | None = None,
        other: "Explorable | None" = None,
        other_where: Where | None = None,
        same_document: bool = False,
        exact: bool | None = None,
        progress: ProgressListener = unheard,
    ) -> Pairs:
        """The pairs of passages that are most similar, in the collection or between it and another.

        top:           how many; None = all over the threshold, or 100 without one
        threshold:     the least cosine
        other:         a collection of the same encoder: pairs of one passage here and one there
        other_where:   a filter for the other
        same_document: passages of one document are pairs, too
        exact:         compare every two or not; None = up to some hundred thousand passages

        EncoderMismatchError, and BadInputError for more pairs than can be listed, each with its remedy.
        """
        return find_pairs(
            self._explored,
            top,
            threshold=threshold,
            where=where,
            other=None if other is None else other.explore._explored,  # noqa: SLF001 - of this class
            other_where=other_where,
            same_document=same_document,
            exact=exact,
            listener=progress,
        )

    def duplicates(
        self,
        threshold: float = 0.95,
        *,
        link: Link | str = Link.TRANSITIVE,
        by: By | str = By.DOCUMENT,
        where: Where | None = None,
        exact: bool | None = None,
        progress: ProgressListener = unheard,
    ) -> DuplicateGroups:
        """Groups of documents that say nearly the same, the largest first, with a representative of each.

        threshold: the least cosine of two passages that are near-duplicates
        link:      transitive (a chain of near-duplicates leads from each to each) or complete (every two are)
        by:        document (each passage of either has a near-duplicate in the other; only documents of which
                   every passage has a vector and passes the filter) or passage
        exact:     compare every two or not; None = up to some hundred thousand passages
        """
        return find_duplicates(
            self._explored, threshold, link=link, by=by, where=where, exact=exact, listener=progress
        )

    def untouched(self, ids: Sequence[str], since: str) -> set[str]:
        """Those of the documents that are there and were not written since a moment (ISO 8601, UTC)."""
        collection = self._explored.snapshot().collection
        with self._explored.store.database.reading() as connection:
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
        """Put the passages into clusters, name them, and keep them with the live generation.

        A cluster that shares enough passages with one of the clustering before keeps its number and the name
        that a user gave it; what moved is told. Then `cluster = 12` is a filter.

        method, clusters, resolution, least_size, assign_outliers: see `ClusterOptions`; without a method,
               clusters=20 takes kmeans
        where: cluster only what it lets through; that is shown and not kept

        BadInputError for options that cannot be used, and where there is nothing to cluster.
        """
        options = ClusterOptions(
            method=_method(method, clusters),
            clusters=clusters,
            resolution=resolution,
            least_size=least_size,
            assign_outliers=assign_outliers,
        )
        made = cluster_collection(
            self._explored, options, seed=seed, where=where, save=save, listener=progress
        )
        return shown_clustering(self._explored, made)

    def clusters(self) -> Clustering:
        """The live generation's clusters, without passages removed since; BadInputError if it has none."""
        found = current_clustering(self._explored)
        if found is None:
            raise no_clusters(self._explored.name)
        return found

    def has_clusters(self) -> bool:
        """Whether the live generation was put into clusters."""
        return kept_row(self._explored) is not None

    def cluster_names(self) -> tuple[NamedCluster, ...]:
        """The names of the live generation's clusters, the lowest level first; none without clusters."""
        row = kept_row(self._explored)
        if row is None:
            return ()
        with self._explored.store.database.reading() as connection:
            return tuple(clusterings.named_clusters(connection, row.id))

    def last_settings(self) -> dict[str, Any]:
        """What `cluster` was asked for when the live generation's clusters were made; empty without any.

        Of a method that an older nearsay had, nothing.
        """
        row = kept_row(self._explored)
        asked = {} if row is None else dict(row.parameters["asked"])
        return asked if asked.get("method", ClusterMethod.GRAPH) in list(ClusterMethod) else {}

    def rename_cluster(self, number: int, name: str) -> None:
        """Give a cluster a name, which it keeps; BadInputError if it is not there."""
        rename_cluster(self._explored, number, name)

    def assign_newer(self, *, progress: ProgressListener = unheard) -> Assigned:
        """Put passages that came since the clustering into the nearest cluster that they fit."""
        return assign_newer(self._explored, listener=progress)

    def write_clusters(self, out: str | Path, clustering: Clustering | None = None) -> int:
        """Write each passage with its cluster, as .jsonl or .csv; how many. None = the kept clusters."""
        return write_members(self._explored, clustering or self.clusters(), Path(out))

    def outliers(
        self, count: int = 20, where: Where | None = None, *, progress: ProgressListener = unheard
    ) -> Shown[RemotePassage]:
        """The passages that are least like any of another document, the loneliest first; exact."""
        return outliers(self._explored, count, where, listener=progress)

    def diverse(
        self,
        count: int = 20,
        *,
        query: str | None = None,
        where: Where | None = None,
        balance: float = BALANCE,
        progress: ProgressListener = unheard,
    ) -> Shown[DiversePassage]:
        """A few passages that show what there is, in all or about a query: each unlike those before it.

        balance: 1 = the most relevant, however alike; 0 = the most unlike each other
        """
        return diverse(self._explored, count, query=query, where=where, balance=balance, listener=progress)

    def over_time(
        self,
        field: str | None = None,
        by: Period | str | None = None,
        where: Where | None = None,
        *,
        level: int = 0,
        counted: Counted | str = Counted.DOCUMENTS,
    ) -> ThroughTime:
        """How many documents, or passages, of each cluster there are in each period of a date field.

        field: of the metadata; None = when the documents were added
        by:    day, week, month or year; None = by the span of the dates
        level: 0 = the clusters themselves, 1 = those that they belong to
        """
        return over_time(self._explored, field, by, where, level=level, counted=counted)

    def new_since(
        self,
        when: When,
        field: str | None = None,
        *,
        count: int = 20,
        where: Where | None = None,
        progress: ProgressListener = unheard,
    ) -> News:
        """What came since a moment: the passages unlike everything before, and the clusters they fall into.

        field: of the metadata, with the dates that decide; None = when the documents were added
        """
        return new_since(self._explored, when, field, count=count, where=where, listener=progress)

    def fields(self) -> list[FieldLook]:
        """What kind of values each metadata field holds, as seen in the first thousand documents."""
        explored = self._explored
        with explored.store.database.reading() as connection:
            return field_looks(connection, explored.snapshot().collection.id)

    def map(
        self, *, anew: bool = False, seed: int | None = None, progress: ProgressListener = unheard
    ) -> Map:
        """Where every passage lies in two dimensions; kept, new passages being put among the others.

        anew: lay out from nothing; without it a new encoder's map begins from the old one's places
        seed: of what is laid out; the same passages under the same seed give the same map
        """
        return current_map(self._explored, anew=anew, seed=seed, listener=progress)

    def sample_tokens(
        self,
        reader: "AttentionReader",
        layer: int,
        *,
        tokens: int = TOKENS,
        seed: int = 0,
        tagger: str | None = None,
        anew: bool = False,
        progress: ProgressListener = unheard,
    ) -> TokenSampleRow:
        """Keep what a layer of an encoder makes of the tokens of passages drawn at random, to be searched.

        layer:  from 1
        tokens: at most so many, [CLS] and [SEP] among them; whole passages, up to 256 tokens of each
        tagger: folder of a `train tagger` head, whose tags are kept with the tokens
        anew:   make it though there is one of the same settings already
        BadInputError for an empty collection or a layer that is not there; BusyError if another writes.
        """
        return make_sample(
            self._explored,
            reader,
            layer,
            tokens=tokens,
            seed=seed,
            tagger=tagger,
            anew=anew,
            listener=progress,
        )

    def token_samples(self, fingerprint: str | None = None) -> list[TokenSampleRow]:
        """The samples of tokens that are kept, the newest first; fingerprint: only those of an encoder."""
        return sample_rows(self._explored, fingerprint)

    def open_sample(self, row: TokenSampleRow) -> TokenSample:
        """Map a sample of tokens after checking its hash; DamagedSegmentError if it is another's or gone."""
        return opened_sample(self._explored.store, row)

    def search_tokens(
        self,
        sample: TokenSample,
        reader: "AttentionReader",
        vector: "NDArray[np.float32]",
        *,
        by: SearchBy = SearchBy.EMBEDDING,
        heads: Sequence[int] = (),
        k: int = 50,
        special: bool = True,
    ) -> TokenMatches:
        """The tokens of a sample that are nearest to a token's vector, by cosine over all of it.

        vector:  (width,), of the sample's encoder and layer: a state, or the heads' outputs
        by:      embedding, or context: the outputs of the chosen heads alone
        heads:   from 0; none = all. Which token a match attends to most is averaged over them, too
        special: whether [CLS] and [SEP] may be that token
        """
        return search_tokens(
            self._explored, sample, vector, by=by, heads=heads, k=k, special=special, name=reader.token
        )

    def drawn_texts(self, count: int, seed: int = 0) -> list[str]:
        """So many passages at random, with their titles, as an encoder reads them."""
        return drawn_texts(self._explored, count, seed)

    def passages(self, numbers: Sequence[int]) -> list[PassageRow]:
        """The passages of these numbers, by rising number, without those that are gone."""
        rows = rows_of(self._explored, self._explored.snapshot(), numbers)
        return [rows[number] for number in sorted(rows)]

    def kept_map(self) -> Map | None:
        """The map as it was kept, without laying out or adding anything; None if there is none yet."""
        return kept_map(self._explored)

    def kept_map_number(self) -> int | None:
        """Another number whenever the kept map is another; None if there is none yet."""
        return kept_map_number(self._explored)

    def drawing(
        self,
        found: Map,
        *,
        where: Where | None = None,
        colour_by: str | None = None,
        most: int | None = None,
        longest: int | None = None,
    ) -> Drawing:
        """What is drawn of a map: its points with their texts, metadata and clusters.

        colour_by: "cluster" or a metadata field; None = by clusters where there are any
        most:      of more points so many, drawn at random, always the same, are shown; None = all
        longest:   characters of each text that are kept in memory; None = all
        """
        return drawing(self._explored, found, where=where, colour_by=colour_by, most=most, longest=longest)

    def draw_map(
        self,
        out: str | Path | None,
        *,
        where: Where | None = None,
        colour_by: str | None = None,
        anew: bool = False,
        seed: int | None = None,
        progress: ProgressListener = unheard,
    ) -> MapReport:
        """Write the map to a file: .html (a page of its own), .png, .svg, .parquet, .csv or .jsonl.

        out:       None = no file: the map is made, or brought up to date, and kept
        where:     what is drawn; the map is that of the whole collection
        colour_by: "cluster" or a metadata field; None = by clusters where there are any
        """
        return draw_map(
            self._explored,
            None if out is None else Path(out),
            where=where,
            colour_by=colour_by,
            anew=anew,
            seed=seed,
            listener=progress,
        )


def _method(given: ClusterMethod | str | None, clusters: int | None) -> ClusterMethod:
    """The usual one, unless it is told how many clusters: then the one that heeds it."""
    if given is None:
        return ClusterOptions().method if clusters is None else ClusterMethod.KMEANS
    try:
        return ClusterMethod(given)
    except ValueError:
        raise BadInputError(f"'{given}' is no method. Take one of: {', '.join(ClusterMethod)}") from None
