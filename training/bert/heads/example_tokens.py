"""A BERT's tokenizer, as the heads use it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.special_tokens import SpecialTokens

__all__ = ["ExampleTokens"]


class ExampleTokens:
    """Cuts texts into tokens without special ones, and puts rows together."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """`tokenizer`: one that neither cuts nor pads; BadInputError if it lacks [CLS], [SEP] and others."""
        self._tokenizer = tokenizer
        self.special = SpecialTokens.from_tokenizer(tokenizer)

    def texts(self, texts: Sequence[str]) -> list[Encoding]:
        """The encodings of texts: `ids`, and `offsets` in characters."""
        return self._tokenizer.encode_batch(_checked(texts), add_special_tokens=False)

    def words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The token numbers of each word of each sentence; a word that gives no token is one [UNK]."""
        found = []
        encodings = self._tokenizer.encode_batch(
            [_checked(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        for words, encoding in zip(sentences, encodings, strict=True):
            pieces: list[list[int]] = [[] for _ in words]
            for number, word in zip(encoding.ids, encoding.word_ids, strict=True):
                if word is not None:  # None: a special token, and none is added
                    pieces[word].append(number)
            found.append([numbers or [self.special.unknown] for numbers in pieces])
        return found

    def row(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[NDArray[np.int32], int]:
        """Put a row together: [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

        returns: its token numbers, (tokens,), and where its second segment begins (its length: nowhere)
        """
        special = self.special
        numbers = [special.cls, *first, special.sep]
        begins = len(numbers)
        if second is not None:
            numbers += [*second, special.sep]
        return np.array(numbers, dtype=np.int32), begins


def _checked(texts: Sequence[str]) -> list[str]:
    """The same, or BadInputError: the tokenizer itself says of half a character that it is no string."""
    if isinstance(texts, str):
        raise TypeError("a list of strings is meant, and this is one string")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text is a {type(text).__name__}, not a string")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise BadInputError(
                "a text holds half a character (a lone surrogate). Read its file as UTF-8 again, or remove it"
            )
    return list(texts)
