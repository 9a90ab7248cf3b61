"""What shorter and coarser vectors of one encoder cost in quality and gain in room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.evaluation.reports import CompressionRow
from nearsay.training.evaluation.retrieval import JudgedVectors, best_rows, judged_vectors, nearest
from nearsay.training.evaluation.sts import spearman_correlation
from nearsay.training.sentence.compression.quantisation import (
    binary_codes,
    int8_codes,
    int8_ranges,
    int8_restored,
    signs,
)
from nearsay.training.sentence.text_encoder import VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

_CANDIDATES = 4  # ranked again for each hit that is asked for
_DEPTH = 10

Vectors: TypeAlias = NDArray[np.float32]
_Restored: TypeAlias = Callable[[Vectors], Vectors]  # what is left of (n, dimension) vectors that were stored


def _as_int8(vectors: Vectors) -> Vectors:
    ranges = int8_ranges(vectors)
    return int8_restored(int8_codes(vectors, ranges), ranges)


def _as_signs(vectors: Vectors) -> Vectors:
    return signs(binary_codes(vectors), vectors.shape[1])


@dataclass(frozen=True, slots=True)
class Variant:
    """A storage format of vectors.

    The score is the dot product of the query with the restored vector. For binary vectors the query is
    binarised, too, so the product is the Hamming similarity. Rescoring ranks the first candidates again with
    the full query: Yamada et al. 2021, https://arxiv.org/abs/2106.00882
    """

    name: str
    bits: int  # per dimension
    restored: _Restored
    finer: _Restored | None = None  # a finer restoration of the same vectors, for rescoring

    def bytes_per_vector(self, dimension: int) -> int:
        """Bytes of a vector with this many dimensions."""
        return -(-dimension * self.bits // 8)

    def rankings(self, queries: Vectors, documents: Vectors, depth: int) -> list[NDArray[np.int64]]:
        """For each query, the rows of the `depth` closest documents, best first.

        queries, documents: (n, dimension) by the encoder; equal scores in the order of rows
        """
        asked = _as_signs(queries) if self.restored is _as_signs else queries
        taken = depth if self.finer is None else depth * _CANDIDATES
        rankings = list(nearest(asked, self.restored(documents), depth=taken))
        if self.finer is None:
            return rankings
        fine = self.finer(documents)
        candidates = [np.sort(rows) for rows in rankings]
        return [
            rows[best_rows(fine[rows] @ query, depth)]
            for query, rows in zip(queries, candidates, strict=True)
        ]


VARIANTS = (
    Variant("float32", 32, np.copy),
    Variant("float16", 16, lambda vectors: vectors.astype(np.float16).astype(np.float32)),
    Variant("int8", 8, _as_int8),
    Variant("binary", 1, _as_signs),
    Variant("binary, rescored by itself", 1, _as_signs, _as_signs),
    Variant("binary, rescored by int8", 1 + 8, _as_signs, _as_int8),
    Variant("binary, rescored by float32", 1 + 32, _as_signs, np.copy),
)


def compare_compressions(
    encoder: VectorEncoder,
    *,
    pairs: Sequence[ScoredPair] = (),
    retrieval: RetrievalSet | None = None,
    dimensions: Sequence[int] = (),
    progress: Callable[[int, int], None] | None = None,
) -> list[CompressionRow]:
    """Measure float32, float16, int8, binary, binary with rescoring, and truncated vectors on the same texts.

    pairs:      scored pairs, for Spearman's correlation; both sides are compressed
    retrieval:  a judged corpus, for nDCG@10; the query stays float32, except for binary variants
    dimensions: of truncated vectors, for an encoder trained with the Matryoshka objective
    progress:   called with the number of texts encoded, and of all

    Int8 ranges are those of the stored vectors. All cosines are of unit vectors. Raises BadInputError if
    there is nothing to measure on, or a dimension is not smaller than the encoder's.
    """
    wrong = [number for number in dimensions if not 1 <= number < encoder.dimension]
    if wrong:
        raise BadInputError(
            f"{encoder.name} gives {encoder.dimension} dimensions, which cannot be cut to {wrong[0]}. "
            f"Name dimensions from 1 to {encoder.dimension - 1}"
        )
    if not pairs and retrieval is None:
        raise BadInputError("there is nothing to measure on. Give scored pairs, a retrieval set or both")
    texts = [pair.sentence1 for pair in pairs] + [pair.sentence2 for pair in pairs]
    total = len(texts) + (len(retrieval.judgements) + len(retrieval.corpus) if retrieval else 0)
    sentences = unit_rows(encoded_texts(encoder, texts, progress=progress, total=total)[0])
    corpus = None
    if retrieval is not None:
        corpus = judged_vectors(encoder, retrieval, progress, before=len(texts), total=total)
    width = encoder.dimension
    variants = [(width, one) for one in VARIANTS]
    variants += [(number, Variant(f"first {number} of {width}", 32, np.copy)) for number in dimensions]
    rows: list[CompressionRow] = []
    for dimension, variant in variants:
        row = CompressionRow(variant.name, dimension, variant.bytes_per_vector(dimension))
        if pairs and variant.finer is None:  # a rescored search has no similarity of its own
            left = unit_rows(variant.restored(_cut(sentences, dimension)))
            cosines = np.vecdot(left[: len(pairs)], left[len(pairs) :])
            spearman = 100 * spearman_correlation(cosines, [pair.score for pair in pairs])
            row = replace(row, spearman=spearman)
        if corpus is not None:
            row = replace(row, ndcg_at_10=_ndcg(variant, dimension, corpus))
        rows.append(row)
    return [_with_losses(row, rows[0]) for row in rows]


def _ndcg(variant: Variant, dimension: int, corpus: JudgedVectors) -> float:
    queries, documents = _cut(corpus.queries, dimension), _cut(corpus.documents, dimension)
    rankings = variant.rankings(queries, documents, _DEPTH + 1)  # one more, for the query's own document
    figures = [
        ndcg(corpus.ranking(query, rows, _DEPTH), corpus.judged.judgements[query])
        for query, rows in zip(corpus.query_ids, rankings, strict=True)
    ]
    return float(np.mean(figures))


def _cut(vectors: Vectors, dimension: int) -> Vectors:
    if vectors.shape[1] == dimension:
        return vectors
    return unit_rows(vectors[:, :dimension].copy())


def _with_losses(row: CompressionRow, whole: CompressionRow) -> CompressionRow:
    return replace(
        row,
        spearman_lost=_difference(whole.spearman, row.spearman),
        ndcg_lost=_difference(whole.ndcg_at_10, row.ndcg_at_10),
    )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after
