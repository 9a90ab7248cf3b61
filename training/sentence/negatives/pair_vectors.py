"""The vectors that mining compares: anchors, corpus, and how each positive scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.encoded_texts import encoded_texts, unit_rows
from nearsay.training.sentence.batching import distinct
from nearsay.training.sentence.negatives.anchors import AnchorSet
from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["PairVectors", "pair_vectors"]


@dataclass(frozen=True, slots=True)
class PairVectors:
    """Unit vectors by one encoder."""

    anchors: NDArray[np.float32]  # (anchors, dimension), as queries
    corpus: NDArray[np.float32]  # (texts, dimension), as passages
    positive_scores: tuple[NDArray[np.float32], ...]  # an array for each anchor, a cosine for each positive
    truncated: int  # texts cut at the encoder's length limit


def pair_vectors(
    grouped: AnchorSet, corpus: MiningCorpus, encoder: TextEncoder, progress: Callable[[int, int], None]
) -> PairVectors:
    """Encode what has no vector yet, each text once for each kind; `progress` is told texts done and in all.

    BadInputError when the corpus brings vectors of another dimension.
    """
    if corpus.vectors is not None and corpus.vectors.shape[1] != encoder.dimension:
        raise BadInputError(
            f"the vectors of {corpus.name} have {corpus.vectors.shape[1]} dimensions and those of "
            f"{encoder.name} {encoder.dimension}. Mine with the encoder that made the vectors"
        )
    rows = {text: row for row, text in enumerate(corpus.texts)}
    others, _ = distinct([positive for positive in grouped.positives() if positive not in rows])
    anchors = [anchor.text for anchor in grouped.anchors]
    bare = list(corpus.texts) if corpus.vectors is None else []
    total = len(anchors) + len(bare) + len(others)
    queries, cut_queries = encoded_texts(
        encoder, anchors, kind=TextKind.QUERY, listener=lambda done: progress(done, total)
    )
    passages, cut_passages = encoded_texts(
        encoder, [*bare, *others], listener=lambda done: progress(len(anchors) + done, total)
    )
    unit_rows(queries)
    unit_rows(passages)
    of_corpus = passages[: len(bare)] if corpus.vectors is None else corpus.vectors
    of_others = dict(zip(others, passages[len(bare) :], strict=True))
    positive_scores = tuple(
        np.array(
            [
                np.dot(query, of_corpus[rows[positive]] if positive in rows else of_others[positive])
                for positive in anchor.positives
            ],
            dtype=np.float32,
        )
        for anchor, query in zip(grouped.anchors, queries, strict=True)
    )
    return PairVectors(queries, of_corpus, positive_scores, cut_queries + cut_passages)
