"""Text of documents on the page: it is shown as it is, and never read as Markdown or HTML.

Markdown of a stranger could load a picture from anywhere and so tell that it was looked at.
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
    """The labels; to those that several options have is added which option it is, or else a number.

    Of options with one label Streamlit gives the last, whichever was chosen.
    """
    count = Counter(labels.values())
    found: dict[_Option, str] = {}
    taken: set[str] = set()
    for option, label in labels.items():
        told = label if count[label] == 1 else f"{label} · {more(option)}"
        free, number = told, 2
        while free in taken:
            free, number = f"{told} · {number}", number + 1
        taken.add(free)
        found[option] = free
    return found


_PUNCTUATION = re.compile(r"""([!-/:-@\[-`{-~])""")  # all of ASCII's may be escaped in CommonMark
_TURNS = re.compile(r"[\u202a-\u202e\u2066-\u2069]")  # what is behind one of these runs another way
_LINE_ENDS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def as_markdown(text: str) -> str:
    """The text on one line, so that none of its characters is read as Markdown.

    What Streamlit makes of plain text stays: an address that is written out is a link to itself, and signs
    such as -> and >= between spaces are drawn as one. What has to be exact belongs into `st.code`.
    """
    return _PUNCTUATION.sub(r"\\\1", _LINE_ENDS.sub(" ", _TURNS.sub("", text)).strip())


def as_html(text: str) -> str:
    """The text for the inside of an element or of an attribute; line ends stay."""
    return html.escape(_TURNS.sub("", text), quote=True)


def json_text(value: object) -> str:
    """A value of metadata: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
