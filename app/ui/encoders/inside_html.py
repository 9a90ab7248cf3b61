"""Lines of context, their summaries, and tables of heads, as HTML."""

from collections.abc import Sequence

from nearsay.app.ui.escaping import as_html
from nearsay.indexer.inside.token_search import KwicPart, Summary, TokenMatch, TokenMatches

__all__ = ["STYLE", "layers_html", "lines_html", "summaries_html"]

STYLE = """<style>
.ns-kwic { display: grid; gap: .1rem; max-height: 26rem; overflow-y: auto; font-size: .875rem; }
.ns-kwic div { display: grid; grid-template-columns: 3.2rem minmax(0, 1fr) minmax(0, 1.2fr) 7rem; gap: .5rem;
  align-items: baseline; }
.ns-kwic p { margin: 0; overflow-wrap: anywhere; }
.ns-kwic p:first-of-type { text-align: right; }
.ns-kwic small { opacity: .65; font-variant-numeric: tabular-nums; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.ns-kwic mark { background: rgba(31, 95, 191, .25); color: inherit; border-radius: .2rem; padding: 0 .15rem; }
.ns-kwic u { text-decoration-color: #b4540a; text-decoration-thickness: 2px; text-underline-offset: 3px; }
.ns-sums { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: 1rem;
  font-size: .8rem; }
.ns-sums h4 { font-size: .85rem; margin: 0 0 .2rem; padding: 0; }
.ns-sums div.ns-bar { display: grid; grid-template-columns: 6rem 1fr 2rem; gap: .4rem; align-items: center; }
.ns-sums span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ns-sums i { height: .55rem; background: rgba(31, 95, 191, .7); border-radius: .15rem; min-width: 1px; }
.ns-sums i.ns-other { background: rgba(180, 84, 10, .7); }
.ns-heads td, .ns-heads th { padding: .2rem .45rem; text-align: right; font-weight: 400; }
.ns-heads { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .8rem; }
</style>"""


def lines_html(found: TokenMatches) -> str:
    """The matches in their lines: the token marked, what it attends to underlined."""
    lines = "".join(_line(match) for match in found.matches)
    return f'{STYLE}<div class="ns-kwic" role="list">{lines}</div>'


def _line(match: TokenMatch) -> str:
    signs = {
        KwicPart.TEXT: "{}",
        KwicPart.MATCH: "<mark>{}</mark>",
        KwicPart.ATTENDED: "<u>{}</u>",
        KwicPart.BOTH: "<mark><u>{}</u></mark>",
    }
    pieces = match.line()
    own = next(at for at, (part, _) in enumerate(pieces) if part in (KwicPart.MATCH, KwicPart.BOTH))
    before, after = (
        "".join(signs[part].format(as_html(piece)) for part, piece in some)
        for some in (pieces[:own], pieces[own:])
    )
    called = as_html(match.title or match.id)
    return (
        f'<div role="listitem" title="{called}"><small>{match.score:.3f}</small><p>{before}</p><p>{after}</p>'
        f"<small>→ {as_html(match.attended)} {match.attended_weight:.2f}</small></div>"
    )


def summaries_html(summaries: Sequence[Summary]) -> str:
    """Bars for what the matches have in common, and below for what they attend to most."""
    parts = ""
    for summary in summaries:
        parts += f"<section><h4>{as_html(summary.name)}</h4>"
        for values, kind in ((summary.matched, ""), (summary.attended, ' class="ns-other"')):
            most = max((count for _, count in values), default=1)
            for value, count in values[:8]:
                parts += (
                    f'<div class="ns-bar"><span title="{as_html(value)}">{as_html(value)}</span>'
                    f'<i{kind} style="width: {100 * count / most:.0f}%"></i><span>{count}</span></div>'
                )
        parts += "</section>"
    told = "<p>Blue: of the matched tokens; orange: of those that they attend to most.</p>"
    return f'{STYLE}<div class="ns-sums">{parts}</div>{told if summaries else ""}'


def layers_html(values: Sequence[Sequence[float]]) -> str:
    """A cell a layer and head, the darker the larger its value, 0 to 1."""
    most = max((value for row in values for value in row), default=0.0) or 1.0
    head = "".join(f'<th scope="col">{number}</th>' for number in range(1, len(values[0]) + 1))
    rows = ""
    for layer, row in enumerate(values, 1):
        cells = "".join(
            f'<td style="background: rgba(255, 176, 32, {0.75 * value / most:.2f})">{value:.3f}</td>'
            for value in row
        )
        rows += f'<tr><th scope="row">layer {layer}</th>{cells}</tr>'
    table = f'<table class="ns-heads"><tr><th>head</th>{head}</tr>{rows}</table>'
    return f'{STYLE}<div style="overflow-x: auto">{table}</div>'
