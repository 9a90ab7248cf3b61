"""Why passages matched a query."""

from collections.abc import Sequence

import numpy as np

from nearsay.indexer.catalogue.passage import encoded_text
from nearsay.indexer.query.cosines import encoded, unit_vector
from nearsay.indexer.query.explanation import ExplainedPassage, Explanation
from nearsay.indexer.query.leave_one_out import leave_out_passage_words, leave_out_query_words
from nearsay.indexer.query.matched_terms import matched_terms
from nearsay.indexer.query.sentences import best_sentences
from nearsay.indexer.query.shared_score import SharedScore, share_out
from nearsay.training.sentence.contributions import ContributingEncoder
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["explain_passages"]


def explain_passages(
    encoder: TextEncoder,
    query: str,
    passages: Sequence[ExplainedPassage],
    *,
    language: str = "en",
    sentences: bool = True,
) -> list[Explanation]:
    """Say of each passage which words, and which sentence, made it match the query.

    language:  ISO 639 code, for finding sentence ends
    sentences: whether the best sentence is looked for; it costs an encoding of all the passages again

    Where the encoder averages its tokens, the shares are exact: the cosine is a sum over tokens, worked out
    by the encoder's own runtime in its own precision. The stored vector came from another pass, in other
    company, and what the two scores differ by is `rounding`: under 0.000001 at float32, and in any precision
    for BERT on processors with AVX512 and without AMX, where company changes nothing up to the pooling; else
    up to about 0.002 at a narrower precision.

    For other encoders `exact` is False and a word's share is an approximation: where the pooling is a maximum
    or an activation comes after it, by a rule that shares the same sum out
    (`nearsay.training.sentence.pooling_shares`); where one token's vector is taken, as [CLS] pooling does,
    what the score loses without the word (`nearsay.indexer.query.leave_one_out`).
    """
    if not passages:
        return []
    texts = [encoded_text(passage.title, passage.text) for passage in passages]
    borders = [
        len(text) - len(passage.text) for text, passage in zip(texts, passages, strict=True)
    ]  # where each title ends, with the space after it
    exact, unit_query, own, asked = _shared_out(encoder, query, texts, borders)
    matched = matched_terms(query, [(passage.title, passage.text) for passage in passages])
    best = (
        best_sentences(encoder, unit_query, [passage.text for passage in passages], language=language)
        if sentences
        else [None] * len(passages)
    )
    explanations: list[Explanation] = []
    for i, passage in enumerate(passages):
        score = own[i].score if passage.score is None else passage.score
        explanations.append(
            Explanation(
                words=own[i].within(texts[i], borders[i], len(texts[i])),
                title=own[i].within(texts[i], 0, borders[i]),
                rest=own[i].rest,
                query=asked[i].within(query, 0, len(query)),
                query_rest=asked[i].rest,
                score=score,
                rounding=score - own[i].score,
                exact=exact,
                seen=max(own[i].seen - borders[i], 0),
                matched=matched[i].terms,
                matches=matched[i].words,
                sentence=best[i],
            )
        )
    return explanations


def _shared_out(
    encoder: TextEncoder, query: str, texts: Sequence[str], borders: Sequence[int]
) -> tuple[bool, np.ndarray[tuple[int], np.dtype[np.float64]], list[SharedScore], list[SharedScore]]:
    """Whether it is exact, the query's vector, and each score over the passage's and the query's words."""
    if isinstance(encoder, ContributingEncoder):
        asked = encoder.contributions([query], kind=TextKind.QUERY)
        given = encoder.contributions(texts) if asked is not None else None
        if asked is not None and given is not None:
            unit_query = unit_vector(asked[0].total)
            own = [share_out(text, parts, unit_query) for text, parts in zip(texts, given, strict=True)]
            other = [share_out(query, asked[0], unit_vector(parts.total)) for parts in given]
            return all(parts.exact for parts in (*asked, *given)), unit_query, own, other
    unit_query = encoded(encoder, [query], TextKind.QUERY)[0]
    own = leave_out_passage_words(encoder, unit_query, texts, borders)
    other = leave_out_query_words(encoder, query, encoded(encoder, texts))
    return False, unit_query, own, other
