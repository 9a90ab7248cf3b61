"""What shorter and coarser vectors of one encoder cost in quality and gain in room and time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.evaluation.correlation import spearman_correlation
from nearsay.training.evaluation.encoded_texts import encoded_texts, unit_rows
from nearsay.training.evaluation.ndcg import ndcg
from nearsay.training.sentence.compression.quantisation import Int8Ranges, binary_codes, signs
from nearsay.training.sentence.compression.stored_vectors import (
    BinaryVectors,
    FloatVectors,
    Int8Vectors,
    StoredVectors,
)
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["CompressionRow", "compare_compressions"]

Vectors = NDArray[np.float32]

_DEPTH = 10
_TIMED_QUERIES = 100
_TIMED_RUNS = 5


@dataclass(frozen=True, slots=True)
class CompressionRow:
    """What one way to store the vectors reached; None where it was not or cannot be measured."""

    variant: str
    dimension: int
    bytes_per_vector: int
    spearman: float | None = None  # of cosine and score on scored pairs, times 100
    spearman_lost: float | None = None  # against float32; negative is a gain
    ndcg_at_10: float | None = None  # on the retrieval set, 0 to 1
    ndcg_lost: float | None = None
    milliseconds: float | None = None  # of one exact search on one thread of Python; median of 5 runs


@dataclass(frozen=True, slots=True)
class _Variant:
    name: str
    dimension: int
    stored: Callable[[Vectors], StoredVectors]
    restored: Callable[[Vectors], Vectors] | None  # what is left of vectors; None if a search alone shows it


@dataclass(frozen=True, slots=True)
class _Corpus:
    """A retrieval set, encoded."""

    judged: RetrievalSet
    query_ids: Sequence[str]
    document_ids: Sequence[str]
    queries: Vectors  # unit rows
    documents: Vectors


def compare_compressions(
    encoder: TextEncoder,
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
    told = progress or _silent
    sentences = unit_rows(encoded_texts(encoder, texts, listener=lambda done: told(done, total))[0])
    corpus = None
    if retrieval is not None:
        corpus = _encoded(encoder, retrieval, lambda done: told(len(texts) + done, total))
    rows = []
    for variant in _variants(encoder.dimension, dimensions):
        row = _row(variant, sentences, pairs)
        rows.append(row if corpus is None else _searched(row, variant, corpus))
    return [_with_losses(row, rows[0]) for row in rows]


def _variants(width: int, dimensions: Sequence[int]) -> Iterator[_Variant]:
    yield _Variant("float32", width, FloatVectors, np.copy)
    yield _Variant("float16", width, _halved, lambda vectors: vectors.astype(np.float16).astype(np.float32))
    yield _Variant("int8", width, Int8Vectors.of, _int8)
    yield _Variant(
        "binary", width, BinaryVectors.of, lambda vectors: signs(binary_codes(vectors), vectors.shape[1])
    )
    yield _Variant(
        "binary, rescored by itself", width, lambda vectors: BinaryVectors.of(vectors, rescored=True), None
    )
    yield _Variant(
        "binary, rescored by int8",
        width,
        lambda vectors: BinaryVectors.of(vectors, rescored_by=Int8Vectors.of(vectors)),
        None,
    )
    yield _Variant(
        "binary, rescored by float32",
        width,
        lambda vectors: BinaryVectors.of(vectors, rescored_by=FloatVectors(vectors)),
        None,
    )
    for number in dimensions:
        yield _Variant(f"first {number} of {width}", number, FloatVectors, np.copy)


def _halved(vectors: Vectors) -> FloatVectors:
    return FloatVectors(vectors.astype(np.float16))


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


def _searched(row: CompressionRow, variant: _Variant, corpus: _Corpus) -> CompressionRow:
    queries = _cut(corpus.queries, variant.dimension)
    stored = variant.stored(_cut(corpus.documents, variant.dimension))
    figures = []
    for query_id, query in zip(corpus.query_ids, queries, strict=True):
        ranking = [corpus.document_ids[hit] for hit in stored.nearest(query, _DEPTH + 1)]
        # As BEIR: the document that is the query itself is no answer.
        others = [document for document in ranking if document != query_id][:_DEPTH]
        figures.append(ndcg(others, corpus.judged.judgements[query_id]))
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


def _encoded(encoder: TextEncoder, judged: RetrievalSet, listener: Callable[[int], None]) -> _Corpus:
    query_ids = [query for query in judged.judgements if query in judged.queries]
    document_ids = sorted(judged.corpus)
    if not query_ids or not document_ids:
        raise BadInputError(
            f"the retrieval set {judged.name!r} has {len(document_ids)} documents and {len(query_ids)} "
            "judged queries. It needs some of both: name another split or folder"
        )
    queries, _ = encoded_texts(
        encoder, [judged.queries[query] for query in query_ids], kind=TextKind.QUERY, listener=listener
    )
    documents, _ = encoded_texts(
        encoder,
        [judged.corpus[document] for document in document_ids],
        listener=lambda done: listener(len(query_ids) + done),
    )
    return _Corpus(judged, query_ids, document_ids, unit_rows(queries), unit_rows(documents))


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


def _silent(_done: int, _total: int) -> None:
    return
