"""The words of texts and how often each occurs, in bounded memory."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from nearsay.data.errors import BadInputError

__all__ = ["WordCounter"]

_MOST_SPELLINGS: Final = 1_000_000  # different strings between blanks that wait to be cut into words
_WORDS_AT_ONCE: Final = 10_000


class WordCounter:
    """Counts the words of texts as a normalizer and a pre-tokenizer cut them.

    Texts are first counted by what stands between blanks, so that only different strings are normalised:
    both steps must treat each such string by itself, as BERT's do. At most `most_words` different words are
    kept: when there are more, only the commonest half of as many, and `forgotten` says how many occurrences
    were dropped. Up to then the texts' order means nothing.
    """

    def __init__(
        self,
        normalizer: Normalizer,
        pre_tokenizer: PreTokenizer,
        *,
        apart: Sequence[str] = (),
        most_words: int = 2_000_000,
    ) -> None:
        """`apart`: strings that are no words and part those beside them: special tokens."""
        self.texts = 0
        self.forgotten = 0  # occurrences of words that were rare when the room was used up
        self._normalizer = normalizer
        self._pre_tokenizer = pre_tokenizer
        self._apart = apart
        self._most_words = most_words
        self._spellings: Counter[str] = Counter()
        self._words: Counter[str] = Counter()
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of the texts so far, each with its length, in their order."""
        return self._digest.hexdigest()

    def add(self, text: str) -> None:
        """Count one text; BadInputError when it holds half a character."""
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise BadInputError(
                f"text {self.texts + 1:,} holds half a character (a lone surrogate). "
                "Read its file as UTF-8 again, or remove it"
            ) from error
        self._digest.update(len(data).to_bytes(8, "little") + data)
        self.texts += 1
        for token in self._apart:
            if token in text:
                text = text.replace(token, " ")
        # str.split() would also part at characters that BERT's normalizer takes out without parting.
        self._spellings.update(text.replace("\n", " ").replace("\t", " ").replace("\r", " ").split(" "))
        if len(self._spellings) > _MOST_SPELLINGS:
            self._cut_into_words()

    def words(self) -> Mapping[str, int]:
        """Give every word with its count."""
        self._cut_into_words()
        return self._words

    def _cut_into_words(self) -> None:
        alike: dict[int, list[str]] = {}  # strings that occur equally often are cut together
        for spelling, count in self._spellings.items():
            alike.setdefault(count, []).append(spelling)
        self._spellings.clear()
        for count, spellings in alike.items():
            for start in range(0, len(spellings), _WORDS_AT_ONCE):
                text = " ".join(spellings[start : start + _WORDS_AT_ONCE])
                found = self._pre_tokenizer.pre_tokenize_str(self._normalizer.normalize_str(text))
                for word, times in Counter(word for word, _ in found).items():
                    self._words[word] += times * count
        self._forget_the_rarest()

    def _forget_the_rarest(self) -> None:
        if len(self._words) <= self._most_words:
            return
        commonest_first = sorted(self._words.items(), key=lambda item: (-item[1], item[0]))
        kept = Counter(dict(commonest_first[: max(self._most_words // 2, 1)]))
        self.forgotten += self._words.total() - kept.total()
        self._words = kept
