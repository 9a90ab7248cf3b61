"""Escaping: text of documents is shown literally, never interpreted as Markdown or HTML.

Markdown in a document could load a remote image and so reveal that it was viewed.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

_Option = TypeVar("_Option")


def distinct_labels(
    labels: Mapping[_Option, str], more: Callable[[_Option], str] = str
) -> dict[_Option, str]:
    """Make labels unique by adding the option or a number to those that several options share.

    For options with equal labels Streamlit returns the last, whichever was chosen.
    """
    count = Counter(labels.values())
    found: dict[_Option, str] = {}
    taken: set[str] = set()
    for option, label in labels.items():
        unique = label if count[label] == 1 else f"{label} · {more(option)}"
        free, number = unique, 2
        while free in taken:
            free, number = f"{unique} · {number}", number + 1
        taken.add(free)
        found[option] = free
    return found


_PUNCTUATION = re.compile(r"""([!-/:-@\[-`{-~])""")  # CommonMark allows escaping all ASCII punctuation
_TURNS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")  # bidirectional controls, which reverse text
_LINE_ENDS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def as_markdown(text: str) -> str:
    """Escape a text for Markdown, on one line.

    Streamlit still turns a URL into a link, and draws signs such as -> and >= between spaces as one
    character. Use `st.code` for text that must be exact.
    """
    return _PUNCTUATION.sub(r"\\\1", _LINE_ENDS.sub(" ", _TURNS.sub("", text)).strip())


def as_html(text: str) -> str:
    """Escape a text for the inside of an HTML element or attribute; line ends are kept."""
    return html.escape(_TURNS.sub("", text), quote=True)


def json_text(value: object) -> str:
    """Return a metadata value: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
