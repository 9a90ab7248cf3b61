"""Text of documents on the page: it is shown as it is, and never read as Markdown or HTML.

Markdown of a stranger could load a picture from anywhere and so tell that it was looked at.
"""

import html
import re

__all__ = ["as_html", "as_markdown"]

_PUNCTUATION = re.compile(r"""([!-/:-@\[-`{-~])""")  # all of ASCII's may be escaped in CommonMark
_LINE_ENDS = re.compile(r"\s*[\r\n\u2028\u2029]+\s*")


def as_markdown(text: str) -> str:
    """The text on one line, so that none of its characters is read as Markdown.

    What Streamlit makes of plain text stays: an address that is written out is a link to itself, and signs
    such as -> and >= between spaces are drawn as one. What has to be exact belongs into `st.code`.
    """
    return _PUNCTUATION.sub(r"\\\1", _LINE_ENDS.sub(" ", text).strip())


def as_html(text: str) -> str:
    """The text for the inside of an element or of an attribute; line ends stay."""
    return html.escape(text, quote=True)
