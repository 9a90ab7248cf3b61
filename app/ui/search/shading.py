"""A text as HTML with its words shaded by their share of the score."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from nearsay.app.ui.escaping import as_html
from nearsay.data.function_words import grammatical_words
from nearsay.indexer.query.explanation import Explanation, MatchedWord, WordShare

__all__ = ["Marks", "marks_of", "shaded", "strongest_words", "telling"]

_LEAST = 0.2  # of the strongest share: what has less stays unshaded
_STRONG = 0.5  # opacity of the strongest
_COLOUR = "255, 176, 32"  # under dark and under light text


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked in one text; places are characters of it."""

    words: tuple[WordShare, ...] = ()
    strongest: float = 0.0  # the greatest share of all that is shaded: this opacity is the strongest
    matches: tuple[tuple[int, int], ...] = ()  # words of the query, underlined
    best: tuple[int, int] | None = None  # the nearest sentence


def marks_of(explanation: Explanation | None, matches: Sequence[MatchedWord] = ()) -> tuple[Marks, Marks]:
    """The marks of a title and of a passage's text.

    matches: the query's words where nothing was explained
    """
    found = matches if explanation is None else explanation.matches
    in_title = tuple((word.start, word.end) for word in found if word.in_title)
    in_text = tuple((word.start, word.end) for word in found if not word.in_title)
    if explanation is None:
        return Marks(matches=in_title), Marks(matches=in_text)
    title, words = _telling_parts(explanation)
    strongest = max((word.share for word in (*title, *words)), default=0.0)
    sentence = explanation.sentence
    best = None if sentence is None else (sentence.start, sentence.end)
    return (
        Marks(title, strongest, in_title),
        Marks(words, strongest, in_text, best),
    )


def shaded(text: str, marks: Marks, start: int = 0, end: int | None = None) -> str:
    """A stretch of the text, escaped: words shaded by share, matches underlined, the best sentence marked.

    Shares below 0 and those that are small beside the strongest are not shaded.
    """
    last = len(text) if end is None else min(end, len(text))
    spans = [(word.start, word.end, _opacity(word.share, marks)) for word in marks.words]
    share = _by_character(last, spans)
    match = _by_character(last, [(begin, stop, 1.0) for begin, stop in marks.matches])
    best = _by_character(last, [] if marks.best is None else [(*marks.best, 1.0)])
    whole = ""
    for in_best, places in groupby(range(start, last), key=lambda at: best[at][0] > 0):
        inner = ""
        for (number, opacity, matched), run in groupby(
            places, key=lambda at: (share[at][0], share[at][1], match[at][0] > 0)
        ):
            del number  # two words side by side are two runs
            stretch = list(run)
            inner += _marked(as_html(text[stretch[0] : stretch[-1] + 1]), opacity, matched=matched)
        whole += f'<span class="ns-best">{inner}</span>' if in_best else inner
    return whole


def strongest_words(explanation: Explanation, count: int = 8) -> list[tuple[str, float]]:
    """The words with the largest shares above 0, each once with what its places add up to."""
    together: dict[str, float] = {}
    title, words = _telling_parts(explanation)
    for word in (*title, *words):
        key = word.text.casefold()
        together[key] = together.get(key, 0.0) + word.share
    ordered = sorted(together.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(word, share) for word, share in ordered if share > 0][:count]


def telling(*texts: Sequence[WordShare]) -> list[tuple[WordShare, ...]]:
    """Of the words of texts in one language those that say something: no punctuation, no function words.

    An encoder gives "the" and "that" a share as well, which is no reason for anything.
    """
    empty = grammatical_words({word.text.casefold() for words in texts for word in words})
    return [
        tuple(
            word
            for word in words
            if any(map(str.isalnum, word.text)) and word.text.replace("’", "'").casefold() not in empty
        )
        for words in texts
    ]


def _telling_parts(explanation: Explanation) -> tuple[tuple[WordShare, ...], tuple[WordShare, ...]]:
    title, words = telling(explanation.title, explanation.words)
    return title, words


def _opacity(share: float, marks: Marks) -> float:
    if marks.strongest <= 0 or share < _LEAST * marks.strongest:
        return 0.0
    return round(_STRONG * min(share / marks.strongest, 1.0), 2)


def _by_character(length: int, spans: Sequence[tuple[int, int, float]]) -> list[tuple[int, float]]:
    """For each character the number of the span that it is in, from 1, and its value; (0, 0): in none."""
    found = [(0, 0.0)] * length
    for number, (start, end, value) in enumerate(spans, 1):
        if value:
            for at in range(max(start, 0), min(end, length)):
                found[at] = (number, value)
    return found


def _marked(inner: str, opacity: float, *, matched: bool) -> str:
    if matched:
        inner = f"<u>{inner}</u>"
    if opacity:
        inner = f'<mark style="background: rgba({_COLOUR}, {opacity})">{inner}</mark>'
    return inner
