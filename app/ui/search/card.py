"""A result as HTML: everything in it is escaped."""

import json
import re
from collections.abc import Mapping

from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.search.closeness import score_line
from nearsay.app.ui.search.shading import Marks, marks_of, shaded
from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.query.explanation import Explanation
from nearsay.indexer.query.hit import Hit
from nearsay.indexer.query.matched_terms import MatchedTerms

__all__ = ["card_html", "cut_at", "metadata_line"]

_OPEN = 620  # characters of a passage that are shown at once
_MOST = 20_000  # characters that can be unfolded; the document's own text holds all
_SLACK = 180  # so little more is not hidden
_FIELDS = 8  # of the metadata
_LONGEST = 80  # characters of a value
_BREAK = re.compile(r"[.!?]\s|\n")


def card_html(
    hit: Hit,
    mode: SearchMode | None,
    explanation: Explanation | None = None,
    matches: MatchedTerms | None = None,
) -> str:
    """A hit with its words marked; a long passage is folded, and its best sentence stays in sight.

    mode:    how it was searched; None: by likeness to documents
    matches: the query's words; those of the explanation, if there is one, are the same
    """
    title_marks, marks = marks_of(explanation, () if matches is None else matches.words)
    terms = () if matches is None else matches.terms
    score = score_line(hit, mode, explanation.matched if explanation is not None else terms)
    title = shaded(hit.title, title_marks) if hit.title.strip() else as_html(headline("", hit.id, hit.text))
    meta = metadata_line(hit.metadata)
    parts = [
        '<div class="ns-head">',
        f'<span class="ns-rank">{hit.rank}</span>',
        f'<span class="ns-title" role="heading" aria-level="3">{title}</span>',
        f'<span class="ns-score">{as_html(score)}</span>',
        "</div>",
        _passage(hit.text, marks),
        f'<div class="ns-meta">{as_html(meta)}</div>' if meta else "",
    ]
    return f'<article class="ns-card">{"".join(parts)}</article>'


def metadata_line(metadata: Mapping[str, JsonValue], fields: int = _FIELDS) -> str:
    """The first fields with their values: year 2020 · venue ACL · and 3 more."""
    shown = [f"{name} {_short(value)}" for name, value in metadata.items() if value not in (None, "", [], {})]
    more = len(shown) - fields
    return " · ".join([*shown[:fields], f"and {more} more"] if more > 0 else shown)


def cut_at(text: str, room: int = _OPEN, slack: int = _SLACK) -> int:
    """Where a long text is folded: after a sentence near `room` characters, else between words."""
    if len(text) <= room + slack:
        return len(text)
    ends = [found.end() for found in _BREAK.finditer(text, room // 2, room)]
    if ends:
        return ends[-1]
    space = text.rfind(" ", room // 2, room)
    return space + 1 if space > 0 else room


def _passage(text: str, marks: Marks) -> str:
    end = cut_at(text)
    whole = f'<div class="ns-text">{shaded(text, marks, 0, end)}'
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
