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
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.collection import Collection, SearchOptions
from nearsay.indexer.library import Library
from nearsay.indexer.query.fusion import Fusion
from nearsay.indexer.query.hit import Hit, Hits, HitScores, Lineage
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
    from nearsay.indexer.catalogue.generations import GenerationRow
    from nearsay.indexer.catalogue.judgement import JudgedQuery, Judgement, JudgementCounts
    from nearsay.indexer.catalogue.near_duplicates import NearDuplicate
    from nearsay.indexer.catalogue.passages import PassageRow
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.catalogue.token_samples import TokenSampleRow
    from nearsay.indexer.cluster.serving import Shards, ShardState
    from nearsay.indexer.clusters.clustering import Clustering, ClusterMethod
    from nearsay.indexer.clusters.current import Assigned
    from nearsay.indexer.duplicates.groups import By, DuplicateGroups, Link
    from nearsay.indexer.duplicates.pairs import Pairs
    from nearsay.indexer.encoders import Encoders
    from nearsay.indexer.exploring.dates import Period
    from nearsay.indexer.exploring.diverse import DiversePassage
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.exploring.newest import News
    from nearsay.indexer.exploring.remotest import RemotePassage
    from nearsay.indexer.exploring.through_time import Counted, ThroughTime
    from nearsay.indexer.filters.declaring import DeclareReport
    from nearsay.indexer.filters.facets import Facets
    from nearsay.indexer.filters.field_kinds import FieldLook
    from nearsay.indexer.filters.parse import Where
    from nearsay.indexer.improving import Improvement
    from nearsay.indexer.inside.token_sample import TokenSample
    from nearsay.indexer.inside.token_search import SearchBy, TokenMatches
    from nearsay.indexer.judgements.export import ExportForm, JudgementExport
    from nearsay.indexer.judgements.gate import GateReport
    from nearsay.indexer.judgements.importing import JudgementImport
    from nearsay.indexer.judgements.judgements import Judgements
    from nearsay.indexer.judgements.judging import JudgedComparison
    from nearsay.indexer.judgements.part import Part
    from nearsay.indexer.maps.draw_map import MapReport
    from nearsay.indexer.maps.drawing import Drawing
    from nearsay.indexer.maps.map import Map
    from nearsay.indexer.neighbours.shown import Shown
    from nearsay.indexer.plans.plan import Plan
    from nearsay.indexer.query.browsing import Browser, DocumentPage, DocumentRow, PassageSpan
    from nearsay.indexer.query.explanation import Explanation
    from nearsay.indexer.query.reranking import PairJudge
    from nearsay.indexer.query.sample import Sample
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
    "DeclareReport",
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

# Imported when they are first named: a process that only searches needs none of them.
_LATER = {
    "data.chunking": "Chunking",
    "data.document": "Document",
    "data.read_options": "ReadOptions",
    "indexer.asynchronous": "AsyncCollection",
    "indexer.catalogue.clusterings": "NamedCluster",
    "indexer.catalogue.documents": "StoredDocument",
    "indexer.catalogue.generations": "GenerationRow",
    "indexer.catalogue.judgement": "JudgedQuery Judgement JudgementCounts",
    "indexer.catalogue.near_duplicates": "NearDuplicate",
    "indexer.catalogue.passages": "PassageRow",
    "indexer.catalogue.store": "Cluster",
    "indexer.catalogue.token_samples": "TokenSampleRow",
    "indexer.cluster.serving": "ShardState Shards",
    "indexer.clusters.clustering": "ClusterMethod Clustering",
    "indexer.clusters.current": "Assigned",
    "indexer.duplicates.groups": "By DuplicateGroups Link",
    "indexer.duplicates.pairs": "Pairs",
    "indexer.encoders": "Encoders",
    "indexer.exploring.dates": "Period",
    "indexer.exploring.diverse": "DiversePassage",
    "indexer.exploring.explorer": "Explorer",
    "indexer.exploring.newest": "News",
    "indexer.exploring.remotest": "RemotePassage",
    "indexer.exploring.through_time": "Counted ThroughTime",
    "indexer.filters.declaring": "DeclareReport",
    "indexer.filters.facets": "Facets",
    "indexer.filters.field_kinds": "FieldLook",
    "indexer.filters.parse": "Where",
    "indexer.improving": "Improvement",
    "indexer.inside.token_sample": "TokenSample",
    "indexer.inside.token_search": "SearchBy TokenMatches",
    "indexer.judgements.export": "ExportForm JudgementExport",
    "indexer.judgements.gate": "GateReport",
    "indexer.judgements.importing": "JudgementImport",
    "indexer.judgements.judgements": "Judgements",
    "indexer.judgements.judging": "JudgedComparison",
    "indexer.judgements.part": "Part",
    "indexer.maps.draw_map": "MapReport",
    "indexer.maps.drawing": "Drawing",
    "indexer.maps.map": "Map",
    "indexer.neighbours.shown": "Shown",
    "indexer.plans.plan": "Plan",
    "indexer.query.browsing": "Browser DocumentPage DocumentRow PassageSpan",
    "indexer.query.explanation": "Explanation",
    "indexer.query.reranking": "PairJudge",
    "indexer.query.sample": "Sample",
    "indexer.snapshots.snapshot": "Snapshot",
    "indexer.writing.compaction": "CompactReport",
    "indexer.writing.given_vectors": "VectorsOnly",
    "indexer.writing.ingest": "AddReport",
    "indexer.writing.overview": "CollectionOverview",
    "indexer.writing.rollout": "RebuildReport",
    "training.bert.attention": "AttentionReader",
    "training.sentence.text_encoder": "TextEncoder",
}
_PLACES = {name: f"nearsay.{module}" for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'nearsay.indexer' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
