"""How well a tokenizer fits texts: worth knowing before anything is trained on them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias
from unicodedata import combining, normalize

from tokenizers import Tokenizer

from nearsay.data.errors import BadInputError
from nearsay.training.bert.vocabulary import SPECIAL_TOKENS, Accents, VocabularyConfig, train_vocabulary
from nearsay.training.evaluation.tokenized_words import TokenizedWords, batches, tokenized_words

__all__ = [
    "BrokenWord",
    "LengthFit",
    "NewVocabularyFit",
    "TokenizerFit",
    "UnknownText",
    "new_vocabulary_config",
    "tokenizer_fit",
]

_Spelling: TypeAlias = tuple[str, tuple[int, ...]]  # a word as it is written, and its tokens' numbers

_LISTED: Final = 20  # words


@dataclass(frozen=True, slots=True)
class LengthFit:
    """What a length limit does to the texts."""

    length: int  # tokens, special ones included
    truncated_texts: float  # share of texts that are longer
    truncated_tokens: float  # share of all tokens that lie behind the limit


@dataclass(frozen=True, slots=True)
class BrokenWord:
    """A word that the vocabulary has no single piece for."""

    word: str  # as it is written most often
    count: int  # of all its writings that give these pieces
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnknownText:
    """What became an unknown token."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class NewVocabularyFit:
    """What a vocabulary trained on one half of the texts saves on the other half."""

    size: int  # pieces it got
    cased: bool
    trained_texts: int
    held_out_texts: int  # all the figures below are of these
    tokens: int  # by the encoder's own vocabulary
    new_tokens: int  # by the new one
    saved: float  # share of tokens that are not needed any more; negative when there are more
    unknown_tokens: int  # among them, by the encoder's own vocabulary
    new_unknown_tokens: int  # by the new one: what becomes [UNK] saves tokens and loses words


@dataclass(frozen=True, slots=True)
class TokenizerFit:
    """How a tokenizer fits texts; a word is what `TokenizedWords` says. Shares are from 0 to 1."""

    encoder: str
    vocabulary_size: int
    texts: int
    words: int
    tokens: int  # special ones not counted
    tokens_per_word: float  # tokens of words only, not of marks between them
    split_words: float  # share of words that became two tokens or more
    unknown_tokens: float  # share of tokens
    unknown_words: float  # share of words in which something is unknown
    lengths: tuple[LengthFit, ...]
    broken: tuple[BrokenWord, ...]  # the 20 that cost most tokens beyond one each, dearest first
    unknown: tuple[UnknownText, ...]  # the 20 most frequent
    new_vocabulary: NewVocabularyFit | None  # None: not asked for, or too few different texts to halve


def tokenizer_fit(
    encoder: str,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    *,
    unknown_id: int | None,
    lengths: Sequence[int] = (64, 128, 256, 512),
    new_vocabulary: VocabularyConfig | None = None,
    listener: Callable[[int], None] | None = None,
) -> TokenizerFit:
    """Measure how a tokenizer fits texts, and what a new vocabulary would save.

    encoder: its name, for the report
    tokenizer: of any kind; it must neither cut nor pad
    texts: iterated up to three times
    new_vocabulary: trained on the texts whose SHA-256 begins with a 0 bit, measured on the others, so that
        the same text is never on both sides; None = none. Texts of one author or book can be on both.
    listener: is told how many texts have been measured

    BadInputError when there is no word, a length leaves no room beside the special tokens, or the new
    vocabulary cannot be trained.

    The tokens a word and the share of split words are the "fertility" and the "proportion of continued words"
    of Rust et al. 2021, https://aclanthology.org/2021.acl-long.243, over the words of `TokenizedWords`.
    """
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    if min(lengths, default=special + 1) <= special:
        raise BadInputError(
            f"a length of {min(lengths)} tokens leaves no room beside {special} special ones; give more"
        )
    tally, held_out = _Tally(lengths, special), _HeldOut()
    for measured in tokenized_words(tokenizer, texts, unknown_id=unknown_id):
        tally.add(measured)
        if _is_held_out(measured.text):
            held_out.texts += 1
            held_out.tokens += measured.tokens
            held_out.unknown_tokens += len(measured.unknown_texts)
        if listener is not None:
            listener(tally.texts)
    if not tally.words or not tally.tokens:
        raise BadInputError(
            f"there is no word in the {tally.texts:,} texts; name files that hold text, and --text FIELD"
        )
    new = None
    if new_vocabulary is not None and 0 < held_out.tokens < tally.tokens:
        new = _new_vocabulary_fit(texts, new_vocabulary, held_out, trained_texts=tally.texts - held_out.texts)
    return TokenizerFit(
        encoder=encoder,
        vocabulary_size=tokenizer.get_vocab_size(),
        texts=tally.texts,
        words=tally.words,
        tokens=tally.tokens,
        tokens_per_word=tally.word_tokens / tally.words,
        split_words=tally.split_words / tally.words,
        unknown_tokens=tally.unknown.total() / tally.tokens,
        unknown_words=tally.unknown_words / tally.words,
        lengths=tally.length_fits(),
        broken=_dearest(tokenizer, tally.broken),
        unknown=tuple(
            UnknownText(text, count)
            for text, count in sorted(tally.unknown.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]
        ),
        new_vocabulary=new,
    )


def new_vocabulary_config(tokenizer: Tokenizer, size: int | None = None) -> VocabularyConfig:
    """The configuration of a WordPiece vocabulary as large as the tokenizer's (or `size`) and as cased."""

    def normalised(text: str) -> str:
        return text if tokenizer.normalizer is None else str(tokenizer.normalizer.normalize_str(text))

    accented = any(combining(character) for character in normalize("NFD", normalised("é")))
    return VocabularyConfig(
        size=size or tokenizer.get_vocab_size(),
        cased="A" in normalised("A"),
        accents=Accents.KEEP if accented else Accents.STRIP,
    )


@dataclass(slots=True)
class _HeldOut:
    """What the encoder's tokenizer makes of the texts that are held out."""

    texts: int = 0
    tokens: int = 0
    unknown_tokens: int = 0


class _Tally:
    def __init__(self, lengths: Sequence[int], special: int) -> None:
        self.texts = self.words = self.tokens = self.word_tokens = 0
        self.split_words = self.unknown_words = 0
        self.broken: Counter[_Spelling] = Counter()
        self.unknown: Counter[str] = Counter()
        self._special = special
        self._truncated_texts = dict.fromkeys(sorted(set(lengths)), 0)
        self._truncated_tokens = dict.fromkeys(self._truncated_texts, 0)

    def add(self, measured: TokenizedWords) -> None:
        is_split = measured.pieces > 1
        self.texts += 1
        self.words += len(measured.spans)
        self.tokens += measured.tokens
        self.word_tokens += int(measured.pieces.sum())
        self.split_words += int(is_split.sum())
        self.unknown_words += int(measured.unknown.sum())
        self.unknown.update(measured.unknown_texts)
        for index in (is_split & ~measured.unknown).nonzero()[0].tolist():
            self.broken[measured.word(index), measured.pieces_of(index)] += 1
        for length in self._truncated_texts:
            behind = max(measured.tokens + self._special - length, 0)
            self._truncated_texts[length] += behind > 0
            self._truncated_tokens[length] += behind

    def length_fits(self) -> tuple[LengthFit, ...]:
        return tuple(
            LengthFit(length, cut / self.texts, self._truncated_tokens[length] / self.tokens)
            for length, cut in self._truncated_texts.items()
        )


def _new_vocabulary_fit(
    texts: Iterable[str], config: VocabularyConfig, held_out: _HeldOut, *, trained_texts: int
) -> NewVocabularyFit:
    try:
        new = train_vocabulary((text for text in texts if not _is_held_out(text)), config)
    except BadInputError as error:
        raise BadInputError(
            f"a new vocabulary to compare with cannot be trained: {error}. Give --new-size, or --no-new"
        ) from error
    tokens = unknown_tokens = 0
    for batch in batches(text for text in texts if _is_held_out(text)):
        for encoding in new.tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            tokens += len(encoding)
            unknown_tokens += encoding.ids.count(SPECIAL_TOKENS.index("[UNK]"))
    return NewVocabularyFit(
        size=new.size,
        cased=config.cased,
        trained_texts=trained_texts,
        held_out_texts=held_out.texts,
        tokens=held_out.tokens,
        new_tokens=tokens,
        saved=1 - tokens / held_out.tokens,
        unknown_tokens=held_out.unknown_tokens,
        new_unknown_tokens=unknown_tokens,
    )


def _is_held_out(text: str) -> bool:
    return sha256(text.encode()).digest()[0] >= 128


def _dearest(tokenizer: Tokenizer, words: Mapping[_Spelling, int]) -> tuple[BrokenWord, ...]:
    """The words that cost most; those that give the same pieces, as they do in capitals, are one."""
    writings: dict[tuple[int, ...], Counter[str]] = {}
    for (word, pieces), count in words.items():
        writings.setdefault(pieces, Counter())[word] += count
    dearest = sorted(writings, key=lambda pieces: (-writings[pieces].total() * (len(pieces) - 1), pieces))
    return tuple(
        BrokenWord(
            word=max(sorted(writings[pieces]), key=writings[pieces].__getitem__),
            count=writings[pieces].total(),
            pieces=tuple(tokenizer.id_to_token(piece) or "" for piece in pieces),
        )
        for pieces in dearest[:_LISTED]
    )
