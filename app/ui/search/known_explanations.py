"""Why passages matched, kept for a while: a page is drawn anew at every click."""

from collections.abc import Sequence

import streamlit as st

from nearsay.indexer import Collection, Hit
from nearsay.indexer.query.explanation import Explanation

__all__ = ["explained"]

_MOST = 300  # pages of a few hits, of everybody who looks


def explained(collection: Collection, query: str, hits: Sequence[Hit]) -> list[Explanation]:
    """Why each hit matched the query; at once where somebody asked lately.

    The encoder, the texts and the scores that were found are what an explanation depends on: they name it.
    """
    if not hits:
        return []
    parts = tuple((hit.title, hit.text, hit.scores.dense) for hit in hits)
    return _explained(hits[0].lineage.fingerprint, query, parts, collection, hits)


@st.cache_data(show_spinner=False, max_entries=_MOST, ttl=3_600)
def _explained(
    fingerprint: str,
    query: str,
    parts: tuple[tuple[str, str, float | None], ...],
    _collection: Collection,
    _hits: Sequence[Hit],
) -> list[Explanation]:
    del fingerprint, parts  # what names the entry
    return _collection.explain(query, _hits)
