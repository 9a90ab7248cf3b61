"""Search a sample of a collection's tokens by the output of a layer or some of its heads."""

import hashlib
import importlib.metadata
import re
import threading
import time
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
from nearsay.indexer.catalogue.explored import TokenSampleRow, keep_sample, samples_of
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.neighbours.points import Explored, no_vectors
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentHeader, SegmentKind, open_tokens, write_segment
from nearsay.indexer.vectors.vector_store import unit_length

if TYPE_CHECKING:
    from tokenizers import Encoding

    from nearsay.training.bert.attention import AttentionReader, LayerStates
    from nearsay.training.bert.heads.tagger import Tagger

TOKENS = 50_000
_MOST_TOKENS = 256  # of a passage; attention weights grow with its square
_SOME = 200  # passages read at a time
_COLUMNS = 6  # of `tokens`: passage, start and end characters, vocabulary id, place, tag
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, eq=False)
class TokenSample:
    """An opened token sample; its arrays are views of the mapped file."""

    row: TokenSampleRow
    states: NDArray[np.float32]  # (tokens, width), the layer's output at unit length
    contexts: NDArray[np.float32]  # (tokens, heads * head width), the heads' concatenated outputs
    tokens: NDArray[np.int64]  # (tokens, 6), see `_COLUMNS`; special tokens have place >= 0 and no characters
    texts: NDArray[np.int64]  # (texts, 3): first token, number of tokens, offset of its weights
    weights: NDArray[np.float16]  # for each text (heads, its tokens, its tokens), concatenated
    head_energy: NDArray[np.float32]  # (tokens, heads): the squared norm of each head's output

    @property
    def heads(self) -> int:
        """The number of heads of the layer."""
        return int(self.head_energy.shape[1])

    @property
    def labels(self) -> list[str]:
        """The names of the tags; empty without a tagger."""
        return list(self.row.parameters.get("labels", ()))

    def text_of(self, token: int) -> int:
        """The index of the text that contains a token."""
        return int(np.searchsorted(self.texts[:, 0], token, side="right")) - 1

    def attention(self, token: int, heads: Sequence[int]) -> NDArray[np.float32]:
        """A token's attention to each token of its text, (its text's tokens,), averaged over heads."""
        first, count, begin = (int(value) for value in self.texts[self.text_of(token)])
        block = self.weights[begin : begin + self.heads * count * count].reshape(self.heads, count, count)
        rows = block[list(heads), token - first].astype(np.float32)
        averaged: NDArray[np.float32] = rows.mean(axis=0)
        return averaged


def make_sample(
    explored: Explored,
    reader: "AttentionReader",
    layer: int,
    *,
    tokens: int = TOKENS,
    seed: int = 0,
    tagger: str | None = None,
    anew: bool = False,
    progress: ProgressListener = unheard,
) -> TokenSampleRow:
    """Save a layer's outputs for the tokens of random passages, for `search_tokens`.

    layer:  from 1
    tokens: maximum number, including [CLS] and [SEP]; whole passages, cut to 256 tokens each
    tagger: folder of a `train tagger` head, whose tags are saved with the tokens
    anew:   create a new sample even if there is one with the same settings

    Raises BadInputError for an empty collection, a layer that does not exist, or too few tokens for one
    passage; BusyError if another process holds the writer lock at the start, or at the end for longer than
    the work took.
    """
    reader.check_layer(layer)
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        kept = samples_of(connection, snapshot.collection.id, reader.fingerprint)
    wanted = {"limit": tokens, "seed": seed, "tagger": tagger}
    for row in kept:
        same = all(row.parameters.get(name) == value for name, value in wanted.items())
        if row.layer == layer and same and not anew:
            return row
    started = time.monotonic()
    with explored.locked(snapshot.collection, "save a token sample"):  # fails before the work, not after
        pass
    numbers, texts, encodings = _drawn(explored, snapshot, reader, tokens, seed)
    arrays = _arrays(reader, layer, numbers, encodings, progress)
    labels: list[str] = []
    if tagger is not None:
        from nearsay.training.bert.heads.tagger import Tagger

        head = Tagger.load(tagger, device=explored.store.device)
        labels, arrays["tokens"][:, 5] = list(head.labels), _tags(head, texts, arrays)
    parameters: dict[str, Any] = {
        **wanted,
        "encoder": reader.name,
        "heads": reader.heads,
        "head_width": reader.head_width,
        "width": int(arrays["states"].shape[1]),
        "texts": len(texts),
        "cut": sum(bool(encoding.overflowing) for encoding in encodings),
        "lineage": [*reader.lineage, _step(layer, texts)],
        "labels": labels,
        "seconds": round(time.monotonic() - started, 1),
    }
    count = len(arrays["tokens"])
    wait = max(explored.store.wait, time.monotonic() - started)
    with explored.locked(snapshot.collection, "save a token sample", wait) as store:
        header = _header(reader.fingerprint, layer, parameters["width"], count)
        path = write_segment(store.segments(snapshot.collection.id), arrays, header)
        row = TokenSampleRow(
            snapshot.collection.id,
            reader.source,
            reader.fingerprint,
            layer,
            count,
            parameters,
            path.stem,
            now(),
        )
        with store.database.writing() as connection:
            keep_sample(connection, row)
    return row


def sample_rows(explored: Explored, fingerprint: str | None = None) -> list[TokenSampleRow]:
    """The saved token samples, newest first; fingerprint: only those of an encoder."""
    with explored.store.database.reading() as connection:
        return samples_of(connection, explored.snapshot().collection.id, fingerprint)


def opened_sample(store: Store, row: TokenSampleRow) -> TokenSample:
    """Open a sample after checking its hash; DamagedSegmentError if the file is missing or differs."""
    width, heads = int(row.parameters["width"]), int(row.parameters["heads"])
    path = store.segment(row.collection_id, row.sha256)
    arrays = open_tokens(path, row.sha256, _header(row.fingerprint, row.layer, width, row.tokens))
    contexts = arrays["contexts"]
    energy = np.empty((len(contexts), heads), np.float32)
    for begin in range(0, len(contexts), 8192):
        some = contexts[begin : begin + 8192].reshape(-1, heads, contexts.shape[1] // heads)
        energy[begin : begin + 8192] = np.einsum("thd,thd->th", some, some)
    return TokenSample(row, **arrays, head_energy=energy)


def drawn_texts(explored: Explored, count: int, seed: int = 0) -> list[str]:
    """Random passages with their titles, as encoded; BadInputError for an empty collection."""
    drawn: list[str] = []
    for _, texts in _passages(explored, explored.snapshot(), seed):
        drawn += texts
        if len(drawn) >= count:
            break
    return drawn[:count]


def _passages(explored: Explored, snapshot: Snapshot, seed: int) -> Iterator[tuple[list[int], list[str]]]:
    """The searchable passages in a random order, in pages of numbers and texts."""
    living = snapshot.living()
    if not living.size:
        raise BadInputError(f"nothing found: {no_vectors(explored)}")
    order = np.random.default_rng(seed).permutation(living)
    for begin in range(0, order.size, _SOME):
        some = order[begin : begin + _SOME].tolist()
        with explored.store.database.reading() as connection:
            found = passages.encoded_texts(connection, snapshot.collection.id, some)
        existing = [number for number in some if number in found]
        yield existing, [found[number] for number in existing]


def _drawn(
    explored: Explored, snapshot: Snapshot, reader: "AttentionReader", tokens: int, seed: int
) -> tuple[list[int], list[str], list["Encoding"]]:
    numbers: list[int] = []
    texts: list[str] = []
    encodings: list[Encoding] = []
    room = tokens
    cutting = reader.tokenizer(_MOST_TOKENS)
    for some, found in _passages(explored, snapshot, seed):
        for number, text, encoding in zip(some, found, cutting.encodings(found), strict=True):
            if len(encoding.ids) > room:
                if texts:
                    return numbers, texts, encodings
                raise BadInputError(
                    f"{tokens} tokens are too few: the first passage drawn has {len(encoding.ids)}. "
                    "Give a larger number"
                )
            numbers.append(number)
            texts.append(text)
            encodings.append(encoding)
            room -= len(encoding.ids)
    return numbers, texts, encodings


def _arrays(
    reader: "AttentionReader",
    layer: int,
    numbers: Sequence[int],
    encodings: Sequence["Encoding"],
    listener: ProgressListener,
) -> dict[str, NDArray[Any]]:
    counts = np.array([len(encoding.ids) for encoding in encodings], np.int64)
    firsts = np.cumsum(counts) - counts
    sizes = reader.heads * counts * counts
    begins = np.cumsum(sizes) - sizes
    total, width = int(counts.sum()), reader.heads * reader.head_width
    tokens = np.full((total, _COLUMNS), -1, np.int64)
    for number, encoding, first in zip(numbers, encodings, firsts.tolist(), strict=True):
        part = tokens[first : first + len(encoding.ids)]
        part[:, 0] = number
        part[:, 1:3] = encoding.offsets
        part[np.array(encoding.special_tokens_mask, bool), 1:3] = 0
        part[:, 3], part[:, 4] = encoding.ids, np.arange(len(encoding.ids))
    contexts = np.empty((total, width), np.float32)
    states = np.empty((total, width), np.float32)
    weights = np.empty(int(sizes.sum()), np.float16)
    done, lock = 0, threading.Lock()

    def take(text: int, found: "LayerStates") -> None:
        nonlocal done
        place = slice(firsts[text], firsts[text] + counts[text])
        states[place] = unit_length(found.states)
        contexts[place] = found.contexts
        weights[begins[text] : begins[text] + sizes[text]] = found.attention.reshape(-1)
        with lock:
            done += int(counts[text])
            listener(Progress(done, total))

    reader.layer([encoding.ids for encoding in encodings], layer, take)
    texts = np.stack([firsts, counts, begins], axis=1)
    return {"tokens": tokens, "texts": texts, "states": states, "contexts": contexts, "weights": weights}


def _tags(head: "Tagger", texts: Sequence[str], arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The index of the tag of the word in which each token begins; -1 for none."""
    words = [list(_WORD.finditer(text)) for text in texts]
    known = {name: number for number, name in enumerate(head.labels)}
    tags = np.full(len(arrays["tokens"]), -1, np.int64)
    for found, spans, (first, count, _) in zip(
        head.predict([[word.group() for word in some] for some in words]), words, arrays["texts"], strict=True
    ):
        ends = np.array([word.end() for word in spans], np.int64)
        numbers = np.array([*(known[tag] for tag in found), -1], np.int64)
        part = arrays["tokens"][first : first + count]
        own = numbers[np.searchsorted(ends, part[:, 1], side="right")]
        tags[first : first + count] = np.where(part[:, 2] > part[:, 1], own, -1)
    return tags


def _header(fingerprint: str, layer: int, width: int, count: int) -> SegmentHeader:
    return SegmentHeader(SegmentKind.TOKENS, f"{fingerprint}, layer {layer}", width, count)


def _step(layer: int, texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    version = importlib.metadata.version("nearsay")
    return f"layer {layer} over {len(texts):,} passages (sha256 {digest.hexdigest()[:12]}), nearsay {version}"


_MOST = 500  # matches
_FEW = 12  # values of a summary
_TEN = 10
_FAR = 8  # tokens; larger offsets are counted together


class SearchBy(StrEnum):
    """The vectors to compare."""

    EMBEDDING = "embedding"  # its vector at the layer
    CONTEXT = "context"  # the concatenated outputs of the chosen heads


class KwicPart(StrEnum):
    """The kind of a part of a line."""

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
    text: str  # title and passage, as encoded
    token: str
    start: int  # character offset in `text`
    end: int
    place: int  # index of the token, [CLS] included
    tag: str | None  # of the tagger; None without one
    attended: str  # the token that it attends to most, over the chosen heads
    attended_start: int  # equals attended_end for a special token
    attended_end: int
    attended_offset: int  # in tokens, from the match
    attended_weight: float  # mean over the heads, 0 to 1
    attended_tag: str | None
    cluster: str | None
    metadata: Mapping[str, JsonValue]

    def line(self, width: int = 40) -> list[tuple[KwicPart, str]]:
        """The match with `width` characters of context on either side, in parts.

        The attended token is included, separated by an ellipsis if it is farther away.
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
    """The frequency of each value among the matches, and among the tokens they attend to most."""

    name: str  # token, word shape, position, offset, tag, cluster, or a metadata field
    matched: tuple[tuple[str, int], ...]  # the twelve most frequent; numbers in ascending order
    attended: tuple[tuple[str, int], ...]  # empty for properties of the passage


@dataclass(frozen=True, slots=True)
class TokenMatches:
    """The result of `search_tokens`."""

    matches: tuple[TokenMatch, ...]
    summaries: tuple[Summary, ...]
    searched: int  # number of tokens
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
    """Find the tokens of a sample nearest to a token's vector, by exact cosine.

    vector:  (width,), of the sample's encoder and layer: an output of the layer, or of its heads
    by:      embedding, or context: the outputs of the chosen heads only
    heads:   from 0; empty = all. Attention is averaged over them
    special: whether [CLS] and [SEP] can be the attended token, as they mostly are in many layers. They are
             never matches
    """
    by = SearchBy(by)
    chosen = sorted({*heads}) or list(range(sample.heads))
    if chosen[0] < 0 or chosen[-1] >= sample.heads:
        raise BadInputError(f"there is no head {chosen[-1] + 1}: the layer has {sample.heads}")
    if not 1 <= k <= _MOST:
        raise BadInputError(f"k is {k}. Give a number of matches from 1 to {_MOST}")
    if vector.shape != (sample.states.shape[1],):
        raise BadInputError(
            f"the vector has the shape {vector.shape}. Give one of {sample.states.shape[1]} dimensions"
        )
    scores = _cosines(sample, vector.astype(np.float32), by, chosen)
    own = sample.tokens[:, 2] > sample.tokens[:, 1]
    there = explored.snapshot().finds(sample.tokens[:, 0])
    scores[~(own & there)] = -np.inf
    best = np.argpartition(-scores, min(k, scores.size - 1))[:k]
    best = best[np.lexsort((best, -scores[best]))]
    best = best[np.isfinite(scores[best])]
    found = tuple(_matches(explored, sample, best, scores, chosen, reader.token, special=special))
    removed = int(np.count_nonzero(own & ~there))
    notes = (f"not searched: {counted(removed, 'token')} of removed passages",) if removed else ()
    return TokenMatches(found, tuple(_summaries(found)), int(np.count_nonzero(own & there)), notes)


def _cosines(
    sample: TokenSample, vector: NDArray[np.float32], by: SearchBy, heads: Sequence[int]
) -> NDArray[np.float32]:
    if by is SearchBy.EMBEDDING:
        found: NDArray[np.float32] = sample.states @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        return found
    # Zeroed heads add nothing to a product, so only one vector has to be zeroed.
    query = np.zeros_like(vector).reshape(sample.heads, -1)
    query[list(heads)] = vector.reshape(sample.heads, -1)[list(heads)]
    lengths = np.sqrt(sample.head_energy[:, list(heads)].sum(axis=1))
    products: NDArray[np.float32] = sample.contexts @ query.reshape(-1)
    products /= np.maximum(lengths * float(np.linalg.norm(query)), 1e-12)
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
        if number not in rows or number not in texts:  # removed meanwhile
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
    yield Summary("token", *(_commonest(map(str.lower, words)) for words in (own, other)))
    if any(match.tag is not None for match in matches):
        tags = [match.tag or "none" for match in matches], [match.attended_tag or "none" for match in matches]
        yield Summary("tag", *map(_commonest, tags))
    special = [match.attended_start == match.attended_end for match in matches]
    shapes = [name if is_special else _shape(name) for name, is_special in zip(other, special, strict=True)]
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
        if len(known) > len({*known}):  # some value is repeated
            yield Summary(field, _commonest(known), ())


def _commonest(values: "Iterator[str] | Sequence[str] | map[str]") -> tuple[tuple[str, int], ...]:
    return tuple(Counter(values).most_common(_FEW))


def _shape(word: str) -> str:
    """Xx, XX, xx, 00 or a mixture, with runs cut to two; other characters are kept."""
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
