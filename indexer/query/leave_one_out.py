"""An approximation for every encoder: how far the score falls when a word is left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Span
from nearsay.indexer.query.cosines import encoded
from nearsay.indexer.query.shared_score import SharedScore, WordPart
from nearsay.indexer.query.words import token_words
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["leave_out_passage_words", "leave_out_query_words"]

_TOKENS = 12_000  # most that are encoded for one request: about half a second on two processor cores


@dataclass(frozen=True, slots=True)
class _Shortened:
    """A text without one of its stretches, for each stretch in turn."""

    stretches: list[Span]  # characters of the text
    texts: list[str]  # "" where nothing would be left
    seen: int  # characters of the text that the encoder takes; what is beyond is in none of the texts


def leave_out_passage_words(
    encoder: TextEncoder,
    query: NDArray[np.float64],
    texts: Sequence[str],
    borders: Sequence[int],
    *,
    token_budget: int = _TOKENS,
) -> list[SharedScore]:
    """Say for each passage how far its cosine to the query falls without each of its words.

    query:        (dimension,) of length 1
    texts:        as they are encoded
    borders:      where in each text its title ends; no stretch goes over it
    token_budget: most tokens encoded in all. A longer passage loses several neighbouring words at a time,
                  which then have one part together

    A word that says what others say too costs little when it is missing; that, and what words do together, is
    in the rest.
    """
    each = max(token_budget // max(len(texts), 1), 1)
    shortened = [
        _shortened(text, offsets[: encoder.max_tokens], border, each)
        for text, offsets, border in zip(texts, encoder.token_offsets(texts), borders, strict=True)
    ]
    without = [text for one in shortened for text in one.texts]
    scores = (encoded(encoder, [*texts, *(text or texts[0] for text in without)]) @ query).tolist()
    shared: list[SharedScore] = []
    begin = len(texts)
    for text, one, score in zip(texts, shortened, scores, strict=False):
        fallen = scores[begin : begin + len(one.texts)]
        begin += len(one.texts)
        seen = len(text) if one.seen >= len(text.rstrip()) else one.seen
        shared.append(_shared(one, score, fallen, seen))
    return shared


def leave_out_query_words(
    encoder: TextEncoder, query: str, passages: NDArray[np.float64]
) -> list[SharedScore]:
    """Say for each passage how far its cosine to the query falls without each of the query's words.

    passages: (passages, dimension), each of length 1
    """
    offsets = encoder.token_offsets([query])[0]
    one = _shortened(query, offsets[: encoder.max_tokens], 0, _TOKENS)
    vectors = encoded(encoder, [query, *(text or query for text in one.texts)], TextKind.QUERY)
    scores = vectors @ passages.T
    return [_shared(one, column[0], column[1:], one.seen) for column in scores.T.tolist()]


def _shared(one: _Shortened, score: float, without: Sequence[float], seen: int) -> SharedScore:
    """Parts from the scores without; a text's only word has all of the score."""
    parts = tuple(
        WordPart(start, end, score - less if text else score)
        for (start, end), text, less in zip(one.stretches, one.texts, without, strict=True)
    )
    return SharedScore(parts, score - sum(part.share for part in parts), score, seen)


def _shortened(text: str, offsets: NDArray[np.int64], border: int, token_budget: int) -> _Shortened:
    words = token_words(text, [(int(start), int(end)) for start, end in offsets])
    at_once = max(-(-len(words) * len(offsets) // token_budget), 1)
    stretches: list[Span] = []
    for some in (
        [word for word in words if word.start < border],
        [word for word in words if word.start >= border],
    ):
        for begin in range(0, len(some), at_once):
            last = some[begin : begin + at_once][-1]
            stretches.append((some[begin].start, last.end))
    seen = max((word.end for word in words), default=0)
    return _Shortened(stretches, [_without(text[:seen], start, end) for start, end in stretches], seen)


def _without(text: str, start: int, end: int) -> str:
    return f"{text[:start].rstrip()} {text[end:].lstrip()}".strip()
