"""Rows of pretraining examples as places in a shard, made into tokens batch by batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.pretraining.special_tokens import SpecialTokens


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Rows of tokens, not masked yet."""

    token_ids: NDArray[np.int32]  # (rows, width), [PAD] beyond a row's length
    segment_ids: NDArray[np.int8]  # (rows, width): 1 in the second segment of a pair, 0 elsewhere
    lengths: NDArray[np.int32]  # (rows,)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Where the text of each row stands: [CLS], then each of its pieces with a [SEP] after it."""

    tokens: NDArray[np.unsignedinteger[Any]]  # the shard's
    other_tokens: NDArray[np.unsignedinteger[Any]]  # those that random segments point into
    first_pieces: NDArray[np.int64]  # (rows + 1,) the first piece of each row, then the number of pieces
    starts: NDArray[np.int64]  # (pieces,) first token
    ends: NDArray[np.int64]  # (pieces,) one past the last token; a piece is never empty
    random_next: NDArray[np.bool_] | None  # (rows,) the second piece is of `other_tokens`; None: no pairs

    def __len__(self) -> int:
        return len(self.first_pieces) - 1

    def rows(self, numbers: NDArray[np.int64], special: SpecialTokens) -> TokenRows:
        """Put the tokens of the rows with these numbers together, in their order."""
        pieces_of = self.first_pieces[numbers + 1] - self.first_pieces[numbers]
        row = np.repeat(np.arange(len(numbers)), pieces_of)
        pieces = ranges(self.first_pieces[numbers], pieces_of)
        starts, sizes = self.starts[pieces], self.ends[pieces] - self.starts[pieces]
        ends = np.cumsum(sizes + 1)  # over all rows, one after the other, each piece with its [SEP]
        first = np.cumsum(pieces_of) - pieces_of
        before = (ends - sizes - 1) - (ends - sizes - 1)[first][row]  # in its row, before the piece
        lengths = np.ones(len(numbers), np.int64)
        np.add.at(lengths, row, sizes + 1)
        width = int(lengths.max(initial=0))
        token_ids = np.full((len(numbers), width), special.pad, np.int32)
        token_ids[:, :1] = special.cls
        places = row * width + 1 + before  # of each piece's first token
        sources = ranges(starts, sizes)
        flat = token_ids.reshape(-1)
        flat[ranges(places, sizes)] = self._text(numbers, sources, sizes)
        flat[places + sizes] = special.sep
        segment_ids = np.zeros((len(numbers), width), np.int8)
        if self.random_next is not None:
            segment_ids.reshape(-1)[ranges(places[1::2], sizes[1::2] + 1)] = 1
        return TokenRows(token_ids, segment_ids, lengths.astype(np.int32))

    def _text(
        self, numbers: NDArray[np.int64], sources: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        if self.random_next is None or self.other_tokens is self.tokens:
            return self.tokens[sources].astype(np.int32)
        elsewhere = np.zeros((len(numbers), 2), np.bool_)
        elsewhere[:, 1] = self.random_next[numbers]
        other = np.repeat(elsewhere.reshape(-1), sizes)
        values = np.empty(len(sources), np.int32)
        values[~other] = self.tokens[sources[~other]]
        values[other] = self.other_tokens[sources[other]]
        return values


def ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers start, start + 1, … start + size - 1 of each range, one range after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))
