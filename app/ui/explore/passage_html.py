"""A passage as a card of the page: all of it text, none of it markup."""

from collections.abc import Mapping

from nearsay.app.cli.printing import visible
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.search.card import metadata_line
from nearsay.data.document import JsonValue

__all__ = ["passage_html"]

_LONGEST = 700  # characters of a text


def passage_html(
    *,
    title: str,
    text: str,
    rank: int | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    said: str = "",
    below: str = "",
    whole: bool = False,
) -> str:
    """The card; said: a word beside the title, below: a line under the text, whole: nothing is cut."""
    head = "" if rank is None else f'<span class="ns-rank">{rank}</span>'
    head += f'<span class="ns-title">{_text(title)}</span>'
    if said:
        head += f'<span class="ns-score">{_text(said)}</span>'
    cut = text if whole or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    lines = [below, metadata_line(metadata) if metadata else ""]
    facts = "".join(f'<div class="ns-meta">{_text(line)}</div>' for line in lines if line)
    body = f'<div class="ns-text">{_text(cut)}</div>'
    return f'<div class="ns-card"><div class="ns-head">{head}</div>{body}{facts}</div>'


def _text(text: str) -> str:
    return as_html(visible(text))
