"""The kinds of judged sets."""

from enum import StrEnum

__all__ = ["EvaluationKind"]


class EvaluationKind(StrEnum):
    """What a judged set asks of an encoder."""

    STS = "sts"  # scored pairs: are similarities in the order of people's scores?
    TRIPLETS = "triplets"  # anchor, positive, negative: is the positive nearer?
    PAIRS = "pairs"  # pairs labelled 0 or 1: do similarities part the same from the different?
    NLI = "nli"  # premise, hypothesis, label: does a linear layer on the vectors tell the label?
    RETRIEVAL = "retrieval"  # corpus, queries, judgements: are the relevant documents found?
    RERANKING = "reranking"  # a query with positives and negatives: are the positives ranked first?
    CLUSTERING = "clustering"  # labelled texts: do clusters come out as the labels?
    CLASSIFICATION = "classification"  # labelled texts with a train file: does a linear layer tell the label?
