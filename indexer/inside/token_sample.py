"""What one layer of an encoder makes of the tokens of a collection's passages, kept as a segment."""

import hashlib
import importlib.metadata
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import passages, token_samples
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.token_samples import TokenSampleRow
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.neighbours.shown import nothing_there
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import SegmentHeader, SegmentKind, open_tokens, write_tokens
from nearsay.indexer.vectors.vector_store import unit_length

if TYPE_CHECKING:
    from tokenizers import Encoding

    from nearsay.training.bert.attention import AttentionReader, LayerStates
    from nearsay.training.bert.heads.tagger import Tagger

__all__ = ["TOKENS", "TokenSample", "drawn_texts", "make_sample", "opened_sample", "sample_rows"]

TOKENS = 50_000
_MOST_TOKENS = 256  # of a passage; the weights of attention grow with its square
_SOME = 200  # passages read at a time
_COLUMNS = 6  # of `tokens`: passage, first character, after the last, number in the vocabulary, place, tag
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, eq=False)
class TokenSample:
    """An opened sample; its arrays are views of the mapped file."""

    row: TokenSampleRow
    states: NDArray[np.float32]  # (tokens, width), the layer's output, each of unit length
    contexts: NDArray[np.float32]  # (tokens, heads * head width), the heads' outputs side by side
    tokens: NDArray[np.int64]  # (tokens, 6), see `_COLUMNS`; special ones have place >= 0 and no characters
    texts: NDArray[np.int64]  # (texts, 3): first token, how many, where its weights begin
    weights: NDArray[np.float16]  # of each text (heads, its tokens, its tokens), one text after another
    head_energy: NDArray[np.float32]  # (tokens, heads): the square length of each head's output

    @property
    def heads(self) -> int:
        """Heads of the layer."""
        return int(self.head_energy.shape[1])

    @property
    def labels(self) -> list[str]:
        """The names of the tags; none where no tagger was given."""
        return list(self.row.parameters.get("labels", ()))

    def text_of(self, token: int) -> int:
        """Which text a token belongs to."""
        return int(np.searchsorted(self.texts[:, 0], token, side="right")) - 1

    def attention(self, token: int, heads: Sequence[int]) -> NDArray[np.float32]:
        """How much a token attends to each of its text, (its text's tokens,), averaged over heads."""
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
    """Keep what a layer of an encoder makes of the tokens of passages drawn at random, to be searched.

    layer:  from 1
    tokens: at most so many, [CLS] and [SEP] among them; whole passages, up to 256 tokens of each
    tagger: folder of a `train tagger` head, whose tags are kept with the tokens
    anew:   make it though there is one of the same settings already

    BadInputError for an empty collection, a layer that is not there, or too few tokens for one passage;
    BusyError if another writes.
    """
    reader.check_layer(layer)
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        kept = token_samples.all_of(connection, snapshot.collection.id, reader.fingerprint)
    wanted = {"limit": tokens, "seed": seed, "tagger": tagger}
    for row in kept:
        same = all(row.parameters.get(name) == value for name, value in wanted.items())
        if row.layer == layer and same and not anew:
            return row
    started = time.monotonic()
    numbers, texts, encodings = _drawn(explored, snapshot, reader, tokens, seed)
    arrays = _arrays(reader, layer, numbers, encodings, progress)
    head = None if tagger is None else _tagger(tagger, explored.store.device)
    if head is not None:
        arrays["tokens"][:, 5] = _tags(head, texts, arrays)
    parameters: dict[str, Any] = {
        **wanted,
        "encoder": reader.name,
        "heads": reader.heads,
        "head_width": reader.head_width,
        "width": int(arrays["states"].shape[1]),
        "texts": len(texts),
        "cut": sum(bool(encoding.overflowing) for encoding in encodings),
        "lineage": [*reader.lineage, _step(layer, texts)],
        "labels": [] if head is None else list(head.labels),
        "seconds": round(time.monotonic() - started, 1),
    }
    count = len(arrays["tokens"])
    with explored.locked(snapshot.collection, "keep a sample of tokens") as store:
        header = _header(reader.fingerprint, layer, parameters["width"], count)
        path = write_tokens(store.segments(snapshot.collection.id), arrays, header)
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
            token_samples.replace(connection, row)
    return row


def sample_rows(explored: Explored, fingerprint: str | None = None) -> list[TokenSampleRow]:
    """The samples of tokens that are kept, the newest first; fingerprint: only those of an encoder."""
    with explored.store.database.reading() as connection:
        return token_samples.all_of(connection, explored.snapshot().collection.id, fingerprint)


def opened_sample(store: Store, row: TokenSampleRow) -> TokenSample:
    """Open a sample after checking its hash; DamagedSegmentError for a file that is gone or another."""
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
    """So many passages at random, with their titles, as an encoder reads them; BadInputError without any."""
    drawn: list[str] = []
    for _, texts in _passages(explored, explored.snapshot(), seed):
        drawn += texts
        if len(drawn) >= count:
            break
    return drawn[:count]


def _passages(explored: Explored, snapshot: Snapshot, seed: int) -> Iterator[tuple[list[int], list[str]]]:
    """The passages that are searched, in an order that the seed draws: some at a time, numbers and texts."""
    living = snapshot.living()
    if not living.size:
        raise BadInputError(nothing_there(explored, None))
    order = np.random.default_rng(seed).permutation(living)
    for begin in range(0, order.size, _SOME):
        some = order[begin : begin + _SOME].tolist()
        with explored.store.database.reading() as connection:
            found = passages.encoded_texts(connection, snapshot.collection.id, some)
        there = [number for number in some if number in found]
        yield there, [found[number] for number in there]


def _drawn(
    explored: Explored, snapshot: Snapshot, reader: "AttentionReader", tokens: int, seed: int
) -> tuple[list[int], list[str], list["Encoding"]]:
    """Whole passages of so many tokens in all: their numbers, texts and encodings."""
    numbers: list[int] = []
    texts: list[str] = []
    encodings: list[Encoding] = []
    room = tokens
    for some, found in _passages(explored, snapshot, seed):
        for number, text, encoding in zip(some, found, reader.tokenized(found, _MOST_TOKENS), strict=True):
            if len(encoding.ids) > room:
                if texts:
                    return numbers, texts, encodings
                raise BadInputError(
                    f"{tokens} tokens are too few: the first passage drawn has {len(encoding.ids)}. "
                    "Ask for more"
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
    """The arrays of the segment; texts in the order of their passages."""
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
    done, telling = 0, threading.Lock()

    def take(text: int, found: "LayerStates") -> None:
        nonlocal done
        place = slice(firsts[text], firsts[text] + counts[text])
        states[place] = unit_length(found.states)
        contexts[place] = found.contexts
        weights[begins[text] : begins[text] + sizes[text]] = found.attention.reshape(-1)
        with telling:
            done += int(counts[text])
            listener(Progress(done, total))

    reader.layer([encoding.ids for encoding in encodings], layer, take)
    texts = np.stack([firsts, counts, begins], axis=1)
    return {"tokens": tokens, "texts": texts, "states": states, "contexts": contexts, "weights": weights}


def _tagger(folder: str, device: str | None) -> "Tagger":
    from nearsay.training.bert.heads.tagger import Tagger

    return Tagger.load(folder, device=device)


def _tags(head: "Tagger", texts: Sequence[str], arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The tag of the word in which each token begins, as its place among the labels; -1 for none."""
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
    """What was done, for the lineage."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    version = importlib.metadata.version("nearsay")
    return f"layer {layer} over {len(texts):,} passages (sha256 {digest.hexdigest()[:12]}), nearsay {version}"
