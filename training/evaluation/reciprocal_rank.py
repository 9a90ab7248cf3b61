"""The reciprocal rank; its mean over queries is MRR."""

from collections.abc import Mapping, Sequence

__all__ = ["reciprocal_rank"]


def reciprocal_rank(ranking: Sequence[str], judgements: Mapping[str, int], *, depth: int = 10) -> float:
    """Give 1 / rank of the first relevant document, 0.0 when none is among the first `depth`.

    ranking:    document ids, best first
    judgements: relevance by document id; above 0 is relevant

    Voorhees 1999, https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf
    """
    for rank, document in enumerate(ranking[:depth], start=1):
        if judgements.get(document, 0) > 0:
            return 1 / rank
    return 0.0
