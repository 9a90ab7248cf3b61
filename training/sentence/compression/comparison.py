"""What shorter and coarser vectors of one encoder cost in quality and gain in room and time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

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
    Int8Ranges,
    binary_codes,
    hamming_distances,
    signs,
)
from nearsay.training.sentence.text_encoder import VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

__all__ = [
    "compare_compressions",
]


_CANDIDATES = 4  # ranked again for each hit that is asked for
_BLOCK_ROWS = 4096  # rows that are widened to float32 at a time, to stay in the processor's cache


@dataclass(frozen=True, slots=True)
class StoredNumbers:
    """Vectors that answer queries by dot products, as float32, float16 or int8."""

    codes: NDArray[np.float32] | NDArray[np.float16] | NDArray[np.int8]  # (n, dimension)
    ranges: Int8Ranges | None = None  # of int8

    @classmethod
    def of_int8(cls, vectors: NDArray[np.float32], ranges: Int8Ranges | None = None) -> "StoredNumbers":
        """Store vectors in a byte a number, within their own ranges unless others are given."""
        ranges = ranges or Int8Ranges.of([vectors])
        return cls(ranges.codes(vectors), ranges)

    @property
    def bytes_per_vector(self) -> int:
        """Bytes that one vector takes."""
        return int(self.codes.shape[1] * self.codes.itemsize)

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float32]:
        """Give the products of a (dimension,) query with all vectors, or with some.

        Of int8 a part is left out that is the same for all vectors.
        """
        weighted = query if self.ranges is None else query * self.ranges.step
        return _products(self.codes if rows is None else self.codes[rows], weighted)

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        """Give the rows of the `depth` vectors that are closest to a (dimension,) query, best first."""
        return best_rows(self.scores(query), depth)


@dataclass(frozen=True, slots=True)
class BinaryVectors:
    """A bit a number: those that differ from the query in the fewest bits, perhaps ranked again.

    Ranking again takes the candidates' dot products with the whole query: with finer vectors, or with the
    signs themselves, which takes no further bytes. Yamada et al. 2021, https://arxiv.org/abs/2106.00882
    """

    codes: NDArray[np.uint8]  # (n, bytes) of `binary_codes`
    dimension: int
    rescored: bool = False  # whether candidates are ranked again, by the signs if there is nothing finer
    finer: StoredNumbers | None = None  # of the same rows

    @classmethod
    def of(
        cls, vectors: NDArray[np.float32], *, rescored: bool = False, finer: StoredNumbers | None = None
    ) -> "BinaryVectors":
        """Store the signs of (n, dimension) vectors."""
        return cls(binary_codes(vectors), vectors.shape[1], rescored or finer is not None, finer)

    @property
    def bytes_per_vector(self) -> int:
        """Bytes that one vector takes."""
        return int(self.codes.shape[1]) + (self.finer.bytes_per_vector if self.finer else 0)

    def nearest(self, query: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        """As `StoredNumbers.nearest`."""
        distances = hamming_distances(binary_codes(query), self.codes)
        if not self.rescored:
            return best_rows(-distances, depth)
        rows = np.sort(best_rows(-distances, depth * _CANDIDATES))  # equal scores come in order of rows
        if self.finer is not None:
            scores = self.finer.scores(query, rows)
        else:
            scores = signs(self.codes[rows], self.dimension) @ query
        return rows[best_rows(scores, depth)]


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


Vectors = NDArray[np.float32]

_DEPTH = 10
_TIMED_QUERIES = 100
_TIMED_RUNS = 5


@dataclass(frozen=True, slots=True)
class _Variant:
    name: str
    dimension: int
    stored: Callable[[Vectors], StoredNumbers | BinaryVectors]
    restored: Callable[[Vectors], Vectors] | None  # what is left of vectors; None if a search alone shows it


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
    rows = []
    for variant in _variants(encoder.dimension, dimensions):
        row = _row(variant, sentences, pairs)
        rows.append(row if corpus is None else _searched(row, variant, corpus))
    return [_with_losses(row, rows[0]) for row in rows]


def _variants(width: int, dimensions: Sequence[int]) -> Iterator[_Variant]:
    yield _Variant("float32", width, StoredNumbers, np.copy)
    yield _Variant("float16", width, _halved, lambda vectors: vectors.astype(np.float16).astype(np.float32))
    yield _Variant("int8", width, StoredNumbers.of_int8, _int8)
    yield _Variant(
        "binary", width, BinaryVectors.of, lambda vectors: signs(binary_codes(vectors), vectors.shape[1])
    )
    yield _Variant(
        "binary, rescored by itself", width, lambda vectors: BinaryVectors.of(vectors, rescored=True), None
    )
    yield _Variant(
        "binary, rescored by int8",
        width,
        lambda vectors: BinaryVectors.of(vectors, finer=StoredNumbers.of_int8(vectors)),
        None,
    )
    yield _Variant(
        "binary, rescored by float32",
        width,
        lambda vectors: BinaryVectors.of(vectors, finer=StoredNumbers(vectors)),
        None,
    )
    for number in dimensions:
        yield _Variant(f"first {number} of {width}", number, StoredNumbers, np.copy)


def _halved(vectors: Vectors) -> StoredNumbers:
    return StoredNumbers(vectors.astype(np.float16))


def _int8(vectors: Vectors) -> Vectors:
    ranges = Int8Ranges.of([vectors])
    return ranges.restored(ranges.codes(vectors))


def _row(variant: _Variant, sentences: Vectors, pairs: Sequence[ScoredPair]) -> CompressionRow:
    bytes_per_vector = variant.stored(np.ones((1, variant.dimension), np.float32)).bytes_per_vector
    row = CompressionRow(variant.name, variant.dimension, bytes_per_vector)
    if not pairs or variant.restored is None:
        return row
    left = unit_rows(variant.restored(_cut(sentences, variant.dimension)))
    cosines = np.einsum("pd,pd->p", left[: len(pairs)], left[len(pairs) :])
    return replace(row, spearman=100 * spearman_correlation(cosines, [pair.score for pair in pairs]))


def _searched(row: CompressionRow, variant: _Variant, corpus: JudgedVectors) -> CompressionRow:
    queries = _cut(corpus.queries, variant.dimension)
    stored = variant.stored(_cut(corpus.documents, variant.dimension))
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
