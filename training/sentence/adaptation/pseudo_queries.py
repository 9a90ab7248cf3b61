"""Questions that a corpus asks of itself: titles, sentences and salient words, each with its own passage."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.chunking import Chunking, ChunkingMethod, chunk
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted

_SENTENCE_WORDS: Final = (5, 45)  # fewest and most words of a sentence that is taken for a question
_SALIENT_WORDS: Final = 5  # of a passage, that stand for what a person would type
_WINDOW_WORDS: Final = 24  # of a stretch of text without sentences
_UNDAMAGED, _CROPPED = 0.25, 0.25  # shares of the pseudo-queries; the others lose words
_LOST_WORDS: Final = 0.3
_CROP_WORDS: Final = (5, 13)  # fewest and most words of a crop
_WORD: Final = re.compile(r"\w+")
_LEAST_PASSAGES: Final = 16


class QueryKind(StrEnum):
    """What a pseudo-query is made of."""

    TITLE = "title"
    SENTENCE = "sentence"
    SALIENT = "salient"  # the words by which a passage differs most from the others


@dataclass(frozen=True, slots=True)
class UnlabelledCorpus:
    """The passages of a corpus, as they are searched."""

    name: str
    texts: tuple[str, ...]  # the encoded text of each passage: its document's title, a space, its text
    titles: tuple[str, ...]  # of each passage's document, "" = none
    documents: tuple[str, ...]  # the id of each passage's document
    language: str = "en"  # for sentence splitting

    def __post_init__(self) -> None:
        if not len(self.texts) == len(self.titles) == len(self.documents):
            raise ValueError("texts, titles and documents are of the same passages")
        if len(self.texts) < _LEAST_PASSAGES:
            raise BadInputError(
                f"{self.name} holds {counted(len(self.texts), 'passage')}, too few to learn from. "
                f"Add documents until there are {_LEAST_PASSAGES} or more"
            )

    def sha256(self) -> str:
        """The hash of the passages' texts."""
        return hashlib.sha256("\0".join(self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    def body(self, passage: int) -> str:
        """A passage without its title."""
        return self.texts[passage].removeprefix(self.titles[passage]).strip()


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """A text used as a query for the passage that it comes from."""

    text: str
    passage: int  # the number of that passage
    kind: QueryKind


def draw_pseudo_queries(corpus: UnlabelledCorpus, count: int, seed: int) -> tuple[PseudoQuery, ...]:
    """Draw noised pseudo-queries from the corpus's passages, one per passage.

    Raises BadInputError if the passages contain no usable text.

    Crops as queries: Izacard et al. 2022 (Contriever), section 3.1, https://arxiv.org/abs/2112.09118; a
    sentence and the text that it is from: Lee et al. 2019, section 4, https://arxiv.org/abs/1906.00300
    """
    random = np.random.default_rng(seed)
    salient = _salient(corpus)
    drawn: list[PseudoQuery] = []
    for passage in random.permutation(len(corpus.texts)).tolist():
        if len(drawn) >= count:
            break
        found = _of_passage(corpus, passage, salient(passage))
        if found:
            chosen = found[int(random.integers(len(found)))]
            drawn.append(PseudoQuery(damaged(chosen.text, random), passage, chosen.kind))
    if not drawn:
        raise BadInputError(
            f"the passages of {corpus.name} hold no sentence of {_SENTENCE_WORDS[0]} words or more to ask. "
            "An encoder adapts to running text: add documents that have some"
        )
    return tuple(drawn)


def damaged(text: str, random: np.random.Generator) -> str:
    """Noise a text, as if it was written by somebody who does not know its words.

    A quarter is unchanged, a quarter is cropped to 5 to 13 consecutive words, and in the others each word is
    deleted with probability .3. At least one word is kept.
    """
    words = text.split()
    how = random.random()
    if how < _UNDAMAGED:
        return text
    if how < _UNDAMAGED + _CROPPED and len(words) > _CROP_WORDS[0]:
        size = int(random.integers(_CROP_WORDS[0], min(len(words), _CROP_WORDS[1]) + 1))
        begin = int(random.integers(len(words) - size + 1))
        return " ".join(words[begin : begin + size])
    kept = [word for word in words if random.random() >= _LOST_WORDS]
    return " ".join(kept) or text


def _of_passage(corpus: UnlabelledCorpus, passage: int, salient: str) -> list[PseudoQuery]:
    found = []
    if title := corpus.titles[passage].strip():
        found.append(PseudoQuery(title, passage, QueryKind.TITLE))
    found += [
        PseudoQuery(sentence, passage, QueryKind.SENTENCE)
        for sentence in _sentences(corpus.body(passage), corpus.language)
    ]
    if salient:
        found.append(PseudoQuery(salient, passage, QueryKind.SALIENT))
    return found


def _sentences(body: str, language: str) -> list[str]:
    """The sentences of a usable length; of a text that has none, stretches of words."""
    spans = chunk([body], Chunking(ChunkingMethod.SENTENCES, language=language), _no_tokens, rooms=[1])[0]
    fewest, most = _SENTENCE_WORDS
    found = [" ".join(body[start:end].split()) for start, end in spans]
    usable = [sentence for sentence in found if fewest <= len(sentence.split()) <= most]
    if usable:
        return usable
    words = body.split()
    windows = [words[begin : begin + _WINDOW_WORDS] for begin in range(0, len(words), _WINDOW_WORDS)]
    return [" ".join(window) for window in windows if len(window) >= fewest]


def _no_tokens(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    return [np.empty((0, 2), dtype=np.int64) for _ in texts]


def _salient(corpus: UnlabelledCorpus) -> Callable[[int], str]:
    """Return a passage's words with the highest tf·idf, in the order of the text; "" for too few words."""
    texts = [_WORD.findall(text.lower()) for text in corpus.texts]
    passages = Counter(word for words in texts for word in set(words))
    return lambda passage: _most_salient(texts[passage], passages, len(texts))


def _most_salient(words: Iterable[str], passages: Counter[str], count: int) -> str:
    counted = Counter(word for word in words if len(word) > 2 and not word.isdigit())
    weights = {word: times * np.log(count / passages[word]) for word, times in counted.items()}
    best = sorted(weights, key=lambda word: -weights[word])[:_SALIENT_WORDS]
    if len(best) < _SALIENT_WORDS:
        return ""
    return " ".join(word for word in counted if word in best)
