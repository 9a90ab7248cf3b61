"""Packing whole sentences as they follow each other, without next-sentence prediction."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from nearsay.data.pretraining.packed_rows import PackedRows
from nearsay.data.pretraining.prepared_text import Shard

__all__ = ["pack_full_sentences"]


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
    """Give each row's pieces in tokens. full: room for pieces, each with its [SEP]."""
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
