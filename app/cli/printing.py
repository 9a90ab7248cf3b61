"""What the commands print: for people, or as JSON lines."""

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

from nearsay.app.cli.progress import note_hearer
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

ROWS_FORMAT: Final = "nearsay.rows_format"  # in the context of a command: table, csv, jsonl or json
LIBRARY_GIVEN: Final = "nearsay.library.given"  # in the context: the library that the command line names
_CSV_COLUMNS: Final = "nearsay.csv_columns"
_CONTROLS = re.compile("[\x7f-\x9f]")
_CONTROLS_IN_CSV = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but the tab and the newline
_ENDLESS = 1_000_000  # columns: no row is wrapped
_LEAST_WIDTH = 8  # characters of a longer word that a cell has to have room for beside each other
_REMEDY = re.compile(r": nearsay ((?:(?!\. |: )[^;,])+)$")
_NUMBER = re.compile(r"-?[\d,.]+")
_LONGEST = 60  # characters of a value of JSON without a kind
_PREVIEW = 400  # characters of a passage shown to a person
_LEAST_SHARE = 0.0005  # of the words in a score, to be seen in its three digits
_Kind = TypeVar("_Kind")


def rows_alone() -> bool:
    """Whether `--format` asks for rows and nothing beside them: csv or jsonl."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(ROWS_FORMAT) in ("csv", "jsonl")


def print_json(row: object) -> None:
    """One object as one line of JSON on standard output, or of CSV where `--format` asks for that."""
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
    # JSON lets DEL and the C1 controls stand as they are; a terminal obeys them.
    click.echo(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", line))


def _print_csv(row: Mapping[str, Any], context: click.Context) -> None:
    """A row under the columns of the first one, which it is printed below; what is nested stays JSON."""
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
    """Plain sentences on standard error, beside the results; a job keeps them for the page, too."""
    keep = note_hearer()
    for note in notes:
        if keep is not None:
            keep(note)
        click.echo(visible(in_the_library(note)), err=True)


def in_the_library(said: str, context: click.Context | None = None) -> str:
    """A sentence whose remedy, the command at its end, works in the library that the command line named."""
    context = context or click.get_current_context(silent=True)
    remedy = _REMEDY.search(said)
    library = None if context is None else context.meta.get(LIBRARY_GIVEN)
    if context is None or remedy is None or library is None or "--library" in remedy[0]:
        return said
    command: click.Command | None = context.find_root().command
    for name in remedy[1].split():
        command = command.commands.get(name) if isinstance(command, click.Group) else command
    if command is None or not any("--library" in option.opts for option in command.params):
        return said
    return f"{said} --library {shlex.quote(library)}"


def print_done(result: object, said: str, *, as_json: bool) -> None:
    """What was done: as JSON, or as a sentence on standard error."""
    if as_json:
        print_json(result)
    else:
        print_notes([said])


def print_hits(hits: "Hits", *, as_json: bool, by_ranks: bool = False) -> None:
    """The hits of a search, best first.

    by_ranks: hybrid put them in order by their ranks, so that scores are no sum of a cosine and words
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
    """The fields of a document with their values as they stand in a filter: 20190308, author.name=Ada."""
    from nearsay.indexer.filters.fields import named_values

    plain = (
        (name, value if isinstance(value, str) else _json(value)) for name, value in named_values(metadata)
    )
    return "  ".join(f"{name}={value}" for name, value in plain)


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
    return said


def _print_passage(
    found: "Hit | ShownPassage", said: str, below: str = "", why: "Explanation | None" = None
) -> None:
    """A block of lines: rank, score and title, the text or why it matched, and what it comes from.

    said:  behind the title; below: a line of its own under the text
    """
    from nearsay.indexer.catalogue.passages import headline

    called = headline(found.title, found.id, found.text)
    behind = click.style(f"  ({said})", dim=True) if said else ""
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
    """Print a table of left-aligned words and right-aligned numbers.

    A terminal's width is kept by wrapping the cells, or, where that would leave too little of each, by a
    line for each cell, as psql does; elsewhere each row is one line. Wide characters (CJK) count as two
    columns.
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

    columns: the titles of the table, each with the name of a row's field, or what gives its cell
    to_json: what is printed of a row as JSON
    whole:   the one object that --json prints instead of the rows
    """
    if as_json:
        for one in [whole] if whole is not None and not rows_alone() else map(to_json, rows):
            print_json(one)
        return
    cells = [[of(row) if callable(of) else getattr(row, of) for of in columns.values()] for row in rows]
    print_table([*columns], [["" if cell is None else cell for cell in row] for row in cells])


def print_reports(found: Sequence[Report], *, as_json: bool) -> None:
    """Reports as lines of JSON, or as the tables that a job of the same command shows."""
    from nearsay.app.jobs.results import results_of

    if as_json:
        for report in found:
            print_json(report)
    else:
        results = results_of(found)
        print_results(results)
        print_notes(results.lines)


def print_results(found: "JobResults", *, whole: bool = False) -> None:
    """The tables of what was reported; whole: also long values of what is of no known kind."""
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
    """A value of JSON without a kind, cut where it is longer."""
    if not isinstance(value, str):  # a whole number may name something: no separators
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
    """How many columns there are to write in: at most 110, and 100 where it is not known."""
    return min(110, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100


_NEAR_PREVIEW = 80

_Passage = TypeVar("_Passage", bound="ShownPassage")


def print_passages(
    found: Iterable[_Passage], said: Callable[[_Passage], tuple[str, str]], *, as_json: bool
) -> None:
    """The passages in order, each as a block of lines, or as JSON.

    said: what is told of a passage: behind its title, and in a line of its own
    """
    for each in found:
        if as_json:
            print_json(each)
        else:
            _print_passage(each, *said(each))


def near_line(near: "Near | None", what: str) -> str:
    """Which passage is nearest, in a line."""
    if near is None:
        return ""
    title = beginning(near.title or near.text, _NEAR_PREVIEW)
    return f"{what}: {near.cosine:.3f}  {title}" + (f"  ({near.id})" if near.title else "")


_SHOWN = 400  # characters of a passage
_BACKGROUNDS = (230, 229, 228, 227, 226)  # of xterm's 256 colours: pale to strong yellow
_AGAINST = 224  # pale red: the word pulls the passage away from the query
_INK = 16  # black, on all of these
_LEAST = 0.2  # of the largest share: what has less stays unmarked
_ROUNDING = 0.0005  # what shows in three decimals


def indexed_words(found: "CollectionOverview") -> str:
    """How many passages of the live generation are in how many indexes, and what becomes of the others."""
    from nearsay.indexer.plans.plan import EXACT_UP_TO

    others, indexes = counted(found.unindexed, "passage"), found.indexes
    are = "is" if found.unindexed == 1 else "are"
    if not indexes:
        return f"{others} {are} compared one by one: up to {EXACT_UP_TO:,} need no index"
    covered = counted(sum(row.count for row in indexes), "passage")
    said = f"{covered} in {counted(len(indexes), 'index', 'indexes')}"
    return f"{said}; {others} that came since {are} compared one by one" if found.unindexed else said


def takes_colour() -> bool:
    """Whether standard output is a terminal that wants colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def explanation_lines(
    text: str, explanation: "Explanation", *, width: int = 95, in_colour: bool = False
) -> list[str]:
    """The passage's text with its words marked by their shares, and below it why it matched.

    width:     characters of a line
    in_colour: mark words by background colour; without it the shares are told in words alone
    Control characters of the text are shown as spaces. A long passage is shown from its best sentence on.
    """
    best = explanation.sentence
    start = best.start if best is not None and best.end > _SHOWN else 0
    end = min(start + _SHOWN, len(text))
    lines = _wrapped(visible(text), start, end, _marks(explanation) if in_colour else {}, width)
    said = [_sum(explanation)]
    if explanation.matched:
        said.append(f"same words: {', '.join(explanation.matched)}")
    if best is not None:
        nearest = beginning(best.text, _SHOWN // 2)
        said.append(f"nearest sentence, {best.score:.3f} alone: {nearest}")
    if explanation.seen < len(text.rstrip()):
        said.append(f"the encoder takes the first {explanation.seen} of the {len(text)} characters")
    return lines + [
        line for one in said for line in textwrap.wrap(visible(one), width, subsequent_indent="  ")
    ]


def _sum(explanation: "Explanation") -> str:
    """The score as a sum, largest words first."""
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
    """The background of each marked character of the text.

    Every word of a passage that is near has some share, so the colours begin at the middle one.
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
    """The text in lines of so many columns, broken at white space."""
    return "\n".join(_wrapped(text, 0, len(text), {}, width))


def _wrapped(text: str, start: int, end: int, marks: dict[int, int], width: int) -> list[str]:
    """Lines of the stretch, broken at white space, or within a word that is longer than a line."""
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
    """Where a word is cut so that each piece fits a line, and its columns: two for a character of CJK."""
    columns = 0
    for at in range(first, end):
        own = 2 if east_asian_width(text[at]) in "WF" else 1
        if columns + own > width and columns:
            yield first, at, columns
            first, columns = at, 0
        columns += own
    yield first, end, columns


def _styled(text: str, first: int, last: int, marks: dict[int, int]) -> str:
    """The characters, those of one background in one run."""
    runs = (
        ("".join(text[at] for at in run), colour) for colour, run in groupby(range(first, last), marks.get)
    )
    return "".join(run if colour is None else click.style(run, fg=_INK, bg=colour) for run, colour in runs)
