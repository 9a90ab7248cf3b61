"""How a terminal, or a file, is told why a passage matched."""

import os
import re
import sys
import textwrap
from statistics import median
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.printing import visible
from nearsay.data.document import beginning

if TYPE_CHECKING:
    from nearsay.indexer.query.explanation import Explanation

__all__ = ["explanation_lines", "takes_colour"]

_SHOWN = 400  # characters of a passage
_NAMED = 8  # words whose shares are written out
_BACKGROUNDS = (230, 229, 228, 227, 226)  # of xterm's 256 colours: pale to strong yellow
_AGAINST = 224  # pale red: the word pulls the passage away from the query
_INK = 16  # black, on all of these
_LEAST = 0.2  # of the largest share: what has less stays unmarked
_ROUNDING = 0.0005  # what shows in three decimals


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
    start, end = _shown(text, explanation)
    lines = _wrapped(visible(text), start, end, _marks(explanation) if in_colour else {}, width)
    said = [_sum(explanation)]
    if explanation.matched:
        said.append(f"same words: {', '.join(explanation.matched)}")
    best = explanation.sentence
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
    shares = (*explanation.title, *explanation.words)
    words = sorted((one for one in shares if any(map(str.isalnum, one.text))), key=lambda one: -one.share)
    named = words[:_NAMED]
    parts = [f"{one.text} {one.share:+.3f}" for one in named]
    if len(shares) > len(named):
        others = sum(one.share for one in shares) - sum(one.share for one in named)
        parts.append(f"other words {others:+.3f}")
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


def _shown(text: str, explanation: "Explanation") -> tuple[int, int]:
    """The stretch of a long text that is shown; it begins with the best sentence if that comes late."""
    best = explanation.sentence
    start = best.start if best is not None and best.end > _SHOWN else 0
    return start, min(start + _SHOWN, len(text))


def _wrapped(text: str, start: int, end: int, marks: dict[int, int], width: int) -> list[str]:
    """Lines of the stretch, broken at white space, or within a word that is longer than a line."""
    lines: list[list[tuple[int, int]]] = [[]]
    room = width
    for found in re.finditer(r"\S+", text[start:end]):
        for first in range(start + found.start(), start + found.end(), width):
            last = min(first + width, start + found.end())
            needed = last - first + bool(lines[-1])
            if needed > room and lines[-1]:
                lines.append([])
                room, needed = width, last - first
            lines[-1].append((first, last))
            room -= needed
    shown = [" ".join(_styled(text, first, last, marks) for first, last in line) for line in lines if line]
    if shown:
        shown[0] = f"… {shown[0]}" if start else shown[0]
        shown[-1] = f"{shown[-1]} …" if end < len(text.rstrip()) else shown[-1]
    return shown


def _styled(text: str, first: int, last: int, marks: dict[int, int]) -> str:
    """The characters, those of one background in one run."""
    runs: list[tuple[str, int | None]] = []
    for at in range(first, last):
        colour = marks.get(at)
        if runs and runs[-1][1] == colour:
            runs[-1] = (runs[-1][0] + text[at], colour)
        else:
            runs.append((text[at], colour))
    return "".join(run if colour is None else click.style(run, fg=_INK, bg=colour) for run, colour in runs)
