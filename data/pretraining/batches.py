"""Batches of pretraining examples: drawn anew every epoch, continued from any point."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.full_sentences import pack_full_sentences
from nearsay.data.pretraining.masked_rows import RowMasker
from nearsay.data.pretraining.masking import Vocabulary
from nearsay.data.pretraining.packed_rows import PackedRows, TokenRows
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.sentence_pairs import pack_sentence_pairs
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.data.pretraining.whole_words import continuations

__all__ = ["Cursor", "PretrainingBatch", "PretrainingBatches"]

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

    token_ids: NDArray[
        np.int32
    ]  # (rows, width) masked; width: the longest row's; [PAD] beyond a row's length
    segment_ids: NDArray[np.int8]  # (rows, width): 1 in the second segment of a pair
    lengths: NDArray[np.int32]  # (rows,) special tokens included
    masked_positions: NDArray[np.int32]  # (masked,) row x width + column, ascending
    masked_labels: NDArray[np.int32]  # (masked,) the tokens that stood there
    random_next: NDArray[np.bool_] | None  # (rows,) B is from another document; None: not pairs
    span_edges: NDArray[np.int32] | None  # (masked, 2) row x width + column before and after the span
    span_offsets: NDArray[np.int32] | None  # (masked,) place in the span, from 0; None: not spans
    cursor: Cursor  # where the next batch begins


_BEGINNING: Final = Cursor()


class PretrainingBatches:
    """The rows of a prepared text, packed, shuffled and masked differently in every epoch.

    Everything is a function of the seed and the cursor (and of the versions of nearsay and NumPy). An epoch
    takes the shards in an order of its own, packs each anew and shuffles its rows. Memory: what a shard
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
        continues = None if config.masking is Masking.TOKENS else continuations(text.tokenizer)
        self._masker = RowMasker(config, Vocabulary(text.vocabulary_size, special), continues)
        self._held: tuple[tuple[int, int], PackedRows, NDArray[np.int64]] | None = None

    def batches(self, start: Cursor = _BEGINNING) -> Iterator[PretrainingBatch]:
        """Give full batches without end; one may hold rows of two shards or epochs.

        The same seed and cursor give the same batches bit for bit. BadInputError: the cursor does not fit.
        """
        self._check(start)
        while True:
            batch = self._take(start, None)
            yield batch
            start = batch.cursor

    def one_pass(self) -> Iterator[PretrainingBatch]:
        """Give the first epoch's batches, always the same; the last one may be short."""
        cursor = _BEGINNING
        while cursor.epoch == 0:
            batch = self._take(cursor, 1)
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
        cursor, missing, empty = start, self._batch, 0
        while missing and cursor.epoch != epochs:
            packed, order = self._shard(cursor.epoch, cursor.shard)
            numbers = order[cursor.row : cursor.row + missing]
            if len(numbers):
                parts.append(packed.rows(numbers, self._special))
                if packed.random_next is not None:
                    random_next.append(packed.random_next[numbers])
            empty = 0 if len(packed) else empty + 1
            if empty > self._text.shards:
                raise BadInputError(
                    f"{self._text.folder} gives no rows with the packing {self._config.packing}: no shard "
                    f"has two sentences of a document. Use --no-nsp (packing {Packing.FULL_SENTENCES})"
                )
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
