"""Batches of pretraining examples: drawn afresh every epoch, continued from any point."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Packing
from nearsay.data.pretraining.masked_rows import RowMasker, Vocabulary, continuations
from nearsay.data.pretraining.packed_rows import PackedRows, TokenRows
from nearsay.data.pretraining.prepared_text import PreparedText, Shard
from nearsay.data.pretraining.special_tokens import SpecialTokens


def pack_full_sentences(shard: Shard, length: int, random: np.random.Generator) -> PackedRows:
    """Pack a shard's sentences in order into rows [CLS] sentences [SEP] of up to `length` tokens.

    A row goes on in the next document behind one more [SEP]. Every token is in exactly one row. A sentence
    that is too long for a row of its own is cut, and what follows stands with what is left of it. The first
    row is made shorter at random, so that rows end elsewhere in every epoch.

    FULL-SENTENCES of Liu et al. 2019, section 4.2, https://arxiv.org/abs/1907.11692
    """
    rows = list(_rows(shard, length - 1, random))
    pieces = np.array([piece for row in rows for piece in row], np.int64).reshape(-1, 2)
    first_pieces = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
    starts, ends = np.ascontiguousarray(pieces.T)
    return PackedRows(shard.tokens, shard.tokens, first_pieces, starts, ends, None)


def _rows(shard: Shard, full: int, random: np.random.Generator) -> Iterator[list[tuple[int, int]]]:
    """Return each row's pieces in tokens. full: room for pieces, each with its [SEP]."""
    starts: list[int] = shard.sentence_starts.tolist()
    room = int(random.integers(2, full, endpoint=True))
    row: list[tuple[int, int]] = []
    left = room
    token = 0
    bounds: list[int] = shard.document_starts.tolist()
    for begin, end in pairwise(bounds):
        sentence = begin
        while token < starts[end]:
            sentence = bisect_right(starts, token, sentence, end + 1) - 1  # that the token is in
            fits = starts[bisect_right(starts, token + left - 1, sentence, end + 1) - 1]
            if fits > token:
                row.append((token, fits))
                left -= fits - token + 1
                token = fits
                if token == starts[end]:
                    break
            elif not row and left < full:  # the shorter first row holds no whole sentence
                left = full
                continue
            elif not row:
                row.append((token, token + left - 1))
                token += left - 1
            yield row
            row, left = [], full
    if row:
        yield row


_MOST_DRAWS_AT_ONCE: Final = 8192


def pack_sentence_pairs(
    shard: Shard, others: Shard, config: ExampleConfig, random: np.random.Generator
) -> PackedRows:
    """Pack a shard's sentences into rows [CLS] A [SEP] B [SEP], document by document.

    others: where random segments come from, usually the shard itself; another one if it holds one document

    Sentences are gathered until they reach the target: the room for text (length - 3), or with `short_share`
    a random length from 2 to it. A is a random number of them, at least one, and B the rest; with
    `random_share` B begins at a random sentence of another document instead, goes on to the target or the
    document's end, and the sentences that A left are packed again. Each token over the room is taken from the
    longer segment, at random from its front or its back.

    Two points are the paper's text rather than its published code, which makes B random whenever one sentence
    fills the target, so that well over half are and the length of A tells: here such an A is followed by the
    next sentence in its share of cases (a document's last sentence, alone, becomes B behind what comes before
    it). Only a document of one sentence always gets a random B. And a random B begins at any sentence of the
    other documents with the same chance, not at any document, so that short documents are not seen more.

    Devlin et al. 2019, appendix A.2, https://arxiv.org/abs/1810.04805;
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    sentences = _Sentences.of(shard)
    elsewhere = _OtherDocuments(sentences if others is shard else _Sentences.of(others))
    segments = np.array(list(_segments(sentences, elsewhere, config, random)), np.int64).reshape(-1, 5)
    starts = np.ascontiguousarray(segments[:, (0, 2)])
    ends = np.ascontiguousarray(segments[:, (1, 3)])
    _truncate(starts, ends, config.length - 3, random)
    return PackedRows(
        shard.tokens,
        others.tokens,
        2 * np.arange(len(segments) + 1),
        starts.reshape(-1),
        ends.reshape(-1),
        segments[:, 4].astype(np.bool_),
    )


class _Sentences(NamedTuple):
    """A shard's sentences and documents as lists, which single look-ups are quicker in."""

    starts: list[int]  # first token of each sentence, then the number of tokens
    bounds: list[int]  # first sentence of each document, then the number of sentences
    numbers: list[int]  # of the documents

    @classmethod
    def of(cls, shard: Shard) -> Self:
        arrays = shard.sentence_starts, shard.document_starts, shard.document_numbers
        return cls(*(array.tolist() for array in arrays))


def _segments(
    sentences: _Sentences, elsewhere: "_OtherDocuments", config: ExampleConfig, random: np.random.Generator
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Return A's start and end, B's start and end, and whether B is random, in tokens, before truncation."""
    starts, bounds, numbers = sentences
    room = config.length - 3
    short_share, random_share = config.short_share, config.random_share
    draws = _draws(random)
    for number, (begin, end) in zip(numbers, pairwise(bounds), strict=True):
        elsewhere.leave_out(number)
        first = begin
        while first < end:
            short, length, coin, cut, place = next(draws)
            target = 2 + int(length * (room - 1)) if short < short_share else room
            after = bisect_left(starts, starts[first] + target, first + 1, end)
            is_random = coin < random_share
            if not is_random and after - first == 1:
                if after < end:
                    after += 1
                elif first > begin:
                    front = bisect_left(starts, starts[end] - target, begin, first - 1)
                    yield starts[front], starts[first], starts[first], starts[end], False
                    break
                else:
                    is_random = True
            middle = first + 1 + int(cut * (after - first - 1)) if after - first > 1 else after
            if not is_random:
                yield starts[first], starts[middle], starts[middle], starts[after], False
                first = after
            else:
                if elsewhere.sentences:
                    taken = starts[middle] - starts[first]
                    yield starts[first], starts[middle], *elsewhere.segment(place, target - taken), True
                first = middle


class _OtherDocuments:
    """Random segments from all documents but one."""

    def __init__(self, sentences: _Sentences) -> None:
        self._starts, self._bounds, self._numbers = sentences
        self._left_out = self._left_out_size = 0
        self.sentences = 0  # how many there are to begin at

    def leave_out(self, number: int) -> None:
        """Draw from all documents but this one from now on."""
        place = bisect_left(self._numbers, number)
        after = bisect_right(self._numbers, number)
        self._left_out = self._bounds[place]
        self._left_out_size = self._bounds[after] - self._bounds[place]
        self.sentences = self._bounds[-1] - self._left_out_size

    def segment(self, place: float, target: int) -> tuple[int, int]:
        """Return the first token and the end of whole sentences that reach the target or a document's end.

        place: from 0 to below 1, which sentence it begins at
        """
        first = int(place * self.sentences)
        if first >= self._left_out:
            first += self._left_out_size
        document_end = self._bounds[bisect_right(self._bounds, first)]
        after = bisect_left(self._starts, self._starts[first] + target, first + 1, document_end)
        return self._starts[first], self._starts[after]


def _draws(random: np.random.Generator) -> Iterator[tuple[float, float, float, float, float]]:
    """Yield five uniform numbers at a time, without end."""
    size = 32  # a small text needs few
    while True:
        yield from random.random((size, 5)).tolist()
        size = min(2 * size, _MOST_DRAWS_AT_ONCE)


def _truncate(
    starts: NDArray[np.int64], ends: NDArray[np.int64], room: int, random: np.random.Generator
) -> None:
    """Shorten pairs in place to the room: token by token the longer one, at its front or its back.

    starts, ends: (rows, 2) in tokens
    """
    sizes = ends - starts
    over = np.maximum(sizes.sum(axis=1) - room, 0)
    difference = sizes[:, 0] - sizes[:, 1]
    from_longer = np.minimum(over, np.abs(difference))
    rest = over - from_longer  # from two of the same length, by turns, the first one first
    cuts = np.stack((-(-rest // 2), rest // 2), axis=1)
    cuts[:, 0] += np.where(difference > 0, from_longer, 0)
    cuts[:, 1] += np.where(difference < 0, from_longer, 0)
    front = random.binomial(cuts, 0.5)
    starts += front
    ends -= cuts - front


_SHARDS, _PACKING, _ROWS, _MASKS = range(4)  # what random numbers are for


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the endless stream of rows; `dataclasses.asdict` gives it as JSON."""

    epoch: int = 0  # times the whole text was read before
    shard: int = 0  # shards that this epoch read before, in its own order
    row: int = 0  # rows that were taken of the shard before, in the epoch's order


@dataclass(frozen=True, slots=True)
class PretrainingBatch:
    """Rows for the model, and what it has to find out."""

    token_ids: NDArray[np.int32]  # (rows, width of the longest) masked; [PAD] beyond a row's length
    segment_ids: NDArray[np.int8]  # (rows, width): 1 in the second segment of a pair
    lengths: NDArray[np.int32]  # (rows,) special tokens included
    masked_positions: NDArray[np.int32]  # (masked,) row x width + column, ascending
    masked_labels: NDArray[np.int32]  # (masked,) the tokens that stood there, or with causal come next
    random_next: NDArray[np.bool_] | None  # (rows,) B is from another document; None: not pairs
    span_edges: NDArray[np.int32] | None  # (masked, 2) row x width + column before and after the span
    span_offsets: NDArray[np.int32] | None  # (masked,) place in the span, from 0; None: not spans
    cursor: Cursor  # where the next batch begins


_BEGINNING: Final = Cursor()


class PretrainingBatches:
    """The rows of a prepared text, packed, shuffled and masked differently in every epoch.

    Everything is a function of the seed and the cursor (and of the versions of nearsay and NumPy). An epoch
    takes the shards in an order of its own, repacks each and shuffles its rows. Memory: what a shard
    takes; its tokens are mapped.
    """

    def __init__(
        self, text: PreparedText, special: SpecialTokens, config: ExampleConfig, *, batch: int, seed: int
    ) -> None:
        """`batch`: rows. BadInputError when the text cannot be packed or masked as the configuration says."""
        if batch < 1:
            raise BadInputError(f"the batch is {batch} rows; give 1 or more")
        if seed < 0:
            raise BadInputError(f"the seed is {seed}; give 0 or more")
        if max(special.ids) >= text.vocabulary_size:
            raise BadInputError(
                f"the special tokens go up to {max(special.ids)}, but {text.folder} was prepared with a "
                f"vocabulary of {text.vocabulary_size:,}. Take the tokenizer in that folder, or prepare the "
                "text again with this one"
            )
        if config.packing is Packing.SENTENCE_PAIRS:
            _check_pairs(text, config)
        self._text = text
        self._special = special
        self._config = config
        self._batch = batch
        self._seed = seed
        continues = continuations(text.tokenizer) if config.masking.needs_words else None
        self._masker = RowMasker(config, Vocabulary(text.vocabulary_size, special), continues)
        self._held: tuple[tuple[int, int], PackedRows, NDArray[np.int64]] | None = None

    def batches(self, start: Cursor = _BEGINNING) -> Iterator[PretrainingBatch]:
        """Yield full batches without end; one may hold rows of two shards or epochs.

        The same seed and cursor give the same batches bit for bit. Raises BadInputError if the cursor does
        not fit.
        """
        self._check(start)
        while True:
            batch = self._take(start, None)
            yield batch
            start = batch.cursor

    def one_pass(self) -> Iterator[PretrainingBatch]:
        """Yield the first epoch's batches, always the same; the last one may be short."""
        cursor = _BEGINNING
        while cursor.epoch == 0:
            batch = self._take(cursor, 1)
            if len(batch.lengths):  # the last shards may give no rows
                yield batch
            cursor = batch.cursor

    def _check(self, cursor: Cursor) -> None:
        if min(cursor.epoch, cursor.shard, cursor.row) < 0 or cursor.shard >= self._text.shards:
            raise BadInputError(
                f"{cursor} is no place in {self._text.folder}, which has {self._text.shards} shards. "
                "Resume with the text that the run began with"
            )
        rows = len(self._shard(cursor.epoch, cursor.shard)[0])
        if cursor.row > rows:
            raise BadInputError(
                f"{cursor} is no place in {self._text.folder}: the shard gives {rows:,} rows. "
                "Resume with the text, seed and configuration that the run began with"
            )

    def _take(self, start: Cursor, epochs: int | None) -> PretrainingBatch:
        """Make the batch that begins at `start`, of rows before the end of so many epochs."""
        parts: list[TokenRows] = []
        random_next: list[NDArray[np.bool_]] = []
        cursor, missing = start, self._batch
        while missing and cursor.epoch != epochs:
            packed, order = self._shard(cursor.epoch, cursor.shard)
            numbers = order[cursor.row : cursor.row + missing]
            parts.append(packed.rows(numbers, self._special))
            if packed.random_next is not None:
                random_next.append(packed.random_next[numbers])
            missing -= len(numbers)
            cursor = self._moved(cursor, len(numbers), len(packed))
        rows = _joined(parts, self._special.pad)
        masked = self._masker.mask(rows, self._random(_MASKS, start.epoch, start.shard, start.row))
        return PretrainingBatch(
            masked.token_ids,
            rows.segment_ids,
            rows.lengths,
            masked.positions,
            masked.labels,
            np.concatenate(random_next) if random_next else None,
            masked.span_edges,
            masked.span_offsets,
            cursor,
        )

    def _moved(self, cursor: Cursor, taken: int, rows: int) -> Cursor:
        if cursor.row + taken < rows:
            return Cursor(cursor.epoch, cursor.shard, cursor.row + taken)
        if cursor.shard + 1 < self._text.shards:
            return Cursor(cursor.epoch, cursor.shard + 1, 0)
        return Cursor(cursor.epoch + 1, 0, 0)

    def _shard(self, epoch: int, place: int) -> tuple[PackedRows, NDArray[np.int64]]:
        """Pack the shard at a place of an epoch's order, and say in which order its rows are taken."""
        if self._held is None or self._held[0] != (epoch, place):
            number = int(self._random(_SHARDS, epoch).permutation(self._text.shards)[place])
            packed = self._pack(number, self._random(_PACKING, epoch, number))
            order = self._random(_ROWS, epoch, number).permutation(len(packed))
            self._held = (epoch, place), packed, order
        return self._held[1:]

    def _pack(self, number: int, random: np.random.Generator) -> PackedRows:
        shard = self._text.shard(number)
        if self._config.packing is Packing.FULL_SENTENCES:
            return pack_full_sentences(shard, self._config.length, random)
        other = self._text.shard_with_other_documents(number)
        others = shard if other == number else self._text.shard(other)
        return pack_sentence_pairs(shard, others, self._config, random)

    def _random(self, purpose: int, *place: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, purpose, *place])


def _check_pairs(text: PreparedText, config: ExampleConfig) -> None:
    if not text.has_breaks and config.random_share > 0:
        raise BadInputError(
            f"{text.folder} holds one document, but next-sentence prediction draws sentences from another "
            "one. Put blank lines between the documents of the text and prepare it again, or train without "
            f"it: --no-nsp (packing {Packing.FULL_SENTENCES})"
        )
    if text.sentences == text.documents:
        raise BadInputError(
            f"each of the {text.documents:,} documents in {text.folder} is one sentence, so that none has a "
            "next one to predict. Remove the blank lines between sentences that belong together and "
            "prepare the text again, or train without next-sentence prediction: "
            f"--no-nsp (packing {Packing.FULL_SENTENCES})"
        )
    if text.sentences == text.shards and not text.has_breaks:
        raise BadInputError(
            f"{text.folder} gives no rows with the packing {config.packing}: no shard has two sentences of "
            f"its document. Use --no-nsp (packing {Packing.FULL_SENTENCES})"
        )


def _joined(parts: list[TokenRows], pad: int) -> TokenRows:
    if len(parts) == 1:
        return parts[0]
    width = max(part.token_ids.shape[1] for part in parts)
    return TokenRows(
        np.concatenate([_widened(part.token_ids, width, pad) for part in parts]),
        np.concatenate([_widened(part.segment_ids, width, 0) for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )


def _widened(values: NDArray[np.signedinteger], width: int, fill: int) -> NDArray[np.signedinteger]:
    return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)
