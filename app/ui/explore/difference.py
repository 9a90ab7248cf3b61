"""Two texts side by side, with what only one of them says marked in it."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from nearsay.app.cli.printing import visible
from nearsay.app.ui.escaping import as_html

__all__ = ["Difference", "Part", "difference", "side_html"]

_LONGEST = 6_000  # characters of a text that are compared: the rest is not shown
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text."""

    text: str
    alone: bool  # the other text does not say it here


@dataclass(frozen=True, slots=True)
class Difference:
    """Both texts as pieces that follow each other."""

    first: tuple[Part, ...]
    second: tuple[Part, ...]
    cut: bool  # one of them was too long to be compared as a whole

    @property
    def same(self) -> bool:
        """Whether nothing differs in what was compared."""
        return not any(part.alone for part in (*self.first, *self.second))


def difference(first: str, second: str) -> Difference:
    """Compare two texts word by word, by the longest pieces that they share (Python's difflib).

    Of longer texts the first 6,000 characters are compared; how words are spaced does not matter.
    """
    cut = max(len(first), len(second)) > _LONGEST
    left, right = _WORDS.findall(first[:_LONGEST]), _WORDS.findall(second[:_LONGEST])
    sides: tuple[list[Part], list[Part]] = ([], [])
    words, others = ([word.strip() for word in side] for side in (left, right))
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        alone = kind != "equal"
        for side, some in ((sides[0], left[begin:end]), (sides[1], right[other_begin:other_end])):
            if some:
                side.append(Part("".join(some), alone))
    return Difference(tuple(sides[0]), tuple(sides[1]), cut)


def side_html(parts: tuple[Part, ...], mark: Literal["del", "ins"]) -> str:
    """One of the texts; mark: the element around what only it says."""
    text = "".join(_piece(part, mark) for part in parts)
    return f'<div class="ns-card"><div class="ns-text">{text}</div></div>'


def _piece(part: Part, mark: str) -> str:
    words = part.text.rstrip()
    shown = as_html(visible(words))
    marked = f"<{mark}>{shown}</{mark}>" if part.alone and words else shown
    return marked + as_html(visible(part.text[len(words) :]))
