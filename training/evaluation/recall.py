"""Recall."""

from collections.abc import Mapping, Sequence

__all__ = ["recall"]


def recall(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 100) -> float:
    """Give the share of the relevant documents that are among the first `depth`, 0 to 1.

    recall = relevant documents found / relevant documents

    ranking:    document ids, best first, no id twice
    judgements: relevance by document id; above 0 is relevant
    returns:    0.0 when nothing is relevant

    Manning, Raghavan & Schütze 2008, section 8.3, https://nlp.stanford.edu/IR-book/
    """
    relevant = {document for document, relevance in judgements.items() if relevance > 0}
    if not relevant:
        return 0.0
    return len(relevant.intersection(ranking[:depth])) / len(relevant)
