"""Text to vectors to indexes to answers.

from nearsay.indexer import Library

library = Library.open("my-library")
papers = library.collection("papers")
papers.add("papers.jsonl", text="abstract")
for hit in papers.search("loss functions for sentence pairs", k=5, where="year >= 2019"):
    print(hit.rank, hit.score, hit.title, hit.text)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from nearsay.data.errors import BadInputError, DiskFullError, MissingExtraError, NearsayError, StorageError
from nearsay.indexer.vectors.errors import (
    BadFilterError,
    BusyError,
    CatalogueError,
    ClusterError,
    DamagedSegmentError,
    EncoderMismatchError,
    GateError,
    LostLockError,
    StrictError,
    UnknownCollectionError,
    UnknownDocumentError,
    UnknownGenerationError,
    UnreadableWordsError,
)

if TYPE_CHECKING:
    from nearsay.data.chunking import Chunking
    from nearsay.data.document import Document
    from nearsay.data.read_options import ReadOptions
    from nearsay.indexer.asynchronous import AsyncCollection
    from nearsay.indexer.catalogue.clusterings import NamedCluster
    from nearsay.indexer.catalogue.documents import StoredDocument
    from nearsay.indexer.catalogue.explored import TokenSampleRow
    from nearsay.indexer.catalogue.generations import GenerationRow
    from nearsay.indexer.catalogue.judgements import (
        JudgedQuery,
        Judgement,
        JudgementCounts,
        Part,
        SearchMode,
    )
    from nearsay.indexer.catalogue.near_duplicates import NearDuplicate
    from nearsay.indexer.catalogue.passages import PassageRow
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.cluster.serving import Shards, ShardState
    from nearsay.indexer.clusters.clustering import Clustering, ClusterMethod
    from nearsay.indexer.clusters.current import Assigned
    from nearsay.indexer.collection import Collection
    from nearsay.indexer.duplicates.groups import By, DuplicateGroups, Link
    from nearsay.indexer.duplicates.pairs import Pairs
    from nearsay.indexer.encoders import Encoders
    from nearsay.indexer.exploring.dates import Period
    from nearsay.indexer.exploring.diverse import DiversePassage
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.exploring.through_time import Counted, ThroughTime
    from nearsay.indexer.exploring.unlike import News, RemotePassage
    from nearsay.indexer.filters.facets import Facets
    from nearsay.indexer.filters.fields import FieldLook
    from nearsay.indexer.filters.parse import Where
    from nearsay.indexer.improving import Improvement
    from nearsay.indexer.inside.tokens import SearchBy, TokenMatches, TokenSample
    from nearsay.indexer.judgements.export import ExportForm, JudgementExport
    from nearsay.indexer.judgements.gate import GateReport
    from nearsay.indexer.judgements.judgements import JudgementImport, Judgements
    from nearsay.indexer.judgements.judging import JudgedComparison
    from nearsay.indexer.library import Library
    from nearsay.indexer.maps.draw_map import MapReport
    from nearsay.indexer.maps.drawing import Drawing
    from nearsay.indexer.maps.mapping import Map
    from nearsay.indexer.neighbours.points import Shown
    from nearsay.indexer.plans.plan import Plan
    from nearsay.indexer.query.browsing import Browser, DocumentPage, DocumentRow, PassageSpan
    from nearsay.indexer.query.export import Sample
    from nearsay.indexer.query.hit import Explanation, Hit, Hits, HitScores, Lineage
    from nearsay.indexer.query.ranking import Fusion, PairJudge
    from nearsay.indexer.query.search import SearchOptions
    from nearsay.indexer.snapshots.snapshot import Snapshot
    from nearsay.indexer.writing.compaction import CompactReport
    from nearsay.indexer.writing.given_vectors import VectorsOnly
    from nearsay.indexer.writing.ingest import AddReport
    from nearsay.indexer.writing.overview import CollectionOverview
    from nearsay.indexer.writing.rollout import RebuildReport
    from nearsay.training.bert.attention import AttentionReader
    from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "AddReport",
    "Assigned",
    "AsyncCollection",
    "AttentionReader",
    "BadFilterError",
    "BadInputError",
    "Browser",
    "BusyError",
    "By",
    "CatalogueError",
    "Chunking",
    "Cluster",
    "ClusterError",
    "ClusterMethod",
    "Clustering",
    "Collection",
    "CollectionOverview",
    "CompactReport",
    "Counted",
    "DamagedSegmentError",
    "DiskFullError",
    "DiversePassage",
    "Document",
    "DocumentPage",
    "DocumentRow",
    "Drawing",
    "DuplicateGroups",
    "EncoderMismatchError",
    "Encoders",
    "Explanation",
    "Explorer",
    "ExportForm",
    "Facets",
    "FieldLook",
    "Fusion",
    "GateError",
    "GateReport",
    "GenerationRow",
    "Hit",
    "HitScores",
    "Hits",
    "Improvement",
    "JudgedComparison",
    "JudgedQuery",
    "Judgement",
    "JudgementCounts",
    "JudgementExport",
    "JudgementImport",
    "Judgements",
    "Library",
    "Lineage",
    "Link",
    "LostLockError",
    "Map",
    "MapReport",
    "MissingExtraError",
    "NamedCluster",
    "NearDuplicate",
    "NearsayError",
    "News",
    "PairJudge",
    "Pairs",
    "Part",
    "PassageRow",
    "PassageSpan",
    "Period",
    "Plan",
    "ReadOptions",
    "RebuildReport",
    "RemotePassage",
    "Sample",
    "SearchBy",
    "SearchMode",
    "SearchOptions",
    "ShardState",
    "Shards",
    "Shown",
    "Snapshot",
    "StorageError",
    "StoredDocument",
    "StrictError",
    "TextEncoder",
    "ThroughTime",
    "TokenMatches",
    "TokenSample",
    "TokenSampleRow",
    "UnknownCollectionError",
    "UnknownDocumentError",
    "UnknownGenerationError",
    "UnreadableWordsError",
    "VectorsOnly",
    "Where",
]

import_module("nearsay.training")  # how OpenMP's threads wait has to be said before FAISS is loaded

# Imported when they are first named: a process that only searches needs few, and a cluster's worker none.
_LATER = {
    "nearsay.data.chunking": "Chunking",
    "nearsay.data.document": "Document",
    "nearsay.data.read_options": "ReadOptions",
    "nearsay.indexer.asynchronous": "AsyncCollection",
    "nearsay.indexer.catalogue.clusterings": "NamedCluster",
    "nearsay.indexer.catalogue.documents": "StoredDocument",
    "nearsay.indexer.catalogue.generations": "GenerationRow",
    "nearsay.indexer.catalogue.judgements": "JudgedQuery Judgement JudgementCounts Part SearchMode",
    "nearsay.indexer.catalogue.near_duplicates": "NearDuplicate",
    "nearsay.indexer.catalogue.passages": "PassageRow",
    "nearsay.indexer.catalogue.store": "Cluster",
    "nearsay.indexer.catalogue.explored": "TokenSampleRow",
    "nearsay.indexer.cluster.serving": "ShardState Shards",
    "nearsay.indexer.clusters.clustering": "ClusterMethod Clustering",
    "nearsay.indexer.clusters.current": "Assigned",
    "nearsay.indexer.collection": "Collection",
    "nearsay.indexer.duplicates.groups": "By DuplicateGroups Link",
    "nearsay.indexer.duplicates.pairs": "Pairs",
    "nearsay.indexer.encoders": "Encoders",
    "nearsay.indexer.exploring.dates": "Period",
    "nearsay.indexer.exploring.diverse": "DiversePassage",
    "nearsay.indexer.exploring.explorer": "Explorer",
    "nearsay.indexer.exploring.through_time": "Counted ThroughTime",
    "nearsay.indexer.exploring.unlike": "News RemotePassage",
    "nearsay.indexer.filters.facets": "Facets",
    "nearsay.indexer.filters.fields": "FieldLook",
    "nearsay.indexer.filters.parse": "Where",
    "nearsay.indexer.improving": "Improvement",
    "nearsay.indexer.inside.tokens": "SearchBy TokenMatches TokenSample",
    "nearsay.indexer.judgements.export": "ExportForm JudgementExport",
    "nearsay.indexer.judgements.gate": "GateReport",
    "nearsay.indexer.judgements.judgements": "JudgementImport Judgements",
    "nearsay.indexer.judgements.judging": "JudgedComparison",
    "nearsay.indexer.library": "Library",
    "nearsay.indexer.maps.draw_map": "MapReport",
    "nearsay.indexer.maps.drawing": "Drawing",
    "nearsay.indexer.maps.mapping": "Map",
    "nearsay.indexer.neighbours.points": "Shown",
    "nearsay.indexer.plans.plan": "Plan",
    "nearsay.indexer.query.browsing": "Browser DocumentPage DocumentRow PassageSpan",
    "nearsay.indexer.query.export": "Sample",
    "nearsay.indexer.query.hit": "Explanation Hit Hits HitScores Lineage",
    "nearsay.indexer.query.ranking": "Fusion PairJudge",
    "nearsay.indexer.query.search": "SearchOptions",
    "nearsay.indexer.snapshots.snapshot": "Snapshot",
    "nearsay.indexer.writing.compaction": "CompactReport",
    "nearsay.indexer.writing.given_vectors": "VectorsOnly",
    "nearsay.indexer.writing.ingest": "AddReport",
    "nearsay.indexer.writing.overview": "CollectionOverview",
    "nearsay.indexer.writing.rollout": "RebuildReport",
    "nearsay.training.bert.attention": "AttentionReader",
    "nearsay.training.sentence.text_encoder": "TextEncoder",
}
_PLACES = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'nearsay.indexer' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
