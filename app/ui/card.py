"""A result or a passage as HTML, with everything escaped, and the buttons that judge it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import streamlit as st

from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.visit import Visit
from nearsay.data.document import JsonValue, visible
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.passages import heading
from nearsay.indexer.filters.fields import named_values
from nearsay.indexer.query.explain import MatchedTerms
from nearsay.indexer.query.hit import Explanation, Hit, MatchedWord, WordShare, telling

_LEAST = 0.2  # of the largest share; words below it are not shaded
_STRONG = 0.5  # opacity of the largest share
_COLOUR = "255, 176, 32"  # readable in the dark and the light theme


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked in one text; positions are characters."""

    words: tuple[WordShare, ...] = ()
    strongest: float = 0.0  # the largest share in the title and the text, shaded with the highest opacity
    matches: tuple[tuple[int, int], ...] = ()  # words of the query, underlined
    best: tuple[int, int] | None = None  # the best sentence


def marks_of(explanation: Explanation | None, matches: Sequence[MatchedWord] = ()) -> tuple[Marks, Marks]:
    """Return the marks of a title and of a passage's text.

    matches: the query's words, used if there is no explanation
    """
    found = matches if explanation is None else explanation.matches
    in_title = tuple((word.start, word.end) for word in found if word.in_title)
    in_text = tuple((word.start, word.end) for word in found if not word.in_title)
    if explanation is None:
        return Marks(matches=in_title), Marks(matches=in_text)
    title, words = telling(explanation.title, explanation.words)
    strongest = max((word.share for word in (*title, *words)), default=0.0)
    sentence = explanation.sentence
    best = None if sentence is None else (sentence.start, sentence.end)
    return (
        Marks(title, strongest, in_title),
        Marks(words, strongest, in_text, best),
    )


def shaded(text: str, marks: Marks, start: int = 0, end: int | None = None) -> str:
    """Return part of the text, escaped: words shaded by share, matches underlined, the best sentence marked.

    Negative shares, and those that are small beside the strongest, are not shaded.
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
            del number  # keeps adjacent words separate
            stretch = list(run)
            inner += _marked(as_html(text[stretch[0] : stretch[-1] + 1]), opacity, matched=matched)
        whole += f'<span class="ns-best">{inner}</span>' if in_best else inner
    return whole


def _opacity(share: float, marks: Marks) -> float:
    if marks.strongest <= 0 or share < _LEAST * marks.strongest:
        return 0.0
    return round(_STRONG * min(share / marks.strongest, 1.0), 2)


def _by_character(length: int, spans: Sequence[tuple[int, int, float]]) -> list[tuple[int, float]]:
    """Return for each character the number of its span, from 1, and its value; (0, 0.0) outside of spans."""
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


# For the cosines of the bundled encoder; other encoders' scales differ.
_STEPS = ((0.75, "very close"), (0.55, "close"), (0.35, "related"))
_REST = "distant"

_NAMED = 3  # words

SCORE_HELP = (
    "Very close: a cosine similarity of 0.75 and more, close: 0.55, related: 0.35, below that distant. "
    "These steps fit the bundled encoder; other encoders' scales differ. Hybrid adds 0.2 to the "
    "cosine where a passage has the query's five rarest words, more where it is short or repeats them, and "
    "ranks by the sum. By words alone the score is BM25, which has no upper bound and is comparable within "
    "one query only."
)


def in_words(cosine: float) -> str:
    """Return a word for a cosine similarity; see `SCORE_HELP`."""
    return next((word for least, word in _STEPS if cosine >= least), _REST)


def score_line(hit: Hit, mode: SearchMode | None, words: Sequence[str] = ()) -> str:
    """Return a hit's score in words: close · cosine 0.62 + 0.17 for its words.

    A passage that is distant by meaning is described by its matching words.

    mode: how it was searched; None: by likeness to documents
    words: words of the query that the passage contains
    """
    cosine = hit.scores.dense
    named = ", ".join(f"“{word}”" for word in words[:_NAMED])
    named = f" {named}" + " …" * (len(words) > _NAMED) if named else ""
    if mode is SearchMode.LEXICAL:
        return f"by words · BM25 {hit.score:.1f}"
    if cosine is None:
        return f"by its words{named} · ranked by {hit.score:.2f}"
    added = hit.score - cosine
    if mode is not SearchMode.HYBRID or abs(added) < 0.005:  # otherwise both round to the same figure
        return f"{in_words(cosine)} · cosine {cosine:.2f}"
    if added < 0:
        return f"{in_words(cosine)} · cosine {cosine:.2f} · ranked by {hit.score:.2f}"
    if in_words(cosine) == _REST:
        return f"by its words{named} · cosine {cosine:.2f} + {added:.2f} for them"
    return f"{in_words(cosine)} · cosine {cosine:.2f} + {added:.2f} for its words"


_OPEN = 620  # characters of a passage before it is folded
_MOST = 20_000  # characters that can be unfolded; the document view shows all
_SLACK = 180  # a text this little longer is not folded
_FIELDS = 8  # of the metadata
_LONGEST = 80  # characters of a value
_BREAK = re.compile(r"[.!?]\s|\n")


def card_html(
    hit: Hit,
    mode: SearchMode | None,
    explanation: Explanation | None = None,
    matches: MatchedTerms | None = None,
) -> str:
    """Return a hit with its words marked; a long passage is folded, with its best sentence visible.

    mode: how it was searched; None: by likeness to documents
    matches: the query's words, used if there is no explanation
    """
    title_marks, marks = marks_of(explanation, () if matches is None else matches.words)
    terms = () if matches is None else matches.terms
    score = score_line(hit, mode, explanation.matched if explanation is not None else terms)
    called, begun = heading(hit.title, hit.id, hit.text)
    title = shaded(hit.title, title_marks) if hit.title.strip() else as_html(called)
    if begun:  # the beginning of the text is its heading
        title = shaded(hit.text, marks, 0, begun)
    body = _passage(hit.text, marks, begun)
    return _card(title, body, [metadata_line(hit.metadata)], rank=hit.rank, note=score)


def _card(title: str, body: str, facts: Sequence[str], *, rank: int | None, note: str) -> str:
    """Return the HTML of a card.

    title, body: HTML
    facts: lines below the text; empty ones are omitted
    note: shown beside the title
    """
    head = "" if rank is None else f'<span class="ns-rank">{rank}</span>'
    head += f'<span class="ns-title" role="heading" aria-level="3">{title}</span>'
    if note:
        head += f'<span class="ns-score">{_text(note)}</span>'
    below = "".join(f'<div class="ns-meta">{_text(line)}</div>' for line in facts if line)
    return f'<article class="ns-card"><div class="ns-head">{head}</div>{body}{below}</article>'


def metadata_line(
    metadata: Mapping[str, JsonValue],
    fields: int = _FIELDS,
    *,
    beside: Mapping[str, JsonValue] | None = None,
) -> str:
    """Return the first fields with their values: year 2020 · author.name Ada · and 3 more.

    beside: metadata of the document that this one is compared with; fields that differ come first
    """
    named = list(named_values(metadata))
    if beside is not None:
        there = dict(named_values(beside))
        named.sort(key=lambda field: there.get(field[0]) == field[1])
    shown = [f"{name} {_short(value)}" for name, value in named if value not in (None, "", [], {})]
    more = len(shown) - fields
    return " · ".join([*shown[:fields], f"and {more} more"] if more > 0 else shown)


def cut_at(text: str, room: int = _OPEN, slack: int = _SLACK) -> int:
    """Return where to fold a long text: after a sentence that ends near `room`, else between words."""
    if len(text) <= room + slack:
        return len(text)
    ends = [found.end() for found in _BREAK.finditer(text, room // 2, room)]
    if ends:
        return ends[-1]
    space = text.rfind(" ", room // 2, room)
    return space + 1 if space > 0 else room


def _passage(text: str, marks: Marks, start: int = 0) -> str:
    if start == len(text):
        return ""
    end = cut_at(text)
    whole = f'<div class="ns-text">{shaded(text, marks, start, end)}'
    if end == len(text):
        return f"{whole}</div>"
    if marks.best is not None and marks.best[0] >= end:
        whole += f' … <span class="ns-said">{shaded(text, marks, *marks.best)}</span>'
    rest = shaded(text, marks, end, end + _MOST) + (" …" if end + _MOST < len(text) else "")
    return f'{whole} …</div><details class="ns-rest"><summary>Show all</summary><div>{rest}</div></details>'


def _short(value: JsonValue) -> str:
    if isinstance(value, list) and all(isinstance(one, str | int | float) for one in value):
        text = ", ".join(_plain(one) for one in value)
    elif isinstance(value, list | Mapping):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = _plain(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_LONGEST_TEXT = 700  # characters of a text


def passage_html(
    *,
    title: str,
    text: str,
    id_: str = "",
    rank: int | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    note: str = "",
    below: str = "",
    whole: bool = False,
) -> str:
    """Return the card of a passage.

    id_: of the document; the card's title where neither the document nor the text has one
    note: shown beside the title
    below: a line under the text
    whole: nothing is cut
    """
    title, begun = heading(title, id_, text)
    text = text[begun:]
    cut = text if whole or len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
    lines = [below, metadata_line(metadata) if metadata else ""]
    body = f'<div class="ns-text">{_text(cut)}</div>' if cut else ""
    return _card(_text(title), body, lines, rank=rank, note=note)


def _text(text: str) -> str:
    return as_html(visible(text))


Judged = Mapping[tuple[str, int], bool]


def judged_of(visit: Visit, query: str) -> Judged:
    """Return the judgements for a query, by document id and passage."""
    return visit.collection.judgements.of(query) if query.strip() else {}


def judge_buttons(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, judged: Judged, *, page: str
) -> None:
    """Draw two buttons to judge a hit; clicking an active one removes the judgement. None in read-only mode.

    page: part of the buttons' keys
    """
    if not visit.may_write:
        return
    word = judged.get((hit.id, hit.passage))
    for relevant, label, icon in (
        (True, "Relevant", ":material/thumb_up:"),
        (False, "Not relevant", ":material/thumb_down:"),
    ):
        pressed = word is relevant
        st.button(
            label,
            key=f"{page} {relevant} {hit.id} {hit.passage}",
            icon=":material/check_circle:" if pressed else icon,
            type="primary" if pressed else "tertiary",
            help="Click again to remove the judgement." if pressed else None,
            on_click=_judge,
            args=(visit, query, hit, mode, relevant, pressed),
        )


@showing_errors()
def _judge(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, relevant: bool, pressed: bool
) -> None:
    visit.check_writing()
    if pressed:
        visit.collection.judgements.remove(query, hit)
    else:
        visit.collection.judgements.add(query, hit, relevant, mode=mode)
