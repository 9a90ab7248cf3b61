"""The tokens of texts, with their places in the text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from nearsay.training.sentence.tokens import TextTokenizer

__all__ = ["TextTokens", "TokenCutter"]

_WINDOW_TEXTS = 1024  # texts whose tokens are held in the tokenizer's own, larger, form


@dataclass(frozen=True, slots=True)
class TextTokens:
    """The tokens of texts, one text after the other; [CLS] and [SEP] are among them."""

    offsets: NDArray[np.int64]  # (texts + 1,): text i has the tokens offsets[i] to offsets[i + 1] - 1
    token_ids: NDArray[np.int32]  # (tokens,)
    spans: NDArray[np.int32]  # (tokens, 2): first character in its text, and the one after the last
    special: NDArray[np.bool_]  # (tokens,): the tokenizer added it, as [CLS] and [SEP]; its span is (0, 0)
    cut: NDArray[np.bool_]  # (texts,): the text was longer than the limit

    @property
    def texts(self) -> int:
        """How many texts."""
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """How many tokens."""
        return len(self.token_ids)

    @property
    def truncated(self) -> int:
        """How many texts were cut."""
        return int(self.cut.sum())

    def of(self, text: int) -> list[int]:
        """Give the token numbers of one text, by its place from 0."""
        ids: list[int] = self.token_ids[self.offsets[text] : self.offsets[text + 1]].tolist()
        return ids


class TokenCutter:
    """Cuts texts into the tokens that a `TextTokenizer` gives, and says more of them."""

    def __init__(self, tokenizer: Tokenizer, texts: TextTokenizer) -> None:
        """`tokenizer` is copied; `texts` tells the limit, and what is wrong with a broken text."""
        self._texts = texts
        self._cutting = Tokenizer.from_str(tokenizer.to_str())
        self._cutting.no_padding()
        self._cutting.enable_truncation(texts.limit)

    def cut(self, texts: Sequence[str]) -> TextTokens:
        """Give the texts' tokens; raises BadInputError for broken Unicode."""
        if isinstance(texts, str):
            raise TypeError("texts is one string; give a list of texts")
        lengths: list[int] = []
        parts: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]] = []
        cut: list[bool] = []
        for start in range(0, len(texts), _WINDOW_TEXTS):
            encodings = self._encoded(list(texts[start : start + _WINDOW_TEXTS]))
            lengths += [len(encoding.ids) for encoding in encodings]
            cut += [bool(encoding.overflowing) for encoding in encodings]
            parts += [_arrays(encoding) for encoding in encodings]
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return TextTokens(
            offsets=offsets,
            token_ids=np.concatenate([ids for ids, _, _ in parts] or [np.empty(0, np.int32)]),
            spans=np.concatenate([spans for _, spans, _ in parts] or [np.empty((0, 2), np.int32)]),
            special=np.concatenate([special for _, _, special in parts] or [np.empty(0, np.bool_)]),
            cut=np.array(cut, dtype=np.bool_),
        )

    def _encoded(self, texts: list[str]) -> list[Encoding]:
        try:
            return self._cutting.encode_batch(texts)
        except TypeError:
            self._texts.window(texts)  # names the text
            raise


def _arrays(encoding: Encoding) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    return (
        np.array(encoding.ids, dtype=np.int32),
        np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2),
        np.array(encoding.special_tokens_mask, dtype=np.bool_),
    )
