"""The noun phrases of clusters: their counts, and their most frequent spelling.

No part-of-speech tagger is used. Sequences of words between function words and punctuation are cut into
phrases of up to three words. Whether a phrase is a noun phrase follows from the contexts of its words in all
passages: a sequence after "the", "my" or "of" ends in a noun, one after "to", "we" or "can" begins with a
verb, a word right before "my" or "them" is a verb, and a word inside a phrase and rarely at its end is a
modifier. For languages without a list of function words only frequency counts.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from nearsay.data.function_words import Language, language_of

_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff"
_KANA = "\u3041-\u309f"
_PIECE = re.compile(
    rf"[{_CHINESE}]|[{_KANA}]+|[\u30a1-\u30ff]+"  # scripts without spaces: a character is a word
    r"|[^\W_]+(?:['’.&+-]?[^\W_]+)*[+#]*|[^\w\s]|\n"  # a word, or punctuation, which ends a phrase
)
_UNSPACED = re.compile(rf"[{_CHINESE}\u30a1-\u30ff]")
_CHINESE_FUNCTION_WORDS = frozenset("的了是在和与與及或不我你他她它们們这這那就也都而被把吗嗎呢吧啊么麼")
_WORDS = 3  # of a phrase
_CHARACTERS_OF_A_PHRASE = 6  # if a character is a word
_KEPT = 600  # most frequent phrases of a cluster
_READ = 1_500  # characters of a text
_ACRONYMS = frozenset(("US", "IT", "WHO", "UN"))  # in lower case these are function words
_ENDS = frozenset(".!?\n:;")  # the next word may be capitalized
_JOINS = "~"  # before a preposition in a key: "source ~of fund"
_LONGER = 0.25  # weight as a noun of the last of several words after "the": not one in "my card expires"
_SURE = 4.0  # number of uses that weighs as much as the word's suffix
_INSIDE = 10  # weight of a spelling inside a sentence, relative to one at its start
_HEADING = 0.6  # least share of capitalized content words in a heading
_LEAST_HEADING = 4  # content words
# The prior roles of English words, by suffix.
_NOUNS = ("tion", "sion", "ment", "ness", "ity", "ism", "ist", "ship", "ance", "ence", "ure", "logy")
_OTHERS = ("ly", "ed", "ize", "ise", "ify", "ive", "al", "ous", "ful", "able", "ible", "ic", "less", "ing")


class _Kind:
    CONTENT, BEFORE_NOUN, BEFORE_VERB, JOINING, OTHER, SIGN, END = range(7)


_NOUN_FOLLOWS = (_Kind.BEFORE_NOUN, _Kind.JOINING)


class _Token(NamedTuple):
    written: str
    key: str  # case folded, in the singular
    kind: int
    is_object: bool = False  # it follows a verb
    most: int = _WORDS  # tokens of a phrase that begins here


_Phrase: TypeAlias = tuple[str, int, int]  # its key, and the range of its tokens


@dataclass(slots=True)
class Word:
    """How often a word was used in each role."""

    head: float = 0.0  # at the end of a sequence after "the" or "of"
    verb: float = 0.0  # after "to" or "we", or before "my" or "them"
    inner: float = 0.0  # before another word of the phrase


@dataclass(slots=True)
class Use:
    """How often a phrase was used in each role."""

    as_noun: int = 0  # the whole sequence after "the", "my" or "of"
    as_verb: int = 0  # after "to" or "we", or before "my" or "them"
    forms: Counter[str] = field(default_factory=Counter)  # as written; weighted more inside a sentence


@dataclass(frozen=True, slots=True)
class PhraseCounts:
    """The number of passages with each phrase, by cluster. Phrases are identified by keys: "debit card"."""

    counts: tuple[Mapping[str, int], ...]
    passages: tuple[int, ...]  # counted, of each cluster
    words: Mapping[str, Word]
    uses: Mapping[str, Use]

    def noun_share(self, key: str) -> float:
        """The likelihood that a phrase is a noun with its modifiers, from 0 to 1."""
        parts = [part.split() for part in re.split(rf" {_JOINS}\S+ ", key)]
        ends = min(self._ends(part[-1]) for part in parts)
        begins = self._begins(parts[0][0]) if len(parts[0]) > 1 else 1.0
        use = self.uses.get(key) or Use()
        return ends * (use.as_noun + _SURE * begins) / (use.as_noun + use.as_verb + _SURE)

    def written(self, key: str) -> str:
        """The most frequent spelling of a phrase."""
        use = self.uses.get(key)
        if use is None:
            return key.replace(_JOINS, "")
        return min(use.forms.items(), key=lambda item: (-item[1], item[0]))[0]

    def _ends(self, word: str) -> float:
        """The likelihood that a noun phrase ends with this word."""
        seen = self.words.get(word) or Word()
        usual = 0.2 if word.endswith(_OTHERS) else 0.8 if word.endswith(_NOUNS) else 0.5
        return (seen.head + _SURE * usual) / (seen.head + seen.verb + seen.inner / 2 + _SURE)

    def _begins(self, word: str) -> float:
        """The likelihood that a longer noun phrase begins with this word."""
        seen = self.words.get(word) or Word()
        usual = 0.2 if word.endswith("ly") else 0.8
        return (seen.inner + seen.head + _SURE * usual) / (seen.inner + seen.head + seen.verb + _SURE)


def content_words(key: str) -> list[str]:
    """The words of a phrase's key without prepositions."""
    return [word for word in key.split() if word[0] != _JOINS]


def phrase_length(key: str) -> float:
    """The number of words in a phrase without prepositions; two Chinese characters count as one."""
    return sum(0.5 if _UNSPACED.match(word) else 1.0 for word in content_words(key))


def singular(word: str) -> str:
    """An English word without its plural ending; other words only lose an "s"."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


class PhraseCounter:
    """Counts the phrases of one cluster after another, each at most once a passage."""

    def __init__(self) -> None:
        """Create an empty counter."""
        self._known: dict[int, dict[str, _Token]] = {}
        self._counts: list[Mapping[str, int]] = []
        self._passages: list[int] = []
        self._words: defaultdict[str, Word] = defaultdict(Word)
        self._uses: defaultdict[str, Use] = defaultdict(Use)

    def add(self, texts: Iterable[str]) -> None:
        """Count the phrases in the next cluster's passages, or a sample of them.

        Only the most frequent phrases are kept; those of a single passage only if there are no others.
        """
        counted: Counter[str] = Counter()
        read: list[tuple[list[_Token], list[_Phrase]]] = []
        for text in texts:
            tokens = self._tokens(text[:_READ])
            phrases = _phrases(tokens)
            counted.update({key for key, _, _ in phrases})
            self._count_roles(tokens)
            read.append((tokens, phrases))
        kept = commonest(counted, _KEPT)
        for tokens, phrases in read:
            self._count_uses(tokens, [each for each in phrases if each[0] in kept])
        self._counts.append(kept)
        self._passages.append(len(read))

    def counted(self) -> PhraseCounts:
        """The counts, by cluster in the order of `add`."""
        return PhraseCounts(tuple(self._counts), tuple(self._passages), dict(self._words), dict(self._uses))

    def _tokens(self, text: str) -> list[_Token]:
        pieces = _PIECE.findall(text)
        language = language_of({piece.casefold() for piece in pieces})
        known = self._known.setdefault(id(language), {})
        found = []
        for piece in pieces:
            token = known.get(piece)
            if token is None:
                token = known[piece] = _token(piece, language)
            found.append(token)
        return found

    def _count_roles(self, tokens: Sequence[_Token]) -> None:
        for begin, end in _stretches(tokens):
            opener = tokens[begin - 1].kind if begin else _Kind.END
            last = self._words[tokens[end - 1].key]
            if end < len(tokens) and tokens[end].is_object:
                last.verb += 1
            elif opener in _NOUN_FOLLOWS or (end < len(tokens) and tokens[end].kind == _Kind.JOINING):
                last.head += 1 if end - begin == 1 else _LONGER
            if opener == _Kind.BEFORE_VERB:
                self._words[tokens[begin].key].verb += 1
            elif opener in _NOUN_FOLLOWS:
                for token in tokens[begin : end - 1]:
                    self._words[token.key].inner += 1

    def _count_uses(self, tokens: Sequence[_Token], phrases: Sequence[_Phrase]) -> None:
        content = [token.written for token in tokens if token.kind == _Kind.CONTENT]
        capitals = sum(word[0].isupper() for word in content)
        heading = len(content) >= _LEAST_HEADING and capitals > _HEADING * len(content)
        for key, begin, end in phrases:
            use = self._uses[key]
            opener = tokens[begin - 1].kind if begin else _Kind.END
            if opener == _Kind.BEFORE_VERB or (end < len(tokens) and tokens[end].is_object):
                use.as_verb += 1
            elif opener in _NOUN_FOLLOWS and (end == len(tokens) or tokens[end].kind != _Kind.CONTENT):
                use.as_noun += 1
            words = [token.written for token in tokens[begin:end]]
            capital = heading or opener == _Kind.END  # capitals are not the phrase's own
            if capital:
                count = len(words) if heading else 1
                words[:count] = [_small(word) for word in words[:count]]
            use.forms[_joined(words)] += 1 if capital else _INSIDE


def _token(piece: str, language: Language) -> _Token:
    word = piece.replace("’", "'")
    folded = word.casefold()
    if not word[0].isalnum():
        return _Token(piece, piece, _Kind.END if piece in _ENDS else _Kind.SIGN)
    if piece in _CHINESE_FUNCTION_WORDS or re.match(f"[{_KANA}]", piece):
        return _Token(piece, piece, _Kind.OTHER)
    if piece in _ACRONYMS:
        return _Token(piece, folded, _Kind.CONTENT)
    if folded in language.all:
        return _Token(piece, folded, _kind(folded, language), folded in language.objects)
    if folded.endswith("'s"):
        word, folded = word[:-2], folded[:-2]
    if folded[0].isdigit() or (len(folded) < 2 and not _UNSPACED.match(folded)):
        return _Token(piece, folded, _Kind.SIGN)
    most = _CHARACTERS_OF_A_PHRASE if _UNSPACED.match(folded) else _WORDS
    return _Token(word, singular(folded), _Kind.CONTENT, most=most)


def _kind(function_word: str, language: Language) -> int:
    if function_word in language.joining:
        return _Kind.JOINING
    if function_word in language.before_nouns:
        return _Kind.BEFORE_NOUN
    return _Kind.BEFORE_VERB if function_word in language.before_verbs else _Kind.OTHER


def _stretches(tokens: Sequence[_Token]) -> Iterator[tuple[int, int]]:
    """(begin, end) of every maximal sequence of content words."""
    begin = None
    for place, token in enumerate(tokens):
        if token.kind != _Kind.CONTENT:
            if begin is not None:
                yield begin, place
            begin = None
        elif begin is None:
            begin = place
    if begin is not None:
        yield begin, len(tokens)


def _phrases(tokens: Sequence[_Token]) -> list[_Phrase]:
    """Every phrase: up to three adjacent content words, with one preposition as in "source of funds"."""
    found: list[_Phrase] = []
    content, joining = _Kind.CONTENT, _Kind.JOINING
    kinds = [token.kind for token in tokens]
    kinds += [_Kind.END] * (_CHARACTERS_OF_A_PHRASE + 1)
    for begin, (_, key, kind, _, most) in enumerate(tokens):
        if kind != content:
            continue
        found.append((key, begin, begin + 1))
        place = begin + 1
        if kinds[place] == joining:
            key = f"{key} {_JOINS}{tokens[place].key}"  # noqa: PLW2901 - the phrase grows
            place += 1
            most += 1  # noqa: PLW2901
        while kinds[place] == content and place < begin + most and tokens[place].key != tokens[place - 1].key:
            key = f"{key} {tokens[place].key}"  # noqa: PLW2901
            place += 1
            found.append((key, begin, place))
    return found


def _small(word: str) -> str:
    """A word without the capital letter of a heading or a sentence's start; "GPU" stays."""
    return word if any(letter.isupper() for letter in word[1:]) else word.casefold()


def _joined(words: Sequence[str]) -> str:
    """Join words with spaces, Chinese characters without."""
    text = words[0]
    for before, word in itertools.pairwise(words):
        text += word if _UNSPACED.match(before) and _UNSPACED.match(word) else f" {word}"
    return text


def commonest(counted: Mapping[str, int], most: int) -> dict[str, int]:
    """The most frequent keys; those with a count of 1 only if there are no others."""
    several = {key: count for key, count in counted.items() if count > 1} or counted
    return dict(sorted(several.items(), key=lambda item: (-item[1], item[0]))[:most])
