"""What shorter and coarser vectors of one encoder cost in quality and gain in room and time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.evaluation.reports import CompressionRow
from nearsay.training.evaluation.retrieval import JudgedVectors, best_rows, judged_vectors
from nearsay.training.evaluation.sts import spearman_correlation
from nearsay.training.sentence.compression.quantisation import (
    binary_codes,
    hamming_distances,
    int8_codes,
    int8_ranges,
    int8_restored,
    int8_step,
    signs,
)
from nearsay.training.sentence.text_encoder import VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

_CANDIDATES = 4  # ranked again for each hit that is asked for
_BLOCK_ROWS = 4096  # rows that are widened to float32 at a time, to stay in the processor's cache
_ONE = np.float32(1)
_DEPTH = 10
_TIMED_QUERIES = 100
_TIMED_RUNS = 5

Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Stored:
    """Vectors as they are kept, and how a query is compared with them."""

    bytes_per_vector: int
    # Gives the scores of a (dimension,) query with all vectors, or with those of some rows; higher is closer.
    scores: Callable[[Vectors, NDArray[np.int64] | None], NDArray[np.float32] | NDArray[np.int64]]
    finer: "Stored | None" = None  # the same vectors once more, by which candidates are ranked again

    def nearest(self, query: Vectors, depth: int) -> NDArray[np.int64]:
        """Give the rows of the `depth` vectors that are closest to a (dimension,) query, best first."""
        scores = self.scores(query, None)
        if self.finer is None:
            return best_rows(scores, depth)
        rows = np.sort(best_rows(scores, depth * _CANDIDATES))  # equal scores come in order of rows
        return rows[best_rows(self.finer.scores(query, rows), depth)]


def as_numbers(
    codes: Vectors | NDArray[np.float16] | NDArray[np.int8], step: Vectors | np.float32 = _ONE
) -> Stored:
    """Keep vectors as float32, float16 or int8, with the width of its levels; the score is the product.

    Of int8 a part is left out that is the same for all vectors.
    """
    return Stored(
        int(codes.shape[1] * codes.itemsize),
        lambda query, rows: _products(codes if rows is None else codes[rows], query * step),
    )


def as_int8(vectors: Vectors) -> Stored:
    """Keep vectors in a byte a number, within their own ranges."""
    ranges = int8_ranges(vectors)
    return as_numbers(int8_codes(vectors, ranges), int8_step(ranges))


def as_bits(vectors: Vectors, finer: "Callable[[Vectors], Stored] | None" = None) -> Stored:
    """Keep a bit a number: those that differ from the query in the fewest bits, perhaps ranked again.

    finer: keeps the vectors once more, to rank the candidates by their products with the whole query

    Yamada et al. 2021, https://arxiv.org/abs/2106.00882
    """
    codes = binary_codes(vectors)
    more = None if finer is None else finer(vectors)
    return Stored(
        codes.shape[1] + (0 if more is None else more.bytes_per_vector),
        lambda query, _: -hamming_distances(binary_codes(query), codes),
        more,
    )


def as_signs(vectors: Vectors) -> Stored:
    """Take the bits of `as_bits` for -1 and 1, which takes no further bytes."""
    codes = binary_codes(vectors)
    return Stored(0, lambda query, rows: signs(codes[rows], vectors.shape[1]) @ query)


def _products(
    vectors: NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8], query: NDArray[np.float32]
) -> NDArray[np.float32]:
    if vectors.dtype == np.float32:
        whole: NDArray[np.float32] = vectors @ query
        return whole
    products = np.empty(len(vectors), dtype=np.float32)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        # NumPy widens float16 number by number; torch does it with the processor's instructions.
        wide = (
            torch.from_numpy(block).float().numpy() if block.dtype == np.float16 else block.astype(np.float32)
        )
        products[start : start + _BLOCK_ROWS] = wide @ query
    return products


# The name of a way to store vectors; the way; and what is left of vectors, None if a search alone shows it.
_Variant: TypeAlias = tuple[str, Callable[[Vectors], Stored], Callable[[Vectors], Vectors] | None]
_VARIANTS: tuple[_Variant, ...] = (
    ("float32", as_numbers, np.copy),
    (
        "float16",
        lambda vectors: as_numbers(vectors.astype(np.float16)),
        lambda vectors: vectors.astype(np.float16).astype(np.float32),
    ),
    (
        "int8",
        as_int8,
        lambda vectors: int8_restored(int8_codes(vectors, int8_ranges(vectors)), int8_ranges(vectors)),
    ),
    ("binary", as_bits, lambda vectors: signs(binary_codes(vectors), vectors.shape[1])),
    ("binary, rescored by itself", partial(as_bits, finer=as_signs), None),
    ("binary, rescored by int8", partial(as_bits, finer=as_int8), None),
    ("binary, rescored by float32", partial(as_bits, finer=as_numbers), None),
)


def compare_compressions(
    encoder: VectorEncoder,
    *,
    pairs: Sequence[ScoredPair] = (),
    retrieval: RetrievalSet | None = None,
    dimensions: Sequence[int] = (),
    progress: Callable[[int, int], None] | None = None,
) -> list[CompressionRow]:
    """Measure float32, float16, int8, binary, binary with rescoring, and cut vectors on the same texts.

    pairs:      scored pairs, for Spearman's correlation; both sides are stored in fewer bits
    retrieval:  a judged corpus, for nDCG@10 and the time of a search; the query stays float32
    dimensions: first numbers of the vectors to keep, as for an encoder trained with the Matryoshka objective
    progress:   called with texts encoded and texts in all

    Int8 ranges are those of the vectors that are stored. Every cosine is of unit vectors. Raises
    BadInputError when there is nothing to measure on or a dimension is not smaller than the encoder's.
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
    variants = [(width, one) for one in _VARIANTS]
    variants += [(number, (f"first {number} of {width}", as_numbers, np.copy)) for number in dimensions]
    rows: list[CompressionRow] = []
    for dimension, (name, stored, restored) in variants:
        row = CompressionRow(name, dimension, stored(np.ones((1, dimension), np.float32)).bytes_per_vector)
        if pairs and restored is not None:
            left = unit_rows(restored(_cut(sentences, dimension)))
            cosines = np.vecdot(left[: len(pairs)], left[len(pairs) :])
            spearman = 100 * spearman_correlation(cosines, [pair.score for pair in pairs])
            row = replace(row, spearman=spearman)
        if corpus is not None:
            row = _searched(row, stored(_cut(corpus.documents, dimension)), corpus)
        rows.append(row)
    return [_with_losses(row, rows[0]) for row in rows]


def _searched(row: CompressionRow, stored: Stored, corpus: JudgedVectors) -> CompressionRow:
    queries = _cut(corpus.queries, row.dimension)
    figures = []
    for query_id, query in zip(corpus.query_ids, queries, strict=True):
        ranking = corpus.ranking(query_id, stored.nearest(query, _DEPTH + 1), _DEPTH)
        figures.append(ndcg(ranking, corpus.judged.judgements[query_id]))
    timed = queries[:_TIMED_QUERIES]
    seconds = []
    for _ in range(_TIMED_RUNS):
        started = perf_counter()
        for query in timed:
            stored.nearest(query, _DEPTH)
        seconds.append(perf_counter() - started)
    return replace(
        row, ndcg_at_10=float(np.mean(figures)), milliseconds=1000 * median(seconds) / max(len(timed), 1)
    )


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
