"""The token numbers of the texts that are trained on."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.tokens import TextTokenizer

__all__ = ["TextTokens"]

_WINDOW_TEXTS = 16_384


class TextTokens:
    """Each different text's token numbers, once, in one array.

    A million texts of 20 tokens take 80 MB.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._place: dict[tuple[str, str], int] = {}
        self._tokens = np.empty(0, dtype=np.int32)
        self._ends = np.zeros(1, dtype=np.int64)
        self.truncated = 0  # different texts that were cut at the length limit

    @property
    def count(self) -> int:
        """Different texts."""
        return len(self._place)

    def add(self, texts: Iterable[str], prompt: str = "") -> None:
        """Tokenize the texts that are not there yet, the prompt put before each."""
        new = [text for text in dict.fromkeys(texts) if (prompt, text) not in self._place]
        parts, lengths = [self._tokens], []
        for start in range(0, len(new), _WINDOW_TEXTS):
            window = self._tokenizer.window(new[start : start + _WINDOW_TEXTS], prompt)
            self.truncated += window.truncated
            lengths += [len(ids) for ids in window.token_ids]
            parts.append(np.fromiter((id_ for ids in window.token_ids for id_ in ids), dtype=np.int32))
        for text in new:
            self._place[prompt, text] = len(self._place)
        self._tokens = np.concatenate(parts)
        self._ends = np.concatenate([self._ends, self._ends[-1] + np.cumsum(lengths, dtype=np.int64)])

    def ids(self, text: str, prompt: str = "") -> NDArray[np.int32]:
        """Give a text's token numbers; KeyError for one that was not added."""
        place = self._place[prompt, text]
        return self._tokens[self._ends[place] : self._ends[place + 1]]

    def many(self, texts: Sequence[str], prompt: str = "") -> list[NDArray[np.int32]]:
        """Give several texts' token numbers, without keeping them if they are new."""
        return [np.array(ids, dtype=np.int32) for ids in self._fresh(texts, prompt)]

    def _fresh(self, texts: Sequence[str], prompt: str) -> list[list[int]]:
        window = self._tokenizer.window(list(texts), prompt)
        return [window.token_ids[place] for place in window.positions]
