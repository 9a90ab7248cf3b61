"""Explanations of why passages match a query."""

import re
import sqlite3
import unicodedata
from collections.abc import Container, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking, ChunkingMethod, Span, chunk
from nearsay.data.errors import BadInputError
from nearsay.data.function_words import grammatical_words
from nearsay.indexer.catalogue.lexical_rows import TOKENIZER
from nearsay.indexer.catalogue.passages import encoded_text
from nearsay.indexer.query.hit import BestSentence, ExplainedPassage, Explanation, Hit, MatchedWord, WordShare
from nearsay.indexer.query.lexical import MOST_WORDS, quoted
from nearsay.training.sentence.contributing import ContributingEncoder, TextContributions
from nearsay.training.sentence.query_adapter import QueryAdapter
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind, WindowEncoder

_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
_CONTRACTED = re.compile(r"[^\W_]['’]\Z")
_OPEN, _CLOSE = "\x02", "\x03"
_UNMARKED = str.maketrans({"\0": " ", _OPEN: " ", _CLOSE: " "})


@dataclass(frozen=True, slots=True)
class MatchedTerms:
    """The words of a query that occur in one passage."""

    terms: tuple[str, ...]  # words of the query, as spelled and ordered there
    words: tuple[MatchedWord, ...]  # words of the passage, those of the title first


def matched_terms(query: str, passages: Sequence[tuple[str, str]]) -> list[MatchedTerms]:
    """Find the query's words in passages, each given as title and text.

    Function words ("that", "a") do not count, unless the query has no other words. SQLite's FTS5 does it with
    an in-memory index like the catalogue's own; PostgreSQL uses a later edition of the same stemmer, which
    can differ in rare endings.
    """
    words = _telling(query, passages)[:MOST_WORDS]
    if not words or not passages:
        return [MatchedTerms((), ()) for _ in passages]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE passage USING fts5(title, body, tokenize='{TOKENIZER}')")
        connection.executemany(
            "INSERT INTO passage(rowid, title, body) VALUES (?, ?, ?)",
            [(i, *(part.translate(_UNMARKED) for part in passage)) for i, passage in enumerate(passages)],
        )
        terms: list[list[str]] = [[] for _ in passages]
        for word in words:
            for (i,) in connection.execute("SELECT rowid FROM passage WHERE passage MATCH ?", [quoted(word)]):
                terms[i].append(word)
        found: dict[int, tuple[MatchedWord, ...]] = {}
        marked = connection.execute(
            "SELECT rowid, highlight(passage, 0, ?, ?), highlight(passage, 1, ?, ?) FROM passage "
            "WHERE passage MATCH ?",
            [_OPEN, _CLOSE, _OPEN, _CLOSE, " OR ".join(map(quoted, words))],
        )
        for i, title, body in marked:
            found[i] = (*_marked(title, in_title=True), *_marked(body, in_title=False))
    return [MatchedTerms(tuple(some), found.get(i, ())) for i, some in enumerate(terms)]


def _telling(query: str, passages: Sequence[tuple[str, str]]) -> list[str]:
    """The distinct words of the query, without function words if others are left.

    A part after an apostrophe ("don't", "it's") belongs to the word before it.
    """
    found = list(_WORD.finditer(query))
    texts = " ".join((query, *(part for passage in passages for part in passage)))
    empty = grammatical_words({word.casefold() for word in _WORD.findall(texts)})
    others = [
        word
        for word in found
        if word[0].casefold() not in empty and not _CONTRACTED.search(query, 0, word.start())
    ]
    return list({word[0].casefold(): word[0] for word in reversed(others or found)}.values())[::-1]


def _marked(text: str, *, in_title: bool) -> Iterator[MatchedWord]:
    """The words between marks, with their positions in the text without marks."""
    at = 0
    for i, piece in enumerate(re.split(f"[{_OPEN}{_CLOSE}]", text)):
        if i % 2:
            yield MatchedWord(piece, at, at + len(piece), in_title)
        at += len(piece)


def encoded(
    encoder: TextEncoder, texts: Sequence[str], kind: TextKind = TextKind.PASSAGE
) -> NDArray[np.float64]:
    """Encode texts to unit length, (texts, dimension); truncated texts are not reported."""
    if not texts:
        return np.empty((0, encoder.dimension))
    few = list(texts)
    window = (
        encoder.encode_window(few, kind=kind)
        if isinstance(encoder, WindowEncoder)
        else next(iter(encoder.stream([few], kind=kind)))
    )
    vectors = window.vectors.astype(np.float64)
    unit: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def unit_vector(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale a vector to unit length; zeros stay zeros."""
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


# Scripts that put no space between words: there each token of the encoder's stands alone.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0xA4CF),  # Chinese characters, kana, bopomofo, Yi
    (0xF900, 0xFAFF),  # compatibility forms of Chinese characters
    (0xFF66, 0xFF9D),  # narrow katakana
    (0x1B000, 0x1B16F),  # further kana
    (0x20000, 0x3FFFF),  # rare Chinese characters
)
_INSIDE_WORD = "'’"  # between letters: don't
_INSIDE_NUMBER = ".,:"  # between digits: 3.5
_JOINERS = "\u200c\u200d"  # zero-width: what they stand between is one sign


@dataclass(frozen=True, slots=True)
class TokenWord:
    """Adjacent tokens that form one word."""

    start: int  # characters of the text
    end: int
    tokens: tuple[int, ...]  # their indexes in the text


def token_words(text: str, spans: Sequence[Span]) -> list[TokenWord]:
    """Join word pieces to words.

    spans:   character spans of the tokens, in order; a token of white space only, or without characters, is
             in no word
    returns: the words in order: runs of letters and digits (with an apostrophe inside a word, a point inside
             a number), and all other characters one by one; in scripts without spaces, each token; tokens
             that share a character (the bytes of an emoji, the parts of a Hangul syllable) are one word
    """
    words: list[TokenWord] = []
    for token, (start, end) in enumerate(spans):
        piece = text[start:end]
        bare = piece.strip()
        if not bare:
            continue
        first = start + len(piece) - len(piece.lstrip())
        last = first + len(bare)
        before = words[-1] if words else None
        if before is not None and (first < before.end or (first == before.end and _joined(text, first))):
            words[-1] = TokenWord(min(before.start, first), max(before.end, last), (*before.tokens, token))
        else:
            words.append(TokenWord(first, last, (token,)))
    return words


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after a position belong to one word; both exist."""
    left, right = text[at - 1], text[at]
    if _extends(right) or left in _JOINERS or (_is_flag_half(left) and _is_flag_half(right)):
        return True
    if _in_word(left) and _in_word(right):
        return not (_is_unspaced(left) or _is_unspaced(right))
    around = text[at - 2 : at - 1] + right, left + text[at + 1 : at + 2]
    return _holds(left, around[0]) or _holds(right, around[1])


def _holds(sign: str, around: str) -> bool:
    """Whether a character between two others joins them."""
    if len(around) != 2:
        return False
    return (sign in _INSIDE_WORD and around.isalpha()) or (sign in _INSIDE_NUMBER and around.isdigit())


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or _extends(character)


def _extends(character: str) -> bool:
    """Whether it modifies the character before it: an accent, a vowel sign, a skin tone, a joiner."""
    return (
        character in _JOINERS
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or unicodedata.category(character).startswith("M")
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_unspaced(character: str) -> bool:
    code = ord(character)
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)


@dataclass(frozen=True, slots=True)
class SharedScore:
    """A text's words with their contributions to a score; parts and rest add up to the score."""

    parts: tuple[WordShare, ...]  # in the text's order
    rest: float  # what no word contributes
    score: float
    seen: int  # characters of the text that the encoder read

    def within(self, start: int, end: int) -> tuple[WordShare, ...]:
        """The words that begin in a span of the text, with positions relative to it."""
        return tuple(
            WordShare(
                each.text[: end - each.start], each.start - start, min(each.end, end) - start, each.share
            )
            for each in self.parts
            if start <= each.start < end
        )


def share_out(text: str, contributions: TextContributions, other: NDArray[np.float64]) -> SharedScore:
    """Split the cosine of a text and another vector into contributions of the text's words.

    other: (dimension,) the other text's vector, of unit length

    The cosine is the dot product of `other` with the text's normalised vector, which is a sum over tokens
    plus a constant, so each token's contribution is a dot product as well.
    """
    length = float(np.linalg.norm(contributions.total)) or 1.0
    shares = contributions.vectors @ other / length
    spans = [(int(start), int(end)) for start, end in contributions.spans]
    words = token_words(text, spans)
    parts = tuple(
        WordShare(text[word.start : word.end], word.start, word.end, float(shares[list(word.tokens)].sum()))
        for word in words
    )
    wordless = np.ones(len(shares), dtype=bool)
    wordless[[token for word in words for token in word.tokens]] = False
    rest = float(shares[wordless].sum() + contributions.constant @ other / length)
    seen = len(text) if contributions.whole else max((end for _, end in spans), default=0)
    return SharedScore(parts, rest, float(shares.sum() + contributions.constant @ other / length), seen)


_TOKENS = 12_000  # most that are encoded for one request: about half a second on two processor cores


@dataclass(frozen=True, slots=True)
class _Shortened:
    """Variants of a text, each without one of its spans."""

    stretches: list[Span]  # the spans, in characters of the text
    texts: list[str]  # "" if nothing would be left
    seen: int  # characters of the text that the encoder reads; later text is in no span


def leave_out_passage_words(
    encoder: TextEncoder,
    query: NDArray[np.float64],
    texts: Sequence[str],
    borders: Sequence[int],
) -> list[SharedScore]:
    """Compute for each passage how far its cosine to the query drops without each of its words.

    query:   (dimension,) of unit length
    texts:   the encoded texts; in long ones, several adjacent words are left out together and have one share
    borders: where in each text the title ends; no span crosses it

    A word that repeats what others say costs little when it is left out; that, and interactions of words, are
    in the rest.
    """
    each = max(_TOKENS // max(len(texts), 1), 1)
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
        shared.append(_shared(text, one, score, fallen, seen))
    return shared


def leave_out_query_words(
    encoder: TextEncoder, query: str, passages: NDArray[np.float64], adapter: QueryAdapter | None = None
) -> list[SharedScore]:
    """Compute for each passage how far its cosine to the query drops without each of the query's words.

    passages: (passages, dimension), each of unit length
    adapter:  applied to query vectors
    """
    offsets = encoder.token_offsets([query])[0]
    one = _shortened(query, offsets[: encoder.max_tokens], 0, _TOKENS)
    vectors = encoded(encoder, [query, *(text or query for text in one.texts)], TextKind.QUERY)
    scores = (vectors if adapter is None else adapter(vectors.astype(np.float32))) @ passages.T
    return [_shared(query, one, column[0], column[1:], one.seen) for column in scores.T.tolist()]


def _shared(text: str, one: _Shortened, score: float, without: Sequence[float], seen: int) -> SharedScore:
    """Contributions from the scores without each part; a text's only word has all of the score."""
    parts = tuple(
        WordShare(text[start:end], start, end, score - less if left else score)
        for (start, end), left, less in zip(one.stretches, one.texts, without, strict=True)
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


def best_sentences(
    encoder: TextEncoder, query: NDArray[np.float64], texts: Sequence[str], *, language: str = "en"
) -> list[BestSentence | None]:
    """Find the sentence nearest to the query in each passage's text; None if it is a single sentence.

    query:    (dimension,) the query's vector, of unit length
    language: ISO 639 code, for sentence splitting

    All distinct sentences are encoded together, without the documents' titles.
    """
    cut = Chunking(ChunkingMethod.SENTENCES, language=language)
    found = chunk(texts, cut, lambda _: [], rooms=[1] * len(texts))  # without a look at tokens
    chosen = [(text, spans if len(spans) > 1 else []) for text, spans in zip(texts, found, strict=True)]
    pieces = [text[start:end] for text, spans in chosen for start, end in spans]
    scores = encoded(encoder, pieces) @ query
    best: list[BestSentence | None] = []
    begin = 0
    for text, spans in chosen:
        own = scores[begin : begin + len(spans)]
        begin += len(spans)
        if not spans:
            best.append(None)
            continue
        start, end = spans[int(own.argmax())]
        best.append(BestSentence(text[start:end], start, end, float(own.max())))
    return best


def explain_passages(
    encoder: TextEncoder,
    query: str,
    passages: Sequence[ExplainedPassage],
    *,
    language: str = "en",
    sentences: bool = True,
    adapter: QueryAdapter | None = None,
) -> list[Explanation]:
    """Explain which words and which sentence of each passage match the query.

    language:  ISO 639 code, for sentence splitting
    sentences: whether to find the best sentence, which encodes all passages again
    adapter:   applied to query vectors before the search

    If the encoder averages its tokens, the shares are exact: the cosine is a sum over tokens, computed by the
    encoder's own runtime in its own precision. The stored vector was computed in another batch, and the
    difference of the two scores is `rounding`: below 0.000001 in float32, and in any precision for BERT on
    processors with AVX512 and without AMX, where the batch changes nothing up to the pooling; otherwise up to
    about 0.002 at lower precision.

    For other encoders, `exact` is False and the shares are approximate: with max pooling, or an activation
    after the pooling, by a rule that splits the same sum (`nearsay.training.sentence.pooling_shares`); if a
    single token's vector is used, as in [CLS] pooling, by what the score loses without the word
    (`nearsay.indexer.query.explain`).
    """
    if not passages:
        return []
    texts = [encoded_text(passage.title, passage.text) for passage in passages]
    borders = [
        len(text) - len(passage.text) for text, passage in zip(texts, passages, strict=True)
    ]  # where each title ends, with the space after it
    exact, unit_query, own, asked = _shared_out(encoder, query, texts, borders, adapter)
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
                words=own[i].within(borders[i], len(texts[i])),
                title=own[i].within(0, borders[i]),
                rest=own[i].rest,
                query=asked[i].within(0, len(query)),
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
    encoder: TextEncoder,
    query: str,
    texts: Sequence[str],
    borders: Sequence[int],
    adapter: QueryAdapter | None,
) -> tuple[bool, np.ndarray[tuple[int], np.dtype[np.float64]], list[SharedScore], list[SharedScore]]:
    """Whether it is exact, the query vector, and each score split by the passage's and the query's words."""
    if isinstance(encoder, ContributingEncoder):
        asked = encoder.contributions([query], kind=TextKind.QUERY)
        given = encoder.contributions(texts) if asked is not None else None
        if asked is not None and given is not None:
            own_query, units = unit_vector(asked[0].total), [unit_vector(parts.total) for parts in given]
            unit_query = own_query if adapter is None else adapter.moved(own_query)
            seen = units if adapter is None else [adapter.seen_by(own_query, unit) for unit in units]
            own = [share_out(text, parts, unit_query) for text, parts in zip(texts, given, strict=True)]
            other = [share_out(query, asked[0], unit) for unit in seen]
            return all(parts.exact for parts in (*asked, *given)), unit_query, own, other
    unit_query = encoded(encoder, [query], TextKind.QUERY)[0]
    unit_query = unit_query if adapter is None else adapter.moved(unit_query)
    own = leave_out_passage_words(encoder, unit_query, texts, borders)
    other = leave_out_query_words(encoder, query, encoded(encoder, texts), adapter)
    return False, unit_query, own, other


def explain_hits(
    encoder: TextEncoder,
    query: str,
    hits: Sequence[Hit],
    *,
    titled: Container[str] = (),
    language: str = "en",
    adapter: QueryAdapter | None = None,
) -> list[Explanation]:
    """Explain why each hit matches the query, in order.

    encoder:  the one that found the hits
    titled:   ids of documents whose title is missing from their hits
    language: ISO 639 code, for sentence splitting
    adapter:  applied to query vectors before the search

    The cosine similarity is split, whatever the hits are ranked by. Raises BadInputError for hits of another
    encoder, and for hits without a part of the encoded text.
    """
    for hit in hits:
        if not hit.text or hit.id in titled:
            lacks = "title" if hit.text else "text"
            raise BadInputError(
                f"hit {hit.rank} ('{hit.id}') does not carry the {lacks} that its document has: fields= left "
                "it out, or the document has changed since. Search again without fields=, or name title and "
                "text there; explain=True needs neither"
            )
        if hit.lineage.fingerprint != encoder.fingerprint:
            found_by = f"{hit.lineage.encoder}, generation {hit.lineage.generation}"
            raise BadInputError(
                f"hit {hit.rank} ('{hit.id}') was found by another encoder ({found_by}) than the one that "
                f"answers now ({encoder.name}). Search again"
            )
    passages = [ExplainedPassage(hit.title, hit.text, hit.scores.dense) for hit in hits]
    return explain_passages(encoder, query, passages, language=language, adapter=adapter)
