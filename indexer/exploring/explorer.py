"""Everything that a collection says of itself without a query: `collection.explore`."""

from nearsay.indexer.exploring.explored import Explored

__all__ = ["Explorer"]


class Explorer:
    """Pairs, duplicates, clusters, maps and samples of a collection; made by `Collection.explore`."""

    def __init__(self, explored: Explored) -> None:
        """Nothing is read yet."""
        self._explored = explored
