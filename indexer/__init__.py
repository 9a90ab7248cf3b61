"""Text to vectors to indexes to answers.

from nearsay.indexer import Library

library = Library.open("my-library")
papers = library.collection("papers")
papers.add("papers.jsonl", text="abstract")
for hit in papers.search("loss functions for sentence pairs", k=5, where="year >= 2019"):
    print(hit.rank, hit.score, hit.title, hit.text)
"""

from nearsay.indexer.collection import Collection
from nearsay.indexer.hit import Hit, Hits, HitScores, Lineage
from nearsay.indexer.hybrid.fusion import Fusion
from nearsay.indexer.hybrid.mode import SearchMode
from nearsay.indexer.library import Library

__all__ = ["Collection", "Fusion", "Hit", "HitScores", "Hits", "Library", "Lineage", "SearchMode"]
