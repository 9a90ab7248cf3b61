"""The noun phrases of clusters: which there are, how common each is, and how it is mostly written.

No tagger is asked. A stretch of words between function words and signs is cut into phrases of up to three
words; whether a phrase is a noun's is told by what stands around its words in all the passages: what follows
"the", "my" or "of" ends in a noun, what follows "to", "we" or "can" begins with a verb, what stands right
before "my" or "them" is a verb, and what stands inside and hardly ever at the end qualifies a noun. Where a
language's function words are not known, a phrase is as good as it is frequent.
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
    rf"[{_CHINESE}]|[{_KANA}]+|[\u30a1-\u30ff]+"  # written without spaces: a character is a word
    r"|[^\W_]+(?:['’.&+-]?[^\W_]+)*[+#]*|[^\w\s]|\n"  # a word, or a sign, which ends a phrase
)
_UNSPACED = re.compile(rf"[{_CHINESE}\u30a1-\u30ff]")
_CHINESE_FUNCTION_WORDS = frozenset("的了是在和与與及或不我你他她它们們这這那就也都而被把吗嗎呢吧啊么麼")
_WORDS = 3  # of a phrase
_CHARACTERS_OF_A_PHRASE = 6  # where a character is a word
_KEPT = 600  # phrases of a cluster, its commonest
_READ = 1_500  # characters of a text
_ACRONYMS = frozenset(("US", "IT", "WHO", "UN"))  # that are function words in small letters
_ENDS = frozenset(".!?\n:;")  # the word after them may have a capital letter for that alone
_JOINS = "~"  # before a preposition in a key: "source ~of fund"
_LONGER = 0.25  # the last word behind "the" and another word counts: in "my card expires" it is no noun
_SURE = 4.0  # uses that count as much as a word's ending does
_INSIDE = 10  # forms of a phrase inside a sentence count as so many of one at its beginning
_HEADING = 0.6  # of the content words begin with a capital letter
_LEAST_HEADING = 4  # content words
# How English words of these endings are used, where the passages show too little of it.
_NOUNS = ("tion", "sion", "ment", "ness", "ity", "ism", "ist", "ship", "ance", "ence", "ure", "logy")
_OTHERS = ("ly", "ed", "ize", "ise", "ify", "ive", "al", "ous", "ful", "able", "ible", "ic", "less", "ing")


class _Kind:
    CONTENT, BEFORE_NOUN, BEFORE_VERB, JOINING, OTHER, SIGN, END = range(7)


_NOUN_FOLLOWS = (_Kind.BEFORE_NOUN, _Kind.JOINING)


class _Token(NamedTuple):
    written: str
    key: str  # case folded, in the singular
    kind: int
    is_object: bool = False  # a verb stands before it
    most: int = _WORDS  # tokens of a phrase that begins here


_Phrase: TypeAlias = tuple[str, int, int]  # its key, and where it begins and ends among the tokens


@dataclass(slots=True)
class Word:
    """How often a word was used how."""

    head: float = 0.0  # it ended what follows "the" or "of"
    verb: float = 0.0  # it followed "to" or "we", or stood before "my" or "them"
    inner: float = 0.0  # another word of the phrase came behind it


@dataclass(slots=True)
class Use:
    """How a phrase was used."""

    as_noun: int = 0  # all that follows "the", "my" or "of"
    as_verb: int = 0  # behind "to" or "we", or before "my" or "them"
    forms: Counter[str] = field(default_factory=Counter)  # as written; inside a sentence it counts more


@dataclass(frozen=True, slots=True)
class PhraseCounts:
    """In how many passages each phrase stands, by cluster. A phrase is told by its key: "debit card"."""

    counts: tuple[Mapping[str, int], ...]
    passages: tuple[int, ...]  # that were looked at, of each cluster
    words: Mapping[str, Word]
    uses: Mapping[str, Use]

    def noun_share(self, key: str) -> float:
        """How likely a phrase is a noun with what qualifies it, from 0 to 1."""
        parts = [part.split() for part in re.split(rf" {_JOINS}\S+ ", key)]
        ends = min(self._ends(part[-1]) for part in parts)
        begins = self._begins(parts[0][0]) if len(parts[0]) > 1 else 1.0
        use = self.uses.get(key) or Use()
        return ends * (use.as_noun + _SURE * begins) / (use.as_noun + use.as_verb + _SURE)

    def written(self, key: str) -> str:
        """A phrase as it is written most often."""
        use = self.uses.get(key)
        if use is None:
            return key.replace(_JOINS, "")
        return min(use.forms.items(), key=lambda item: (-item[1], item[0]))[0]

    def _ends(self, word: str) -> float:
        """How likely a word is one that a noun phrase ends with."""
        seen = self.words.get(word) or Word()
        usual = 0.2 if word.endswith(_OTHERS) else 0.8 if word.endswith(_NOUNS) else 0.5
        return (seen.head + _SURE * usual) / (seen.head + seen.verb + seen.inner / 2 + _SURE)

    def _begins(self, word: str) -> float:
        """How likely a word is one that a longer noun phrase begins with."""
        seen = self.words.get(word) or Word()
        usual = 0.2 if word.endswith("ly") else 0.8
        return (seen.inner + seen.head + _SURE * usual) / (seen.inner + seen.head + seen.verb + _SURE)


def content_words(key: str) -> list[str]:
    """The words of a phrase's key without prepositions."""
    return [word for word in key.split() if word[0] != _JOINS]


def phrase_length(key: str) -> float:
    """The number of words in a phrase, prepositions left out; two Chinese characters are as one."""
    return sum(0.5 if _UNSPACED.match(word) else 1.0 for word in content_words(key))


def singular(word: str) -> str:
    """An English word without the plural's ending; others only lose an "s"."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


class PhraseCounter:
    """Counts the phrases of one cluster after the other: each counts once a passage."""

    def __init__(self) -> None:
        """Nothing is counted yet."""
        self._known: dict[int, dict[str, _Token]] = {}
        self._counts: list[Mapping[str, int]] = []
        self._passages: list[int] = []
        self._words: defaultdict[str, Word] = defaultdict(Word)
        self._uses: defaultdict[str, Use] = defaultdict(Use)

    def add(self, texts: Iterable[str]) -> None:
        """Count the next cluster's passages, or a sample of them; none is kept.

        Of a cluster the commonest phrases are kept, those of a single passage only where it has no others.
        """
        counted: Counter[str] = Counter()
        read: list[tuple[list[_Token], list[_Phrase]]] = []
        for text in texts:
            tokens = self._tokens(text[:_READ])
            phrases = _phrases(tokens)
            counted.update({key for key, _, _ in phrases})
            self._look_around(tokens)
            read.append((tokens, phrases))
        kept = commonest(counted, _KEPT)
        for tokens, phrases in read:
            self._look_at_phrases(tokens, [each for each in phrases if each[0] in kept])
        self._counts.append(kept)
        self._passages.append(len(read))

    def counted(self) -> PhraseCounts:
        """What was counted, a cluster in the place in which it was added."""
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

    def _look_around(self, tokens: Sequence[_Token]) -> None:
        """Note how the words of each stretch of content words are used."""
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

    def _look_at_phrases(self, tokens: Sequence[_Token], phrases: Sequence[_Phrase]) -> None:
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
            capital = heading or opener == _Kind.END  # which says nothing of how the phrase is written
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
    """(begin, end) of every stretch of content words."""
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
    """Every phrase: up to three content words in a row, or as "source of funds"."""
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
    """Without the capital letter that only a heading or a sentence's beginning gave it: not "GPU"."""
    return word if any(letter.isupper() for letter in word[1:]) else word.casefold()


def _joined(words: Sequence[str]) -> str:
    """The words with spaces between them, Chinese characters without."""
    text = words[0]
    for before, word in itertools.pairwise(words):
        text += word if _UNSPACED.match(before) and _UNSPACED.match(word) else f" {word}"
    return text


def commonest(counted: Mapping[str, int], most: int) -> dict[str, int]:
    """The keys that are counted most often, those that are counted once only where there are no others."""
    several = {key: count for key, count in counted.items() if count > 1} or counted
    return dict(sorted(several.items(), key=lambda item: (-item[1], item[0]))[:most])
