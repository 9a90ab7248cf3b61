"""How well a tokenizer fits texts: worth knowing before anything is trained on them."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias
from unicodedata import combining, normalize

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from nearsay.data.errors import BadInputError
from nearsay.training.bert.saved_tokenizer import read_tokenizer
from nearsay.training.bert.vocabulary import SPECIAL_TOKENS, Accents, VocabularyConfig, train_vocabulary
from nearsay.training.evaluation.reports import (
    BrokenWord,
    LengthFit,
    NewVocabularyFit,
    TokenizerFit,
    UnknownText,
)
from nearsay.training.sentence.source import find_encoder

_TEXTS_AT_ONCE: Final = 512
_CHARACTERS_AT_ONCE: Final = 1_000_000


class _Kinds(dict[int, str]):
    """For each character its kind: a letter or digit, a mark that goes on a word, a Chinese one, another."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if unicodedata.name(character, "").startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH")):
            kind = "c"
        elif category[0] in "LN":
            kind = "a"
        else:
            kind = "m" if category[0] == "M" or category == "Cf" else " "
        self[code] = kind
        return kind


_KINDS: Final = _Kinds()
_WORD: Final = re.compile("c|a[am]*")


@dataclass(frozen=True, slots=True)
class TokenizedWords:
    """One text's words, and the tokens that each became.

    A word is a run of letters and digits, with the accents and invisible characters inside it; a Chinese
    character is one by itself; blanks, punctuation marks and symbols are none ("don't" is two words, as for
    BERT). This is the same for every tokenizer, so their figures can be compared. A word's tokens are those
    whose characters overlap with its own.
    """

    text: str
    token_ids: NDArray[np.int64]  # (tokens,): special ones left out, not cut
    spans: NDArray[np.int64]  # (words, 2): the characters of each word
    first: NDArray[np.int64]  # (words,): its first token
    pieces: NDArray[np.int64]  # (words,): its tokens; 0 for a word that the tokenizer leaves out
    unknown: NDArray[np.bool_]  # (words,): whether one of them is the unknown one
    unknown_texts: list[str]  # what stands behind each unknown token of the text

    @property
    def tokens(self) -> int:
        """Tokens of the text, special ones not counted."""
        return len(self.token_ids)

    def word(self, index: int) -> str:
        """The word as it is written."""
        start, end = self.spans[index]
        return self.text[start:end]

    def pieces_of(self, index: int) -> tuple[int, ...]:
        """The numbers of a word's tokens."""
        start = self.first[index]
        return tuple(self.token_ids[start : start + self.pieces[index]].tolist())


def tokenized_words(
    tokenizer: Tokenizer, texts: Iterable[str], *, unknown_id: int | None
) -> Iterator[TokenizedWords]:
    """Tokenize texts and find each word's tokens by the characters that they stand for.

    tokenizer: of any kind; it must neither cut nor pad
    unknown_id: the token that stands for what the vocabulary cannot spell; None when there is none
    """
    for batch in batches(texts):
        encodings = tokenizer.encode_batch(batch, add_special_tokens=False)
        for text, encoding in zip(batch, encodings, strict=True):
            yield _aligned(text, encoding, unknown_id)


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """As many texts as are well tokenized at once."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == _TEXTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _aligned(text: str, encoding: Encoding, unknown_id: int | None) -> TokenizedWords:
    found = [match.span() for match in _WORD.finditer(text.translate(_KINDS))]
    spans = np.array(found, dtype=np.int64).reshape(-1, 2)
    # Bytes of one character share its place: starts and ends never fall, but may stand still.
    places = np.maximum.accumulate(np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2))
    first = np.searchsorted(places[:, 1], spans[:, 0], side="right")
    behind = np.maximum(np.searchsorted(places[:, 0], spans[:, 1], side="left"), first)
    token_ids = np.array(encoding.ids, dtype=np.int64)
    is_unknown = token_ids == (-1 if unknown_id is None else unknown_id)
    unknown_before = np.concatenate([[0], np.cumsum(is_unknown)])
    return TokenizedWords(
        text=text,
        token_ids=token_ids,
        spans=spans,
        first=first,
        pieces=behind - first,
        unknown=unknown_before[behind] > unknown_before[first],
        unknown_texts=[text[start:end] for start, end in places[is_unknown].tolist()],
    )


_Spelling: TypeAlias = tuple[str, tuple[int, ...]]  # a word as it is written, and its tokens' numbers

_LISTED: Final = 20  # words


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
    tally = _Tally(lengths, special)
    for measured in tokenized_words(tokenizer, texts, unknown_id=unknown_id):
        tally.add(measured)
        if listener is not None:
            listener(tally.texts)
    if not tally.words or not tally.tokens:
        raise BadInputError(
            f"there is no word in the {tally.texts:,} texts; name files that hold text, and --text FIELD"
        )
    new = None
    if new_vocabulary is not None and 0 < tally.held_out_tokens < tally.tokens:
        new = _new_vocabulary_fit(texts, new_vocabulary, tally)
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


class _Tally:
    def __init__(self, lengths: Sequence[int], special: int) -> None:
        self.texts = self.words = self.tokens = self.word_tokens = 0
        self.split_words = self.unknown_words = 0
        self.held_out_texts = self.held_out_tokens = self.held_out_unknown = 0
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
        if _is_held_out(measured.text):
            self.held_out_texts += 1
            self.held_out_tokens += measured.tokens
            self.held_out_unknown += len(measured.unknown_texts)
        for length in self._truncated_texts:
            behind = max(measured.tokens + self._special - length, 0)
            self._truncated_texts[length] += behind > 0
            self._truncated_tokens[length] += behind

    def length_fits(self) -> tuple[LengthFit, ...]:
        return tuple(
            LengthFit(length, cut / self.texts, self._truncated_tokens[length] / self.tokens)
            for length, cut in self._truncated_texts.items()
        )


def _new_vocabulary_fit(texts: Iterable[str], config: VocabularyConfig, tally: _Tally) -> NewVocabularyFit:
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
        trained_texts=tally.texts - tally.held_out_texts,
        held_out_texts=tally.held_out_texts,
        tokens=tally.held_out_tokens,
        new_tokens=tokens,
        saved=1 - tokens / tally.held_out_tokens,
        unknown_tokens=tally.held_out_unknown,
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


def encoder_fit(
    encoder: str | Path,
    texts: Iterable[str],
    *,
    lengths: Sequence[int] = (64, 128, 256, 512),
    new: bool = True,
    new_size: int | None = None,
    listener: Callable[[int], None] | None = None,
) -> TokenizerFit:
    """Measure how well the tokenizer of an encoder, a BERT or a vocabulary's folder fits texts.

    encoder: its name or folder; of a folder no weights are needed
    texts: iterated up to three times
    new: whether to compare with a new vocabulary of the same casing; `new_size`: its pieces, None = as many
    listener: is told how many texts have been measured

    Raises NearsayError when there is no such encoder or it has no fast tokenizer, BadInputError as
    `tokenizer_fit` does.
    """
    source = find_encoder(encoder)
    saved = read_tokenizer(source.folder)
    tokenizer = saved.backend_tokenizer
    unknown_id = saved.unk_token_id
    return tokenizer_fit(
        source.name,
        tokenizer,
        texts,
        unknown_id=unknown_id if isinstance(unknown_id, int) else None,
        lengths=lengths,
        new_vocabulary=new_vocabulary_config(tokenizer, new_size) if new else None,
        listener=listener,
    )
