"""The readable text of HTML."""

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nearsay.data.errors import MissingExtraError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["HtmlText", "html_encoding", "html_text"]

_UNSEEN: Final = frozenset(
    {"head", "script", "style", "noscript", "template", "iframe", "object", "canvas", "datalist", "-comment"}
)
_BLOCKS: Final = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
    }
    | {"div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5"}
    | {"h6", "header", "hgroup", "hr", "legend", "li", "main", "menu", "nav", "ol", "option", "p", "pre"}
    | {"search", "section", "select", "summary", "table", "tbody", "textarea", "tfoot", "thead", "tr", "ul"}
)
_CELLS: Final = frozenset({"td", "th"})
_SPACE: Final = re.compile(r"[ \t\n\r\f]+")
_META_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE
)
# What browsers take these names for: https://encoding.spec.whatwg.org/#names-and-labels
_WIDER: Final = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}


@dataclass(frozen=True, slots=True)
class HtmlText:
    """What a reader of the page sees: its title, and its text with a line for each block."""

    title: str
    text: str


def html_encoding(data: bytes) -> str | None:
    """Name the encoding that a page's `<meta>` declares in its first 1,024 bytes; None: none known."""
    found = _META_CHARSET.search(data[:1024])
    if found is None:
        return None
    try:
        name = codecs.lookup(found[1].decode("ascii")).name
        "".encode(name)
    except LookupError:
        return None
    if name.startswith("utf-16"):
        return (
            "utf-8"  # it was read as ASCII: https://html.spec.whatwg.org/#determining-the-character-encoding
        )
    return _WIDER.get(name, name)


def html_text(markup: str) -> HtmlText:
    """Read a page: no scripts, styles, templates or `hidden` parts; white space as a browser collapses it.

    MissingExtraError without selectolax.
    """
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise MissingExtraError("Reading HTML files", "documents") from None
    parser = LexborHTMLParser(markup)
    title = parser.css_first("head > title")
    root = parser.root
    return HtmlText(
        title="" if title is None else _SPACE.sub(" ", title.text()).strip(),
        text="" if root is None else _visible_text(root),
    )


class _Writer:
    """Collects text runs into lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.run: list[str] = []
        self._keeps_space = False  # the run holds text of <pre>, whose indentation counts

    def text(self, text: str, *, as_written: bool) -> None:
        if not as_written:
            self.run.append(_SPACE.sub(" ", text))
            return
        for index, line in enumerate(text.split("\n")):
            if index:
                self.end_line(even_empty=True)
            self.run.append(line)
            self._keeps_space = True

    def end_line(self, *, even_empty: bool = False) -> None:
        line = "".join(self.run)
        line = line.rstrip() if self._keeps_space else re.sub(" {2,}", " ", line).strip()
        if line or even_empty:
            self.lines.append(line)
        self.run.clear()
        self._keeps_space = False


def _visible_text(root: "LexborNode") -> str:
    """Walk the tree without recursion: pages nest deeper than Python's stack."""
    writer = _Writer()
    written = 0  # how many <pre> and <textarea> we are in
    node: LexborNode | None = root
    while node is not None:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            writer.text(node.text_content or "", as_written=written > 0)
        elif tag not in _UNSEEN and not _is_hidden(node):
            if tag in _BLOCKS or tag == "br":
                writer.end_line(even_empty=tag == "br" and written > 0)
            elif tag in _CELLS:
                writer.run.append(" ")
            written += tag in {"pre", "textarea"}
            child = node.child
            if child is None:
                written = _leave(tag, writer, written)
        if child is not None:
            node = child
            continue
        while node is not None and node.next is None:
            node = node.parent
            if node is None or node.mem_id == root.mem_id:
                node = None
                break
            written = _leave(node.tag or "", writer, written)
        node = None if node is None else node.next
    writer.end_line()
    return re.sub("\n{3,}", "\n\n", "\n".join(writer.lines)).strip()


def _leave(tag: str, writer: _Writer, written: int) -> int:
    if tag in _BLOCKS:
        writer.end_line()
    elif tag in _CELLS:
        writer.run.append(" ")
    return written - (tag in {"pre", "textarea"})


def _is_hidden(node: "LexborNode") -> bool:
    return node.is_element_node and "hidden" in node.attributes
