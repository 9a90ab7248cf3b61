"""WordPiece vocabularies trained on one's own texts."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeAlias

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer, Normalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, PreTokenizer
from tokenizers.processors import TemplateProcessing

from nearsay.data.errors import BadInputError

_MOST_SPELLINGS: Final = 1_000_000  # different strings between blanks that wait to be cut into words
_WORDS_AT_ONCE: Final = 10_000


class WordCounter:
    """Counts words of texts as split by a normalizer and a pre-tokenizer.

    Texts are first counted by what is between blanks, so that only distinct strings are normalised: both
    steps must treat each such string independently, as BERT's do. At most `most_words` distinct words are
    kept: if there are more, only the most frequent half of that number, and `forgotten` counts the dropped
    occurrences. Until then, the order of the texts has no influence.
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
        """The hash of the texts so far, with their lengths, in order."""
        return self._digest.hexdigest()

    def add(self, text: str) -> None:
        """Count one text; BadInputError if it contains a lone surrogate."""
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
        """Every word with its count."""
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


# Growing WordPiece pieces from word counts, the same ones every time.
#
# `tokenizers.trainers.WordPieceTrainer` (0.23.3) joins by the same rule, but it numbers the `##x` pieces in
# the order of a hash table with a random seed, and breaks ties between pairs by those numbers. Measured on
# two novels at 8,192 pieces: seven trainings gave seven numberings and three different sets of pieces, with
# one thread as with two (known: https://github.com/huggingface/tokenizers/issues/1794). A model's weights
# belong to numbers, so the training is done here: no hash order, thread or seed has a part in it. Of 99
# novels it makes the same 8,192 pieces as `tokenizers` when it starts from the same characters, in less
# than half of the time, because words are counted first.


PREFIX: Final = "##"  # of a piece that goes on a word

Pair: TypeAlias = tuple[int, int]  # two pieces beside one another in a word


def grow_pieces(
    pieces: Sequence[str], words: Mapping[str, int], *, size: int, min_frequency: int
) -> list[str]:
    """Merge the most frequent adjacent pieces until there are `size` pieces.

    pieces: the initial ones, distinct, in the order of their numbers, including each word's first character,
            and its others prefixed with `##`
    words: how often each word occurs; their order has no influence
    returns: `pieces`, then the new ones in the order in which they were merged; fewer than `size` if no pair
             occurs `min_frequency` times any more

    Of equally frequent pairs, the one with the lower numbers is merged first. This is byte-pair encoding
    (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909, algorithm 1) on words in WordPiece spelling, as
    in `tokenizers`; Google never published the training of BERT's own vocabulary.
    """
    grown = list(pieces)
    numbers = {piece: number for number, piece in enumerate(grown)}
    spelled = _Spelled(sorted(words.items()), numbers)
    # An entry whose count is no longer the pair's is out of date; the pair has, or gets, another.
    heap = [(-count, pair) for pair, count in spelled.counts.items()]
    heapq.heapify(heap)
    while heap and len(grown) < size:
        count, pair = heapq.heappop(heap)
        now = spelled.counts.get(pair, 0)
        if now < min_frequency:
            continue
        if now != -count:
            heapq.heappush(heap, (-now, pair))
            continue
        joined = grown[pair[0]] + grown[pair[1]].removeprefix(PREFIX)
        number = numbers.setdefault(joined, len(grown))
        if number == len(grown):  # else a special token is spelled like it
            grown.append(joined)
        for risen in spelled.join(pair, number):
            heapq.heappush(heap, (-spelled.counts[risen], risen))
    return grown


class _Spelled:
    """The words as pieces, with the count of every pair and the words it is, or was, in."""

    def __init__(self, words: Iterable[tuple[str, int]], numbers: Mapping[str, int]) -> None:
        self.counts: dict[Pair, int] = {}
        self._spellings: list[list[int]] = []
        self._frequencies: list[int] = []
        self._found_in: dict[Pair, list[int]] = {}
        for index, (word, frequency) in enumerate(words):
            spelling = [numbers[word[0]], *(numbers[PREFIX + character] for character in word[1:])]
            self._spellings.append(spelling)
            self._frequencies.append(frequency)
            for pair in pairwise(spelling):
                self.counts[pair] = self.counts.get(pair, 0) + frequency
                self._found_in.setdefault(pair, []).append(index)

    def join(self, pair: Pair, number: int) -> list[Pair]:
        """Write `number` for the pair wherever it stands; give the pairs that are more frequent for it."""
        changes: dict[Pair, int] = {}
        for index in dict.fromkeys(self._found_in.pop(pair)):
            before = self._spellings[index]
            after = _joined(before, pair, number)
            if len(after) == len(before):
                continue  # another join took the pair apart
            frequency = self._frequencies[index]
            for gone in pairwise(before):
                changes[gone] = changes.get(gone, 0) - frequency
            for come in pairwise(after):
                changes[come] = changes.get(come, 0) + frequency
                if number in come:
                    self._found_in.setdefault(come, []).append(index)
            self._spellings[index] = after
        for changed, change in changes.items():
            self.counts[changed] = self.counts.get(changed, 0) + change
            if not self.counts[changed]:
                del self.counts[changed]
        return [changed for changed, change in changes.items() if change > 0]


def _joined(spelling: list[int], pair: Pair, number: int) -> list[int]:
    left, right = pair
    joined, place, last = [], 0, len(spelling) - 1
    while place <= last:
        if place < last and spelling[place] == left and spelling[place + 1] == right:
            joined.append(number)
            place += 2
        else:
            joined.append(spelling[place])
            place += 1
    return joined


SPECIAL_TOKENS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # numbers 0 to 4
LONGEST_WORD: Final = 100  # characters; BERT's tokenizer makes [UNK] of a longer one


class Accents(StrEnum):
    """How accents are handled."""

    AUTO = "auto"  # as BERT does: e in an uncased vocabulary, é in a cased one
    KEEP = "keep"
    STRIP = "strip"


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """The configuration of a vocabulary; BadInputError for an invalid value."""

    size: int = 30_522  # pieces, with special ones; fewer if the texts do not yield as many
    cased: bool = False  # False: everything is lowercased
    accents: Accents = Accents.AUTO
    min_frequency: int = 2  # how often a pair must occur to be merged
    alphabet: int = 1_000  # maximum distinct characters; words with a rarer one become [UNK]
    ascii: bool = True  # every printable ASCII character has a piece, even if it does not occur
    special: tuple[str, ...] = ()  # further special tokens, numbered from 5
    unused: int = 0  # pieces [unused0], [unused1], … after them, which can be renamed later

    def __post_init__(self) -> None:
        object.__setattr__(self, "special", tuple(self.special))
        if self.accents not in list(Accents):
            raise BadInputError(f"accents is {self.accents!r}; take one of {', '.join(Accents)}")
        object.__setattr__(self, "accents", Accents(self.accents))
        for name, least in {"size": 1, "min_frequency": 1, "alphabet": 1, "unused": 0}.items():
            value = getattr(self, name)
            if value < least:
                raise BadInputError(f"{name} is {value}; give {least} or more")
        for token in self.special:
            if not token or any(character.isspace() or not character.isprintable() for character in token):
                raise BadInputError(
                    f"the special token {token!r} is empty or holds blanks; write one such as [ENTITY]"
                )
        reserved = len(SPECIAL_TOKENS) + len(self.special) + self.unused
        if self.size <= reserved:  # before they are made: there may be any number of them
            raise BadInputError(
                f"size is {self.size}, and {reserved} pieces are special or unused ones. Give a larger size; "
                "30522 is BERT's"
            )
        twice = [token for token, times in Counter(self.reserved).items() if times > 1]
        if twice:
            raise BadInputError(f"the special token {twice[0]} is there already; leave it out")

    @property
    def reserved(self) -> tuple[str, ...]:
        """The pieces that are not text, in the order of their numbers."""
        return (*SPECIAL_TOKENS, *self.special, *(f"[unused{number}]" for number in range(self.unused)))


@dataclass(frozen=True, slots=True)
class VocabularyCounts:
    """Statistics of a vocabulary's training texts."""

    texts: int
    sha256: str  # of the texts in their order
    words: int  # as BERT splits them: a punctuation mark is one
    different_words: int
    characters: int  # distinct ones with pieces
    characters_left_out: int  # distinct ones beyond the alphabet's limit
    words_left_out: int  # occurrences of words that are too long or contain a character without a piece
    words_forgotten: int  # occurrences of rare words that were dropped from memory


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A trained vocabulary."""

    tokenizer: Tokenizer  # neither cuts nor pads
    config: VocabularyConfig
    counts: VocabularyCounts

    @property
    def size(self) -> int:
        """Number of pieces, with special ones."""
        return self.tokenizer.get_vocab_size()

    @property
    def pieces(self) -> list[str]:
        """All pieces in the order of their numbers."""
        numbers = self.tokenizer.get_vocab()
        return sorted(numbers, key=numbers.__getitem__)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user: a smaller size than requested, and what was left out."""
        counts, notes = self.counts, []
        if self.size < self.config.size:
            notes.append(
                f"the texts gave {self.size:,} pieces, not {self.config.size:,}: no two neighbours are left "
                f"that occur {self.config.min_frequency:,} times. More text, or a lower --min-frequency, "
                "gives more"
            )
        if counts.words_left_out:
            notes.append(
                f"{counts.words_left_out:,} of {counts.words:,} words become [UNK]: they are longer than "
                f"{LONGEST_WORD} characters, or hold one of {counts.characters_left_out:,} rare characters "
                f"beyond the limit of {self.config.alphabet:,} (--alphabet)"
            )
        if counts.words_forgotten:
            notes.append(
                f"{counts.words_forgotten:,} of {counts.words:,} words were too rare to keep count of"
            )
        return tuple(notes)


def train_vocabulary(texts: Iterable[str], config: VocabularyConfig | None = None) -> Vocabulary:
    """Train a WordPiece vocabulary on texts, which are read once, in bounded memory.

    The same texts give the same pieces with the same numbers, regardless of their order (unless words had to
    be dropped), the hash seed and the number of threads: see `wordpiece`. Numbers: special tokens, unused
    ones, characters by code point, the same with `##`, then merged pieces, most frequent first. Every
    character that can continue a word has its `##` piece even if none does, so a word of known characters is
    never [UNK] if it has at most LONGEST_WORD of them. Special tokens within the texts are not trained on.

    Raises BadInputError if the texts contain no words, or more characters than `size` allows.
    """
    config = config or VocabularyConfig()
    normalizer = _normalizer(config)
    counter = WordCounter(normalizer, BertPreTokenizer(), apart=(*SPECIAL_TOKENS, *config.special))
    for text in texts:
        counter.add(text)
    words = counter.words()
    if not words:
        raise BadInputError(
            f"there is no word in the {counter.texts:,} texts; name files that hold text, and --text FIELD"
        )
    kept, characters, left_out = _spelled_by_alphabet(words, config.alphabet, _always(normalizer, config))
    first = dict.fromkeys((*config.reserved, *_character_pieces(characters)))
    if len(first) > config.size:
        raise BadInputError(
            f"size is {config.size:,}, and {len(config.reserved):,} special or unused pieces and the "
            f"{len(characters):,} characters to spell words with take {len(first):,}. "
            f"Give a size of {len(first):,} or more, or a smaller alphabet"
        )
    pieces = grow_pieces(list(first), kept, size=config.size, min_frequency=config.min_frequency)
    total = sum(words.values()) + counter.forgotten
    counts = VocabularyCounts(
        texts=counter.texts,
        sha256=counter.sha256,
        words=total,
        different_words=len(words),
        characters=len(characters),
        characters_left_out=left_out,
        words_left_out=sum(words.values()) - sum(kept.values()),
        words_forgotten=counter.forgotten,
    )
    return Vocabulary(_tokenizer(pieces, normalizer, config), config, counts)


def _normalizer(config: VocabularyConfig) -> BertNormalizer:
    strip = {Accents.AUTO: None, Accents.KEEP: False, Accents.STRIP: True}[config.accents]
    return BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip, lowercase=not config.cased
    )


def _always(normalizer: BertNormalizer, config: VocabularyConfig) -> set[str]:
    return set(normalizer.normalize_str("".join(map(chr, range(33, 127))))) if config.ascii else set()


def _spelled_by_alphabet(
    words: Mapping[str, int], limit: int, always: set[str]
) -> tuple[dict[str, int], list[str], int]:
    """The words that the commonest characters spell, these and `always` sorted, and how many are left out."""
    occurrences: Counter[str] = Counter()
    short = {word: count for word, count in words.items() if len(word) <= LONGEST_WORD}
    for word, count in short.items():
        for character in word:
            occurrences[character] += count
    frequent = sorted(occurrences, key=lambda character: (-occurrences[character], character))
    alphabet = always.union(frequent[:limit])
    left_out = len(occurrences.keys() - alphabet)
    if left_out:
        short = {word: count for word, count in short.items() if alphabet.issuperset(word)}
    return short, sorted(alphabet), left_out


def _character_pieces(characters: Iterable[str]) -> list[str]:
    """Each character, then those with `##` that do not stand alone as punctuation and Chinese ones do."""
    cut = BertPreTokenizer().pre_tokenize_str
    spread = BertNormalizer(clean_text=False, strip_accents=False, lowercase=False).normalize_str
    alone = list(characters)
    return [*alone, *(PREFIX + one for one in alone if len(cut(spread(f"a{one}"))) == 1)]


def _tokenizer(pieces: list[str], normalizer: BertNormalizer, config: VocabularyConfig) -> Tokenizer:
    numbers = {piece: number for number, piece in enumerate(pieces)}
    unknown, cls, sep = SPECIAL_TOKENS[1:4]
    tokenizer = Tokenizer(WordPiece(numbers, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, numbers[cls]), (sep, numbers[sep])],
    )
    tokenizer.decoder = WordPieceDecoder(prefix=PREFIX)
    special = [*SPECIAL_TOKENS, *config.special]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer
