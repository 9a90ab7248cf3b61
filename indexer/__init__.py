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
from nearsay.indexer.collection import Collection, SearchOptions
from nearsay.indexer.errors import (
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
from nearsay.indexer.hit import Hit, Hits, HitScores, Lineage
from nearsay.indexer.hybrid.fusion import Fusion
from nearsay.indexer.hybrid.mode import SearchMode
from nearsay.indexer.library import Library

if TYPE_CHECKING:
    from nearsay.data.chunking import Chunking
    from nearsay.data.document import Document
    from nearsay.data.read_options import ReadOptions
    from nearsay.indexer.asynchronous import AsyncCollection
    from nearsay.indexer.browsing import Browser
    from nearsay.indexer.catalogue.documents import StoredDocument
    from nearsay.indexer.cluster.joining import Cluster
    from nearsay.indexer.compaction import CompactReport
    from nearsay.indexer.declaring import DeclareReport
    from nearsay.indexer.explain.explanation import Explanation
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.filters.facets import Facets
    from nearsay.indexer.given_vectors import VectorsOnly
    from nearsay.indexer.improving import Improvement
    from nearsay.indexer.ingest import AddReport
    from nearsay.indexer.judgements.gate import GateReport
    from nearsay.indexer.judgements.judgements import Judgements
    from nearsay.indexer.overview import CollectionOverview
    from nearsay.indexer.plan import Plan
    from nearsay.indexer.rollout import RebuildReport

__all__ = [
    "AddReport",
    "AsyncCollection",
    "BadFilterError",
    "BadInputError",
    "Browser",
    "BusyError",
    "CatalogueError",
    "Chunking",
    "Cluster",
    "ClusterError",
    "Collection",
    "CollectionOverview",
    "CompactReport",
    "DamagedSegmentError",
    "DeclareReport",
    "DiskFullError",
    "Document",
    "EncoderMismatchError",
    "Explanation",
    "Explorer",
    "Facets",
    "Fusion",
    "GateError",
    "GateReport",
    "Hit",
    "HitScores",
    "Hits",
    "Improvement",
    "Judgements",
    "Library",
    "Lineage",
    "LostLockError",
    "MissingExtraError",
    "NearsayError",
    "Plan",
    "ReadOptions",
    "RebuildReport",
    "SearchMode",
    "SearchOptions",
    "StorageError",
    "StoredDocument",
    "StrictError",
    "UnknownCollectionError",
    "UnknownDocumentError",
    "UnknownGenerationError",
    "UnreadableWordsError",
    "VectorsOnly",
]

# Imported when they are first named: a process that only searches needs none of them.
_LATER = {
    "AddReport": "nearsay.indexer.ingest",
    "AsyncCollection": "nearsay.indexer.asynchronous",
    "Browser": "nearsay.indexer.browsing",
    "Chunking": "nearsay.data.chunking",
    "Cluster": "nearsay.indexer.cluster.joining",
    "CollectionOverview": "nearsay.indexer.overview",
    "CompactReport": "nearsay.indexer.compaction",
    "DeclareReport": "nearsay.indexer.declaring",
    "Document": "nearsay.data.document",
    "Explanation": "nearsay.indexer.explain.explanation",
    "Explorer": "nearsay.indexer.exploring.explorer",
    "Facets": "nearsay.indexer.filters.facets",
    "GateReport": "nearsay.indexer.judgements.gate",
    "Improvement": "nearsay.indexer.improving",
    "Judgements": "nearsay.indexer.judgements.judgements",
    "Plan": "nearsay.indexer.plan",
    "ReadOptions": "nearsay.data.read_options",
    "RebuildReport": "nearsay.indexer.rollout",
    "StoredDocument": "nearsay.indexer.catalogue.documents",
    "VectorsOnly": "nearsay.indexer.given_vectors",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'nearsay.indexer' has no attribute '{name}'")
    return getattr(import_module(_LATER[name]), name)
