"""Two rankings side by side with lines between the same passages, as HTML: everything in it is escaped."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearsay.app.ui.escaping import as_html
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.query.hit import Hit

__all__ = ["Place", "drawing", "lines_svg", "moved", "place_of"]

Place = tuple[str, int]  # a passage: its document's id, and its place there

_ROW = 3.6  # height of a result, rem
_UP, _DOWN, _SAME = "#2a9d6f", "#d9822b", "#8a94a3"  # seen on light and on dark
_TEXT = 160  # characters of a passage


@dataclass(frozen=True, slots=True)
class _Side:
    ranks: Mapping[Place, int]
    other: Mapping[Place, int]
    absent: str  # what is said of what the other side has not


def place_of(hit: Hit) -> Place:
    """Which passage a hit is."""
    return hit.id, hit.passage


def drawing(left: Sequence[Hit], right: Sequence[Hit], names: tuple[str, str]) -> str:
    """The two lists; to the right it is said how far each moved and what is new, to the left what is gone.

    names: of the two sides
    """
    before = {place_of(hit): hit.rank for hit in left}
    after = {place_of(hit): hit.rank for hit in right}
    rows = max(len(left), len(right))
    svg = b64encode(lines_svg(before, after, rows).encode()).decode()
    lines = (
        f'<img class="ns-lines" style="height: {rows * _ROW:g}rem" alt="Lines between the same passages" '
        f'src="data:image/svg+xml;base64,{svg}">'
    )
    return (
        '<div class="ns-versus">'
        f'<div class="ns-side-name">{as_html(names[0])}</div><div></div>'
        f'<div class="ns-side-name">{as_html(names[1])}</div>'
        f"{_list(left, _Side(before, after, 'gone'), from_left=True)}{lines}"
        f"{_list(right, _Side(after, before, 'new'), from_left=False)}</div>"
    )


def lines_svg(before: Mapping[Place, int], after: Mapping[Place, int], rows: int) -> str:
    """A picture `rows` high in which each passage of both has a line from its rank to its rank."""
    lines = []
    for place, rank in before.items():
        if place in after:
            y, to = 10 * rank - 5, 10 * after[place] - 5
            colour = _SAME if y == to else _UP if to < y else _DOWN
            dashes = ' stroke-dasharray="5 3"' if to > y else ""
            lines.append(
                f'<path d="M0 {y} C40 {y} 60 {to} 100 {to}" stroke="{colour}"{dashes} fill="none" '
                'stroke-width="2" vector-effect="non-scaling-stroke"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 {max(10 * rows, 10)}" '
        f'preserveAspectRatio="none">{"".join(lines)}</svg>'
    )


def moved(before: int | None, after: int) -> str:
    """How a passage's rank has changed: ▲ 3, ▼ 2, =, new."""
    if before is None:
        return "new"
    if before == after:
        return "="
    return f"▲ {before - after}" if after < before else f"▼ {after - before}"


def _list(hits: Sequence[Hit], side: _Side, *, from_left: bool) -> str:
    items = "".join(_item(hit, side, from_left=from_left) for hit in hits)
    return f'<ol class="ns-list">{items}</ol>' if hits else '<div class="ns-list">Nothing was found.</div>'


def _item(hit: Hit, side: _Side, *, from_left: bool) -> str:
    there = side.other.get(place_of(hit))
    change = (side.absent if there is None else "") if from_left else moved(there, hit.rank)
    text = " ".join(hit.text.split())
    cut = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    style = " ns-lone" if there is None else ""
    return (
        f'<li class="ns-item{style}" style="height: {_ROW:g}rem" title="{as_html(cut)}">'
        f'<span class="ns-rank">{hit.rank}</span>'
        f'<span class="ns-what"><b>{as_html(headline(hit.title, hit.id, hit.text))}</b> {as_html(cut)}</span>'
        f'<span class="ns-change">{as_html(change)}</span></li>'
    )
