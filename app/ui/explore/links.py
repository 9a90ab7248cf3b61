"""Ways from a finding to the page Search, in the same collection."""

from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.search.ids import written_ids

__all__ = ["cluster_link", "like_link"]


def like_link(document: str) -> None:
    """A link to the passages nearest to a document."""
    link_to("search", "More like this", icon=":material/hub:", like=written_ids([document]))


def cluster_link(number: int) -> None:
    """A link to the search in one cluster."""
    link_to("search", "Search in it", icon=":material/search:", where=f"cluster = {number}")
