"""An encoder whose vectors can be worked out by hand: each word gives its length."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass
class WordsEncoder:
    """The vector of a text counts its words by length: words of 1 letter, of 2, … of `dimension` or more.

    "a cat sat" is (1, 0, 2, 0, …) before it is scaled to length 1. A token is a word or a sign. Every text
    that was encoded as a passage is kept in `encoded`, so that tests see what was embedded.
    """

    name: str = "words"
    dimension: int = 8
    max_tokens: int = 16
    normalised: bool = True
    lineage: tuple[str, ...] = ("made for tests",)
    encoded: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        return self.name

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self.name} {self.dimension}".encode()).hexdigest()

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        return self._window(texts, kind).vectors

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            yield self._window(window, kind)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [
            np.array([match.span() for match in _WORD.finditer(text)], dtype=np.int64).reshape(-1, 2)
            for text in texts
        ]

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        truncated = 0
        for row, text in enumerate(texts):
            words = _WORD.findall(text)
            truncated += len(words) > self.max_tokens
            for word in words[: self.max_tokens]:
                vectors[row, min(len(word), self.dimension) - 1] += 1.0
        if kind is TextKind.PASSAGE:
            self.encoded += list(texts)
        return EncodedWindow(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), truncated)
