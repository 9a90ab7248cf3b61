"""The sentence of a passage that answers best."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking, ChunkingMethod, Span, chunk
from nearsay.indexer.query.cosines import cosines
from nearsay.indexer.query.explanation import BestSentence
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["best_sentences"]


def best_sentences(
    encoder: TextEncoder, query: NDArray[np.float64], texts: Sequence[str], *, language: str = "en"
) -> list[BestSentence | None]:
    """For each passage's text the sentence nearest to the query, None where there is no more than one.

    query:    (dimension,) the query's vector, of length 1
    language: ISO 639 code, for finding sentence ends

    All sentences go through the encoder together, each different one once, without their documents' titles.
    """
    found = _sentences(texts, language)
    chosen = [(text, spans if len(spans) > 1 else []) for text, spans in zip(texts, found, strict=True)]
    pieces = [text[start:end] for text, spans in chosen for start, end in spans]
    scores = cosines(encoder, query, pieces)
    best: list[BestSentence | None] = []
    begin = 0
    for text, spans in chosen:
        own = scores[begin : begin + len(spans)]
        begin += len(spans)
        best.append(_best(text, spans, own) if spans else None)
    return best


def _best(text: str, spans: Sequence[Span], scores: NDArray[np.float64]) -> BestSentence:
    place = int(scores.argmax())
    start, end = spans[place]
    return BestSentence(text[start:end], start, end, float(scores[place]))


def _sentences(texts: Sequence[str], language: str) -> list[list[Span]]:
    """Sentences are cut without a look at tokens."""
    return chunk(
        texts, Chunking(ChunkingMethod.SENTENCES, language=language), lambda _: [], rooms=[1] * len(texts)
    )
