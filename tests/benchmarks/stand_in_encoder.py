"""An encoder that costs next to nothing, so that what is left is everything else."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import TokenOffsets
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

__all__ = ["NumberedEncoder", "StandInEncoder"]

_CENTRES = 8192
_OFFSETS = 16_381  # a prime, so that a centre meets every offset before a pair comes again
_DISTANCE = 0.5  # length of an offset beside a centre's of 1


class StandInEncoder:
    """Gives the next of a long sequence of unit vectors for each text, whatever it says.

    Each is a random centre plus a random offset, so a million are all different and lie in groups, as real
    ones do. Texts are cut by a real encoder's tokens.
    """

    name = "stand-in"
    source = "stand-in"
    max_tokens = 254
    normalised = True
    lineage = ("random numbers",)

    def __init__(self, token_offsets: TokenOffsets, dimension: int = 384, seed: int = 1) -> None:
        self.dimension = dimension
        self.fingerprint = hashlib.sha256(f"{self.name} {dimension} {seed}".encode()).hexdigest()
        self._token_offsets = token_offsets
        drawn = np.random.default_rng(seed)
        self._centres = _rows(drawn, _CENTRES, dimension, 1.0)
        self._offsets = _rows(drawn, _OFFSETS, dimension, _DISTANCE)
        self._given = 0

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        numbers = np.arange(self._given, self._given + len(texts))
        self._given += len(texts)
        vectors = self._centres[numbers % _CENTRES]
        vectors += self._offsets[numbers % _OFFSETS]
        vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        return vectors

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            yield EncodedWindow(self.encode(window, kind=kind), 0)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.asarray(offsets, dtype=np.int64) for offsets in self._token_offsets(texts)]


class NumberedEncoder:
    """Gives row 17 of an array for the text "17"."""

    name = "numbered"
    source = "numbered"
    max_tokens = 254
    normalised = True
    lineage = ("an array",)

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.dimension = int(vectors.shape[1])
        self.fingerprint = hashlib.sha256(vectors[:1000].tobytes()).hexdigest()
        self._vectors = vectors

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        return self._vectors[[int(text) for text in texts]]

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            yield EncodedWindow(self.encode(window, kind=kind), 0)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array([[0, len(text)]], dtype=np.int64) for text in texts]


def _rows(drawn: np.random.Generator, count: int, dimension: int, length: float) -> NDArray[np.float32]:
    rows = drawn.standard_normal((count, dimension), dtype=np.float32)
    return rows * (length / np.linalg.norm(rows, axis=1, keepdims=True))
