"""What the commands print: for people, or as JSON lines."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import click

from nearsay.data.document import beginning

if TYPE_CHECKING:
    from nearsay.indexer import Hit, Hits

__all__ = [
    "metadata_line",
    "print_hits",
    "print_json",
    "print_notes",
    "print_table",
    "terminal_width",
    "visible",
]

_CONTROLS = re.compile("[\x7f-\x9f]")
_PREVIEW = 400  # characters of a passage shown to a person
_LEAST_SHARE = 0.0005  # of the words in a score, to be seen in its three digits


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


def print_hits(hits: "Hits", *, as_json: bool, by_ranks: bool = False) -> None:
    """The hits of a search, best first.

    by_ranks: hybrid put them in order by their ranks, so that scores are no sum of a cosine and words
    """
    from nearsay.indexer.catalogue.passage import headline

    for hit in hits:
        if as_json:
            print_json(hit.to_json())
            continue
        facts = metadata_line(hit.metadata)
        called = headline(hit.title, hit.id, hit.text)
        head = click.style(visible(called), bold=True)
        click.echo(f"{hit.rank:3}. {hit.score:.3f}  {head}{_parts(hit, by_ranks=by_ranks)}")
        if called != hit.text or hit.explanation is not None:
            click.echo(textwrap.indent(_body(hit), "     "))
        below = facts if called == hit.id else f"{hit.id}  {facts}".strip()
        if below:
            click.echo(click.style(f"     {visible(below)}", dim=True))
    device = next((hit.lineage.device for hit in hits), "cpu")
    if device != "cpu":
        click.echo(f"searched on {device}", err=True)
    print_notes(hits.notes)


def metadata_line(metadata: Mapping[str, Any]) -> str:
    """The fields of a document with their values as they stand in a filter: 20190308 and not 20,190,308."""
    plain = {name: value if isinstance(value, str) else _json(value) for name, value in metadata.items()}
    return "  ".join(f"{name}={value}" for name, value in plain.items())


def _parts(hit: "Hit", *, by_ranks: bool) -> str:
    """What a score is or was made of; nothing where it is a plain cosine."""
    scores = hit.scores
    cosine = "" if scores.dense is None else f"cosine {scores.dense:.3f}"
    bm25 = "" if scores.lexical is None else f"BM25 {scores.lexical:.2f}"
    both = ", ".join(part for part in (cosine, bm25) if part)
    said = ""
    if scores.rerank is not None:
        said = f"judged; {both}" if both else "judged"
    elif scores.fused is None:
        said = "BM25" if bm25 else ""
    elif by_ranks:
        said = f"by ranks; {both}"
    else:
        of_words = scores.fused - (scores.dense or 0.0)
        shown = f"words {of_words:.3f}" if of_words >= _LEAST_SHARE else ""
        if hit.explanation is not None and scores.word_share is not None:
            why = f"{scores.word_share:.0%} of a full match by words"
            shown = f"{shown}, {why}" if shown else f"words nothing, {why}"
        said = " + ".join(part for part in (cosine, shown) if part) if shown else ""
    return click.style(f"  ({said})", dim=True) if said else ""


def _body(hit: "Hit") -> str:
    width = terminal_width() - 5
    if hit.explanation is not None:
        from nearsay.app.cli.explanation_lines import explanation_lines, takes_colour

        return "\n".join(explanation_lines(hit.text, hit.explanation, width=width, in_colour=takes_colour()))
    return textwrap.fill(beginning(visible(hit.text), _PREVIEW), width)


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
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return json.dumps(value, ensure_ascii=False, default=str)


def terminal_width() -> int:
    """How many columns there are to write in: at most 110, and 100 where it is not known."""
    return min(110, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100
