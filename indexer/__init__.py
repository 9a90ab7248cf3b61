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
    from nearsay.indexer.catalogue.documents import StoredDocument
    from nearsay.indexer.catalogue.store import Cluster
    from nearsay.indexer.exploring.explorer import Explorer
    from nearsay.indexer.filters.declaring import DeclareReport
    from nearsay.indexer.filters.facets import Facets
    from nearsay.indexer.improving import Improvement
    from nearsay.indexer.judgements.gate import GateReport
    from nearsay.indexer.judgements.judgements import Judgements
    from nearsay.indexer.plans.plan import Plan
    from nearsay.indexer.query.browsing import Browser
    from nearsay.indexer.query.explanation import Explanation
    from nearsay.indexer.writing.compaction import CompactReport
    from nearsay.indexer.writing.given_vectors import VectorsOnly
    from nearsay.indexer.writing.ingest import AddReport
    from nearsay.indexer.writing.overview import CollectionOverview
    from nearsay.indexer.writing.rollout import RebuildReport

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
    "AddReport": "nearsay.indexer.writing.ingest",
    "AsyncCollection": "nearsay.indexer.asynchronous",
    "Browser": "nearsay.indexer.query.browsing",
    "Chunking": "nearsay.data.chunking",
    "Cluster": "nearsay.indexer.catalogue.store",
    "CollectionOverview": "nearsay.indexer.writing.overview",
    "CompactReport": "nearsay.indexer.writing.compaction",
    "DeclareReport": "nearsay.indexer.filters.declaring",
    "Document": "nearsay.data.document",
    "Explanation": "nearsay.indexer.query.explanation",
    "Explorer": "nearsay.indexer.exploring.explorer",
    "Facets": "nearsay.indexer.filters.facets",
    "GateReport": "nearsay.indexer.judgements.gate",
    "Improvement": "nearsay.indexer.improving",
    "Judgements": "nearsay.indexer.judgements.judgements",
    "Plan": "nearsay.indexer.plans.plan",
    "ReadOptions": "nearsay.data.read_options",
    "RebuildReport": "nearsay.indexer.writing.rollout",
    "StoredDocument": "nearsay.indexer.catalogue.documents",
    "VectorsOnly": "nearsay.indexer.writing.given_vectors",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'nearsay.indexer' has no attribute '{name}'")
    return getattr(import_module(_LATER[name]), name)
