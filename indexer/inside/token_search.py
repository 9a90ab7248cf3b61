"""Tokens of a collection that a layer, or some of its heads, have nearest to a token; and what they share."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import clusterings, passages
from nearsay.indexer.inside.token_sample import TokenSample
from nearsay.indexer.neighbours.points import Explored

if TYPE_CHECKING:
    from nearsay.training.bert.attention import AttentionReader

__all__ = ["KwicPart", "SearchBy", "Summary", "TokenMatch", "TokenMatches", "search_tokens"]

_MOST = 500  # matches that can be asked for
_FEW = 12  # values of a summary
_TEN = 10
_FAR = 8  # tokens: offsets beyond are counted together


class SearchBy(StrEnum):
    """What of a token is compared."""

    EMBEDDING = "embedding"  # its vector at the layer
    CONTEXT = "context"  # the outputs of the chosen heads, side by side; those of the others are zeros


class KwicPart(StrEnum):
    """What a piece of a line is."""

    TEXT = "text"
    MATCH = "match"
    ATTENDED = "attended"
    BOTH = "both"  # the token attends to itself most


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """A token of the sample in its passage."""

    rank: int  # from 1
    score: float  # cosine
    id: str  # of the document
    title: str
    passage: int  # its number
    text: str  # title and passage, as the encoder reads them
    token: str
    start: int  # characters of the text
    end: int
    place: int  # tokens before it, [CLS] among them
    tag: str | None  # by the tagger; None without one
    attended: str  # the token that it attends to most, over the chosen heads
    attended_start: int  # equals attended_end for a special token
    attended_end: int
    attended_offset: int  # tokens from the match on
    attended_weight: float  # mean over the heads, 0 to 1
    attended_tag: str | None
    cluster: str | None
    metadata: Mapping[str, JsonValue]

    def line(self, width: int = 40) -> list[tuple[KwicPart, str]]:
        """The match in so many characters of context on either side, in pieces.

        What it attends to is among them, with an ellipsis before or after it, even if it is further away.
        """
        low, high = max(self.start - width, 0), min(self.end + width, len(self.text))
        own, other = (self.start, self.end), (self.attended_start, self.attended_end)
        before = after = []
        marks = [(*own, KwicPart.BOTH if own == other else KwicPart.MATCH)]
        if other[1] > other[0] and own != other:
            far = (KwicPart.ATTENDED, self.text[slice(*other)])
            if other[1] < low:
                before = [far, (KwicPart.TEXT, " … ")]
            elif other[0] > high:
                after = [(KwicPart.TEXT, " … "), far]
            else:
                low, high = min(low, other[0]), max(high, other[1])
                marks = sorted([*marks, (*other, KwicPart.ATTENDED)])
        pieces = [*before] if before or low == 0 else [(KwicPart.TEXT, "…")]
        for start, end, part in marks:
            pieces += [(KwicPart.TEXT, self.text[low:start]), (part, self.text[start:end])]
            low = max(low, end)
        pieces.append((KwicPart.TEXT, self.text[low:high]))
        pieces += after or ([(KwicPart.TEXT, "…")] if high < len(self.text) else [])
        return [(part, _one_line(piece)) for part, piece in pieces if piece]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Summary:
    """How often each value is among the matches, and among the tokens they attend to most."""

    name: str  # token, word shape, position, offset, tag, cluster, or a metadata field
    matched: tuple[tuple[str, int], ...]  # the commonest twelve, numbers in their order
    attended: tuple[tuple[str, int], ...]  # empty where it is of the passage


@dataclass(frozen=True, slots=True)
class TokenMatches:
    """What was found."""

    matches: tuple[TokenMatch, ...]
    summaries: tuple[Summary, ...]
    searched: int  # tokens
    notes: tuple[str, ...]


def search_tokens(
    explored: Explored,
    sample: TokenSample,
    reader: "AttentionReader",
    vector: NDArray[np.float32],
    *,
    by: SearchBy = SearchBy.EMBEDDING,
    heads: Sequence[int] = (),
    k: int = 50,
    special: bool = True,
) -> TokenMatches:
    """The tokens of a sample that are nearest to a token's vector, by cosine over all of it.

    vector:  (width,), of the sample's encoder and layer: a state, or the heads' outputs
    by:      embedding, or context: the outputs of the chosen heads alone
    heads:   from 0; none = all. Which token a match attends to most is averaged over them, too
    special: whether [CLS] and [SEP] may be that token; in many layers they mostly are. They are no matches
    """
    by = SearchBy(by)
    chosen = sorted({*heads}) or list(range(sample.heads))
    if chosen[0] < 0 or chosen[-1] >= sample.heads:
        raise BadInputError(f"there is no head {chosen[-1] + 1}: the layer has {sample.heads}")
    if not 1 <= k <= _MOST:
        raise BadInputError(f"{k} matches cannot be asked for. Ask for 1 to {_MOST}")
    if vector.shape != (sample.states.shape[1],):
        raise BadInputError(
            f"the vector is of shape {vector.shape}, and the sample's have {sample.states.shape[1]} "
            "dimensions"
        )
    scores = _cosines(sample, vector.astype(np.float32), by, chosen)
    own = sample.tokens[:, 2] > sample.tokens[:, 1]
    there = explored.snapshot().finds(sample.tokens[:, 0])
    scores[~(own & there)] = -np.inf
    best = np.argpartition(-scores, min(k, scores.size - 1))[:k]
    best = best[np.lexsort((best, -scores[best]))]
    best = best[np.isfinite(scores[best])]
    found = tuple(_matches(explored, sample, best, scores, chosen, reader.token, special=special))
    gone = int(np.count_nonzero(own & ~there))
    notes = (f"{counted(gone, 'token')} of passages that were removed since are left out",) if gone else ()
    return TokenMatches(found, tuple(_summaries(found)), int(np.count_nonzero(own & there)), notes)


def _cosines(
    sample: TokenSample, vector: NDArray[np.float32], by: SearchBy, heads: Sequence[int]
) -> NDArray[np.float32]:
    if by is SearchBy.EMBEDDING:
        found: NDArray[np.float32] = sample.states @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        return found
    # Zeroed heads add nothing to a product, so that zeroing the one vector is enough.
    asked = np.zeros_like(vector).reshape(sample.heads, -1)
    asked[list(heads)] = vector.reshape(sample.heads, -1)[list(heads)]
    lengths = np.sqrt(sample.head_energy[:, list(heads)].sum(axis=1))
    products: NDArray[np.float32] = sample.contexts @ asked.reshape(-1)
    products /= np.maximum(lengths * float(np.linalg.norm(asked)), 1e-12)
    return products


def _matches(
    explored: Explored,
    sample: TokenSample,
    best: NDArray[np.int64],
    scores: NDArray[np.float32],
    heads: Sequence[int],
    name: Callable[[int], str],
    *,
    special: bool,
) -> Iterator[TokenMatch]:
    numbers = sorted({int(number) for number in sample.tokens[best, 0]})
    collection = sample.row.collection_id
    with explored.store.database.reading() as connection:
        rows = passages.read_passages(connection, collection, numbers)
        texts = passages.encoded_texts(connection, collection, numbers)
        named = clusterings.names_among(connection, collection, numbers)
    rank = 0
    for token in best.tolist():
        number, start, end, _, place, tag = (int(value) for value in sample.tokens[token])
        if number not in rows or number not in texts:  # removed in this very moment
            continue
        rank += 1
        text = texts[number]
        weights = sample.attention(token, heads)
        own_text = sample.tokens[token - place : token - place + weights.size]
        counted_in = (own_text[:, 2] > own_text[:, 1]) | special
        there = int(np.where(counted_in, weights, -1.0).argmax())
        _, other_start, other_end, other_id, _, other_tag = (int(value) for value in own_text[there])
        yield TokenMatch(
            rank=rank,
            score=float(scores[token]),
            id=rows[number].document_id,
            title=rows[number].title,
            passage=number,
            text=text,
            token=text[start:end],
            start=start,
            end=end,
            place=place,
            tag=_label(sample, tag),
            attended=text[other_start:other_end] if other_end > other_start else name(other_id),
            attended_start=other_start,
            attended_end=other_end,
            attended_offset=there - place,
            attended_weight=float(weights[there]),
            attended_tag=_label(sample, other_tag),
            cluster=named.get(number),
            metadata=rows[number].metadata,
        )


def _label(sample: TokenSample, tag: int) -> str | None:
    return sample.labels[tag] if tag >= 0 else None


def _summaries(matches: Sequence[TokenMatch]) -> Iterator[Summary]:
    if not matches:
        return
    own, other = [match.token for match in matches], [match.attended for match in matches]
    yield Summary("token", _commonest(_lower(own)), _commonest(_lower(other)))
    if any(match.tag is not None for match in matches):
        tags = [match.tag or "none" for match in matches], [match.attended_tag or "none" for match in matches]
        yield Summary("tag", *map(_commonest, tags))
    special = [match.attended_start == match.attended_end for match in matches]
    shapes = [name if put_in else _shape(name) for name, put_in in zip(other, special, strict=True)]
    yield Summary("word shape", _commonest(map(_shape, own)), _commonest(shapes))
    yield Summary(
        "position",
        _tens(match.place for match in matches),
        _tens(match.place + match.attended_offset for match in matches),
    )
    offsets = Counter(max(-_FAR, min(_FAR, match.attended_offset)) for match in matches)
    yield Summary("offset", (), tuple((_offset(value), offsets[value]) for value in sorted(offsets)))
    if any(match.cluster for match in matches):
        yield Summary("cluster", _commonest(match.cluster or "none" for match in matches), ())
    for field in sorted({field for match in matches for field in match.metadata}):
        values = [match.metadata.get(field) for match in matches]
        known = [str(value) for value in values if isinstance(value, str | int | float | bool)]
        if len(known) > len({*known}):  # something is there more than once
            yield Summary(field, _commonest(known), ())


def _commonest(values: "Iterator[str] | Sequence[str] | map[str]") -> tuple[tuple[str, int], ...]:
    return tuple(Counter(values).most_common(_FEW))


def _lower(words: Sequence[str]) -> list[str]:
    return [word.lower() for word in words]


def _shape(word: str) -> str:
    """Xx, XX, xx, 00 or a mixture, runs written twice at most; what is no letter or digit as it is."""
    shape = ""
    for character in word:
        kind = unicodedata.category(character)
        sign = {"Lu": "X", "Lt": "X", "Nd": "0"}.get(kind, "x" if kind[0] == "L" else character)
        if not shape.endswith(sign * 2):
            shape += sign
    return shape


def _tens(places: Iterator[int]) -> tuple[tuple[str, int], ...]:
    tens = Counter(place // _TEN for place in places)
    return tuple((f"{ten * _TEN}–{ten * _TEN + _TEN - 1}", tens[ten]) for ten in sorted(tens))


def _offset(value: int) -> str:
    if abs(value) >= _FAR:
        return f"{'+' if value > 0 else '−'}{_FAR} and more"
    return "itself" if value == 0 else f"{'+' if value > 0 else '−'}{abs(value)}"


def _one_line(text: str) -> str:
    return "".join(" " if character.isspace() else character for character in text)
