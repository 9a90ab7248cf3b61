"""A vector for each token of each text: as arrays, and as a file that NumPy opens."""

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.bert.array_file import write_array
from nearsay.training.bert.hidden_states import HiddenStates
from nearsay.training.bert.layers import LayerChoice
from nearsay.training.bert.text_tokens import TextTokens

__all__ = ["TokenVectors", "vector_blocks", "write_token_vectors"]

_BLOCK_TOKENS = 16_384  # rows held at a time, about: 96 MB of four concatenated layers of 384


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Tokens and their vectors."""

    tokens: TextTokens
    vectors: NDArray[np.float32]  # (tokens, width), C-contiguous

    def of(self, text: int) -> NDArray[np.float32]:
        """Give the vectors of one text's tokens, (its tokens, width), by the text's place from 0."""
        return self.vectors[self.tokens.offsets[text] : self.tokens.offsets[text + 1]]


def vector_blocks(
    tokens: TextTokens, states: HiddenStates, layers: LayerChoice, taken: Sequence[int], width: int
) -> Iterator[NDArray[np.float32]]:
    """Give the tokens' vectors in the tokens' order, a block of whole texts at a time.

    taken:  the layers that `layers` takes of the model
    width:  numbers in a vector
    yields: (tokens, width) float32; about 16,000 rows, or one text's
    """
    first = 0
    while first < tokens.texts:
        bound = tokens.offsets[first] + _BLOCK_TOKENS
        after = max(int(np.searchsorted(tokens.offsets, bound, side="right")) - 1, first + 1)
        starts = tokens.offsets[first : after + 1]
        block = np.empty((int(starts[-1] - starts[0]), width), dtype=np.float32)
        states.run(
            [tokens.of(text) for text in range(first, after)],
            _Placing(block, starts - starts[0], layers, taken),
        )
        yield block
        first = after


@dataclass(frozen=True, slots=True)
class _Placing:
    """Puts each text's token vectors where they belong in a block."""

    block: NDArray[np.float32]  # (tokens, width), written to
    starts: NDArray[np.int64]  # (texts + 1,): each text's first row
    layers: LayerChoice
    taken: Sequence[int]

    def __call__(self, batch: NDArray[np.int64], states: Sequence[torch.Tensor], mask: torch.Tensor) -> None:
        chosen = self.layers.combined([states[layer] for layer in self.taken])
        rows = chosen[mask].cpu().numpy()  # the real tokens, one text after the other
        begin = 0
        for text in batch:
            place = slice(self.starts[text], self.starts[text + 1])
            end = begin + int(place.stop - place.start)
            self.block[place] = rows[begin:end]
            begin = end


def write_token_vectors(
    stream: BinaryIO, tokens: TextTokens, blocks: Iterable[NDArray[np.float32]], width: int
) -> None:
    """Write an .npz file, which `numpy.load` opens without pickle, holding one block of vectors at a time.

    Its arrays are vectors (tokens, width) float32, offsets (texts + 1,) int64, token_ids (tokens,) int32,
    spans (tokens, 2) int32 and special (tokens,) bool, as `TextTokens` tells; they are not compressed, as
    vectors hardly shrink.
    """
    small: dict[str, NDArray[np.generic]] = {
        "offsets": tokens.offsets,
        "token_ids": tokens.token_ids,
        "spans": tokens.spans,
        "special": tokens.special,
    }
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in small.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.save(entry, array, allow_pickle=False)
        with archive.open("vectors.npy", "w", force_zip64=True) as entry:
            write_array(entry, (tokens.tokens, width), blocks)
