"""Output of the commands: text for people, JSON lines or CSV."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from unicodedata import east_asian_width

import click

from nearsay.app.cli.progress import note_listener
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted, significant
from nearsay.data.report import Report

if TYPE_CHECKING:
    from nearsay.app.jobs.results import JobResults
    from nearsay.data.report import Row
    from nearsay.indexer import Hit, Hits
    from nearsay.indexer.neighbours.points import Near, ShownPassage
    from nearsay.indexer.query.hit import Explanation
    from nearsay.indexer.writing.overview import CollectionOverview

ROWS_FORMAT: Final = "nearsay.rows_format"  # key in a context's meta: table, csv, jsonl or json
LIBRARY_GIVEN: Final = "nearsay.library.given"  # key in a context's meta: --library of the command line
_CSV_COLUMNS: Final = "nearsay.csv_columns"
_CONTROLS = re.compile("[\x7f-\x9f]")
_CONTROLS_IN_CSV = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the newline
_ENDLESS = 1_000_000  # columns, so that no row wraps
_LEAST_WIDTH = 8  # characters of its longest word that a cell must fit
_REMEDY = re.compile(r": nearsay ((?:(?!\. |: )[^;,])+)$")
_NUMBER = re.compile(r"-?[\d,.]+")
_LONGEST = 60  # characters of a JSON value of unknown kind
_PREVIEW = 400  # characters of a passage shown to a person
_LEAST_SHARE = 0.0005  # smallest share of words visible in three decimals
_Kind = TypeVar("_Kind")


def rows_alone() -> bool:
    """Return whether `--format` requests rows only: csv or jsonl."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(ROWS_FORMAT) in ("csv", "jsonl")


def print_json(row: object) -> None:
    """Print an object as one line of JSON, or as a row of CSV with `--format csv`."""
    value = row
    if isinstance(row, Report) and not rows_alone():
        value = row.to_json()
    elif is_dataclass(row) and not isinstance(row, type):
        value = asdict(row)
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(ROWS_FORMAT) == "csv":
        _print_csv(cast("Mapping[str, Any]", value), context)
        return
    line = json.dumps(value, ensure_ascii=False, default=str)
    # JSON leaves DEL and C1 controls unescaped, which terminals interpret.
    click.echo(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", line))


def _print_csv(row: Mapping[str, Any], context: click.Context) -> None:
    """Print a row with the columns of the first one; nested values are printed as JSON."""
    first = _CSV_COLUMNS not in context.meta
    columns = context.meta.setdefault(_CSV_COLUMNS, list(row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if first:
        writer.writerow(columns)
    cells = (row.get(name) for name in columns)
    writer.writerow("" if cell is None else cell if isinstance(cell, str) else _json(cell) for cell in cells)
    click.echo(_CONTROLS_IN_CSV.sub(" ", text.getvalue()), nl=False)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error; a job also stores them for the page."""
    keep = note_listener()
    for note in notes:
        if keep is not None:
            keep(note)
        click.echo(visible(in_the_library(note)), err=True)


def in_the_library(message: str, context: click.Context | None = None) -> str:
    """Add --library to the command at the end of a message, if the command line has it."""
    context = context or click.get_current_context(silent=True)
    remedy = _REMEDY.search(message)
    library = None if context is None else context.meta.get(LIBRARY_GIVEN)
    if context is None or remedy is None or library is None or "--library" in remedy[0]:
        return message
    command: click.Command | None = context.find_root().command
    for name in remedy[1].split():
        command = command.commands.get(name) if isinstance(command, click.Group) else command
    if command is None or not any("--library" in option.opts for option in command.params):
        return message
    return f"{message} --library {shlex.quote(library)}"


def print_done(result: object, sentence: str, *, as_json: bool) -> None:
    """Print what was done: as JSON, or as a sentence on standard error."""
    if as_json:
        print_json(result)
    else:
        print_notes([sentence])


def print_hits(hits: "Hits", *, as_json: bool, by_ranks: bool = False) -> None:
    """Print the hits of a search, best first.

    by_ranks: hybrid search ranked them by reciprocal ranks, so scores are not sums of a cosine and words
    """
    for hit in hits:
        if as_json:
            print_json(hit.to_json())
        else:
            _print_passage(hit, _parts(hit, by_ranks=by_ranks), why=hit.explanation)
    device = next((hit.lineage.device for hit in hits), "cpu")
    if device != "cpu":
        click.echo(f"searched on {device}", err=True)
    print_notes(hits.notes)


def metadata_line(metadata: Mapping[str, Any]) -> str:
    """Return the fields of a document with their values as in a filter: 20190308, author.name=Ada."""
    from nearsay.indexer.filters.fields import named_values

    plain = (
        (name, value if isinstance(value, str) else _json(value)) for name, value in named_values(metadata)
    )
    return "  ".join(f"{name}={value}" for name, value in plain)


def _parts(hit: "Hit", *, by_ranks: bool) -> str:
    """Return what a score consists of; "" if it is a plain cosine."""
    scores = hit.scores
    cosine = "" if scores.dense is None else f"cosine {scores.dense:.3f}"
    bm25 = "" if scores.lexical is None else f"BM25 {scores.lexical:.2f}"
    both = ", ".join(part for part in (cosine, bm25) if part)
    parts = ""
    if scores.rerank is not None:
        parts = f"reranked; {both}" if both else "reranked"
    elif scores.fused is None:
        parts = "BM25" if bm25 else ""
    elif by_ranks:
        parts = f"by ranks; {both}"
    else:
        of_words = scores.fused - (scores.dense or 0.0)
        shown = f"words {of_words:.3f}" if of_words >= _LEAST_SHARE else ""
        if hit.explanation is not None and scores.word_share is not None:
            why = f"{scores.word_share:.0%} of a full match by words"
            shown = f"{shown}, {why}" if shown else f"words nothing, {why}"
        parts = " + ".join(part for part in (cosine, shown) if part) if shown else ""
    return parts


def _print_passage(
    found: "Hit | ShownPassage", note: str, below: str = "", why: "Explanation | None" = None
) -> None:
    """Print rank, score and title, the text or why it matched, and its metadata.

    note: after the title
    below: a line under the text
    """
    from nearsay.indexer.catalogue.passages import headline

    called = headline(found.title, found.id, found.text)
    behind = click.style(f"  ({note})", dim=True) if note else ""
    click.echo(f"{found.rank:3}. {found.score:.3f}  {click.style(visible(called), bold=True)}{behind}")
    width = _terminal_width() - 5
    if why is not None:
        for line in explanation_lines(found.text, why, width=width, in_colour=takes_colour()):
            click.echo(f"     {line}")
    elif called != found.text:
        click.echo(textwrap.indent(filled(beginning(visible(found.text), _PREVIEW), width), "     "))
    facts = metadata_line(found.metadata)
    for line in (below, facts if called == found.id else f"{found.id}  {facts}".strip()):
        if line:
            click.echo(click.style(f"     {visible(line)}", dim=True))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with text left-aligned and numbers right-aligned.

    On a terminal, cells wrap to its width; if they would get too narrow, each cell gets its own line, as in
    psql. Elsewhere each row is one line. Wide characters (CJK) count as two columns.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[visible(_shown(cell)) for cell in row] for row in rows]
    at_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if at_terminal else _ENDLESS
    words = [" ".join(column).split() for column in zip(headers, *cells, strict=True)]
    least = [max((min(cell_len(word), _LEAST_WIDTH) for word in each), default=0) for each in words]
    if sum(least) + 2 * len(least) - 2 > width and len(headers) > 2 and cells:
        for i, row in enumerate(cells):
            if i:
                click.echo()
            print_table(["", ""], [[name, cell] for name, cell in zip(headers, row, strict=True) if cell])
        return
    some = any(headers)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=some)
    for i, header in enumerate(headers):
        numeric = bool(cells) and all(_NUMBER.fullmatch(row[i]) for row in cells)
        table.add_column(Text(visible(header)), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=width, force_terminal=at_terminal)
    console.print(table, crop=False)
    for line in console.file.getvalue().splitlines():  # type: ignore[attr-defined]
        click.echo(line.rstrip())


def print_rows(
    rows: Iterable[_Kind],
    columns: Mapping[str, str | Callable[[_Kind], object]],
    *,
    as_json: bool,
    to_json: Callable[[_Kind], object] = lambda row: row,
    whole: object = None,
) -> None:
    """Print rows as lines of JSON or CSV, or as a table.

    columns: titles of the table, each with a field of the row or a function that returns the cell
    to_json: converts a row for JSON
    whole: a single object that --json prints instead of the rows
    """
    if as_json:
        for one in [whole] if whole is not None and not rows_alone() else map(to_json, rows):
            print_json(one)
        return
    cells = [[of(row) if callable(of) else getattr(row, of) for of in columns.values()] for row in rows]
    print_table([*columns], [["" if cell is None else cell for cell in row] for row in cells])


def print_reports(found: Sequence[Report], *, as_json: bool) -> None:
    """Print reports as lines of JSON, or as the tables that a job of the same command shows."""
    from nearsay.app.jobs.results import results_of

    if as_json:
        for report in found:
            print_json(report)
    else:
        results = results_of(found)
        print_results(results)
        print_notes(results.lines)


def print_results(found: "JobResults", *, whole: bool = False) -> None:
    """Print the tables of results; whole: do not truncate long values of unknown kinds."""
    facts: list[Row] = [{"": name, "result": value} for name, value in found.facts.items()]
    longest = None if whole else _LONGEST
    rows = [{_label(name): _line(value, longest) for name, value in row.items()} for row in found.rows]
    figures, last = (
        [{"": name, "result": value} for name, value in table[0].items()] if len(table) == 1 else table
        for table in (found.figures, rows)
    )
    tables = [table for table in (found.changes, figures, facts, *found.tables, last) if table]
    for i, table in enumerate(tables):
        if i:
            click.echo()
        names = list(dict.fromkeys(name for row in table for name in row))
        print_table(names, [[row.get(name, "") for name in names] for row in table])


def _label(name: str) -> str:
    return visible(name.replace("_", " "))


def _line(value: str | float, longest: int | None) -> str:
    """Return a value of unknown kind, truncated if it is too long."""
    if not isinstance(value, str):  # an integer may be an identifier: no separators
        return significant(value) if isinstance(value, float) else str(value)
    line = " ".join(value.split())
    return line if longest is None or len(line) <= longest else line[: longest - 1] + "…"


def _shown(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return json.dumps(value, ensure_ascii=False, default=str)


def _terminal_width() -> int:
    """Return the width to print in: at most 110 columns, 100 without a terminal."""
    return min(110, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100


_NEAR_PREVIEW = 80

_Passage = TypeVar("_Passage", bound="ShownPassage")


def print_passages(
    found: Iterable[_Passage], texts: Callable[[_Passage], tuple[str, str]], *, as_json: bool
) -> None:
    """Print the passages in order, as text or JSON.

    texts: returns the texts after a passage's title and below it
    """
    for each in found:
        if as_json:
            print_json(each)
        else:
            _print_passage(each, *texts(each))


def near_line(near: "Near | None", what: str) -> str:
    """Return the nearest passage in a line."""
    if near is None:
        return ""
    title = beginning(near.title or near.text, _NEAR_PREVIEW)
    return f"{what}: {near.cosine:.3f}  {title}" + (f"  ({near.id})" if near.title else "")


_SHOWN = 400  # characters of a passage
_BACKGROUNDS = (230, 229, 228, 227, 226)  # of xterm's 256 colours: pale to strong yellow
_AGAINST = 224  # pale red: a negative share
_INK = 16  # black
_LEAST = 0.2  # of the largest share; smaller ones are not marked
_ROUNDING = 0.0005  # visible in three decimals


def indexed_words(found: "CollectionOverview") -> str:
    """Return how many passages of the live generation are indexed, and how the others are searched."""
    from nearsay.indexer.plans.plan import EXACT_UP_TO

    others, indexes = counted(found.unindexed, "passage"), found.indexes
    are = "is" if found.unindexed == 1 else "are"
    if not indexes:
        return f"{others} {are} compared one by one: up to {EXACT_UP_TO:,} need no index"
    covered = counted(sum(row.count for row in indexes), "passage")
    text = f"{covered} in {counted(len(indexes), 'index', 'indexes')}"
    return f"{text}; {others} added since {are} compared one by one" if found.unindexed else text


def takes_colour() -> bool:
    """Return whether standard output is a terminal that supports colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def explanation_lines(
    text: str, explanation: "Explanation", *, width: int = 95, in_colour: bool = False
) -> list[str]:
    """Return the passage's text with its words marked by their shares, and below it why it matched.

    width: characters of a line
    in_colour: mark words by background colour; otherwise shares are only listed

    Control characters are shown as spaces. A long passage is shown from its best sentence.
    """
    best = explanation.sentence
    start = best.start if best is not None and best.end > _SHOWN else 0
    end = min(start + _SHOWN, len(text))
    lines = _wrapped(visible(text), start, end, _marks(explanation) if in_colour else {}, width)
    reasons = [_sum(explanation)]
    if explanation.matched:
        reasons.append(f"same words: {', '.join(explanation.matched)}")
    if best is not None:
        nearest = beginning(best.text, _SHOWN // 2)
        reasons.append(f"nearest sentence, {best.score:.3f} alone: {nearest}")
    if explanation.seen < len(text.rstrip()):
        reasons.append(f"the encoder read the first {explanation.seen} of {len(text)} characters")
    return lines + [
        line for one in reasons for line in textwrap.wrap(visible(one), width, subsequent_indent="  ")
    ]


def _sum(explanation: "Explanation") -> str:
    named = dict(explanation.strongest_words())
    parts = [f"{word} {share:+.3f}" for word, share in named.items()]
    words = (*explanation.title, *explanation.words)
    if others := [one.share for one in words if one.text.casefold() not in named]:
        parts.append(f"other words {sum(others):+.3f}")
    parts.append(f"rest {explanation.rest:+.3f}")
    if abs(explanation.rounding) >= _ROUNDING:
        parts.append(f"rounding {explanation.rounding:+.3f}")
    about = "" if explanation.exact else " (an approximation)"
    return f"cosine {explanation.score:.3f} = {', '.join(parts)}{about}"


def _marks(explanation: "Explanation") -> dict[int, int]:
    """Return the background colours of the marked characters.

    Every word of a close passage has some share, so colours start at the median.
    """
    shares = [word.share for word in (*explanation.words, *explanation.title)]
    if not shares:
        return {}
    middle, most = median(shares), max(map(abs, shares))
    marks: dict[int, int] = {}
    for word in explanation.words:
        if word.share < 0:
            colour = _AGAINST if -word.share > most * _LEAST else None
        else:
            colour = _background(word.share - middle, most - middle)
        if colour is not None:
            marks |= dict.fromkeys(range(word.start, word.end), colour)
    return marks


def _background(share: float, most: float) -> int | None:
    if share <= most * _LEAST or most <= 0:
        return None
    level = int((share / most - _LEAST) / (1 - _LEAST) * len(_BACKGROUNDS))
    return _BACKGROUNDS[min(level, len(_BACKGROUNDS) - 1)]


def filled(text: str, width: int) -> str:
    """Wrap a text to this many columns."""
    return "\n".join(_wrapped(text, 0, len(text), {}, width))


def _wrapped(text: str, start: int, end: int, marks: dict[int, int], width: int) -> list[str]:
    """Wrap part of a text at white space, or within words that are longer than a line."""
    lines: list[list[tuple[int, int]]] = [[]]
    room = width
    for found in re.finditer(r"\S+", text[start:end]):
        for first, last, columns in _pieces(text, start + found.start(), start + found.end(), width):
            needed = columns + bool(lines[-1])
            if needed > room and lines[-1]:
                lines.append([])
                room, needed = width, columns
            lines[-1].append((first, last))
            room -= needed
    shown = [" ".join(_styled(text, first, last, marks) for first, last in line) for line in lines if line]
    if shown:
        shown[0] = f"… {shown[0]}" if start else shown[0]
        shown[-1] = f"{shown[-1]} …" if end < len(text.rstrip()) else shown[-1]
    return shown


def _pieces(text: str, first: int, end: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Split a word into pieces that fit a line, with their width; a CJK character has two columns."""
    columns = 0
    for at in range(first, end):
        own = 2 if east_asian_width(text[at]) in "WF" else 1
        if columns + own > width and columns:
            yield first, at, columns
            first, columns = at, 0
        columns += own
    yield first, end, columns


def _styled(text: str, first: int, last: int, marks: dict[int, int]) -> str:
    """Return the characters, with one style per run of the same background."""
    runs = (
        ("".join(text[at] for at in run), colour) for colour, run in groupby(range(first, last), marks.get)
    )
    return "".join(run if colour is None else click.style(run, fg=_INK, bg=colour) for run, colour in runs)
