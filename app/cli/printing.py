"""What the commands print: for people, or as JSON lines."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nearsay.indexer import Hit, Hits

__all__ = ["print_hits", "print_json", "print_notes", "print_table", "visible"]

_CONTROLS = re.compile("[\x7f-\x9f]")
_PREVIEW = 400  # characters of a passage shown to a person


def print_json(row: object) -> None:
    """One object as one line of JSON on standard output."""
    value = asdict(row) if is_dataclass(row) and not isinstance(row, type) else row
    line = json.dumps(value, ensure_ascii=False, default=str)
    # JSON lets DEL and the C1 controls stand as they are; a terminal obeys them.
    click.echo(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", line))


def print_notes(notes: Iterable[str]) -> None:
    """Plain sentences on standard error, beside the results."""
    for note in notes:
        click.echo(visible(note), err=True)


def print_hits(hits: "Hits", *, as_json: bool) -> None:
    """The hits of a search, best first."""
    for hit in hits:
        if as_json:
            print_json(hit.to_json())
            continue
        facts = "  ".join(f"{name}={_shown(value)}" for name, value in hit.metadata.items())
        head = click.style(visible(hit.title or hit.id), bold=True)
        click.echo(f"{hit.rank:3}. {hit.score:.3f}  {head}{_parts(hit)}")
        click.echo(textwrap.indent(_body(hit), "     "))
        below = f"{hit.id}  {facts}".strip() if hit.title else facts  # without a title the id stands above
        if below:
            click.echo(click.style(f"     {visible(below)}", dim=True))
    print_notes(hits.notes)


def _parts(hit: "Hit") -> str:
    """What a score was made of, where it was made of more than one thing."""
    scores = hit.scores
    alone = scores.fused is None or (scores.dense is not None and abs(scores.fused - scores.dense) < 0.0005)
    if scores.rerank is None and alone:
        return ""
    named = {"meaning": scores.dense, "words": scores.lexical}
    parts = [f"{name} {value:.3g}" for name, value in named.items() if value is not None]
    return click.style(f"  ({', '.join(parts)})", dim=True) if parts else ""


def _body(hit: "Hit") -> str:
    from nearsay.app.cli.explanation_lines import explanation_lines, takes_colour

    width = _width() - 5
    if hit.explanation is not None:
        return "\n".join(explanation_lines(hit.text, hit.explanation, width=width, in_colour=takes_colour()))
    return textwrap.fill(textwrap.shorten(visible(hit.text), _PREVIEW, placeholder=" …"), width)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table of left-aligned words and right-aligned numbers."""
    table = [[visible(_shown(cell)) for cell in row] for row in rows]
    numeric = [
        bool(table) and all(row[i].replace(",", "").replace(".", "").lstrip("-").isdigit() for row in table)
        for i in range(len(headers))
    ]
    widths = [max(len(row[i]) for row in [list(headers), *table]) for i in range(len(headers))]
    for row in [list(headers), *table]:
        cells = [
            cell.rjust(w) if n else cell.ljust(w) for cell, w, n in zip(row, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def visible(text: str) -> str:
    """The text without control characters: a document must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _width() -> int:
    return min(110, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100
