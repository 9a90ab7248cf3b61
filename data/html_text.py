"""Text extraction from HTML."""

import codecs
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from nearsay.data.document import FileText, JsonValue
from nearsay.data.errors import MissingExtraError
from nearsay.data.json_values import UnusableRowError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_UNSEEN: Final = frozenset(
    {"head", "script", "style", "noscript", "template", "iframe", "object", "canvas", "datalist", "-comment"}
    | {"rt", "rp"}  # how the characters before are read, written above them
    | {"audio", "video", "noframes", "noembed"}  # what stands in them is for browsers that cannot show more
    | {"title", "desc"}  # what a drawing is called
    | {"annotation", "annotation-xml"}  # a formula again, as it was written
)
_BLOCKS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "dialog"}
    | {"dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4"}
    | {"h5", "h6", "header", "hgroup", "hr", "legend", "li", "main", "menu", "nav", "ol", "option"}
    | {"p", "pre", "search", "section", "select", "summary", "table", "tbody", "textarea", "tfoot", "thead"}
    | {"tr", "ul"}
)
_CELLS: Final = frozenset({"td", "th"})
_TAG: Final = re.compile(r"</?([a-zA-Z][^\s/>]*)[^>]*")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
# The parser compares each attribute of an element with those before it, and looks through all open elements
# for each new one. Browsers stop at 512 inside one another; generated pages have some hundred attributes.
_ATTRIBUTES: Final = 10_000
_DEPTH: Final = 20_000
_NESTING: Final = frozenset(  # elements that end by their own end tag alone
    {"a", "article", "b", "blockquote", "center", "code", "div", "em", "fieldset", "font", "form", "g", "i"}
    | {"main", "nav", "ol", "section", "small", "span", "strong", "svg", "table", "u", "ul"}
)
_ROLES_AROUND: Final = frozenset(
    {"navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog", "menu"}
)
_BANNER: Final = re.compile(
    r"(cookie|consent|gdpr)s?[-_]?(banner|bar|box|dialog|law|message|modal|notice|overlay|popup|prompt|wall)"
    r"|onetrust|cookiebot|\bcky-",
    re.IGNORECASE,
)
_NOT_SHOWN: Final = re.compile(r"(?:^|;)\s*display\s*:\s*none\s*(?:[;!]|$)", re.IGNORECASE)
_LITTLE: Final = 500  # characters around a short main element that do not make it unclear
_SPACE: Final = re.compile(r"[ \t\n\r\f]+")
_META_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE
)
_XML_ENCODING: Final = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9_:.-]{1,40})""")
_AUTHOR: Final = frozenset({"author", "dc.creator", "dcterms.creator"})  # names of <meta>
_DATE: Final = frozenset({"date", "dc.date", "dcterms.date", "dcterms.created", "article:published_time"})
# What browsers take these names for: https://encoding.spec.whatwg.org/#names-and-labels
_WIDER: Final = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


def html_encoding(data: bytes) -> str | None:
    """The encoding declared by a `<meta>` or `<?xml` in the first 1,024 bytes; None if it is unknown."""
    found = _META_CHARSET.search(data[:1024]) or _XML_ENCODING.match(data[:1024])
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


def html_text(markup: str, *, main_content: bool = False) -> FileText:
    """Extract the title and the visible text of a page, a line per block.

    Scripts, styles, templates, elements that are `hidden` or `display: none`, and ruby annotations are left
    out; white space is collapsed as in a browser. The metadata are the author and the date of `<meta>`
    elements.

    main_content: if the page has one clear main element, read only that, without its menus, asides, forms,
                  dialogs and cookie banners; otherwise read the whole page

    Raises UnusableRowError for too many attributes of an element, or too deeply nested elements, for which
    the parser takes quadratic time. Raises MissingExtraError without selectolax.
    """
    _check_markup(markup)
    try:
        from selectolax.lexbor import LexborHTMLParser, SelectolaxError
    except ImportError:
        raise MissingExtraError("Reading HTML files", "documents") from None
    try:
        parser = LexborHTMLParser(markup)
    except SelectolaxError as error:  # any text is HTML: it can only be that there is no memory left
        raise MemoryError("the page's elements") from error
    title = parser.css_first("head > title")
    root = parser.root
    said = "" if title is None else _SPACE.sub(" ", title.text()).strip()
    metadata: dict[str, JsonValue] = {}
    for meta in parser.css("head > meta[content]"):
        name = (meta.attributes.get("name") or meta.attributes.get("property") or "").strip().lower()
        field = "author" if name in _AUTHOR else "date" if name in _DATE else None
        if field and (value := _SPACE.sub(" ", meta.attributes["content"] or "").strip()):
            metadata.setdefault(field, value)
    whole = "" if root is None else _visible_text(root)
    main = _main_text(root) if main_content and root is not None else None
    return FileText(said, whole if main is None else main, metadata, main is not None and main != whole)


def _check_markup(markup: str) -> None:
    depth = 0
    for tag in _TAG.finditer(markup):
        piece = tag[0]
        if len(piece) > _ATTRIBUTES and len(_QUOTED.sub("", piece).split()) > _ATTRIBUTES:
            raise UnusableRowError(
                f"an element <{tag[1]}> has more than {_ATTRIBUTES:,} attributes, as no usual page: "
                "save its text as .txt"
            )
        if tag[1].lower() in _NESTING:
            depth = max(0, depth + (-1 if piece[1] == "/" else 1))
            if depth > _DEPTH:
                raise UnusableRowError(
                    f"more than {_DEPTH:,} elements stand inside one another; it is no page that a browser "
                    "shows: save its text as .txt"
                )


def _main_text(root: "LexborNode") -> str | None:
    """The text of the only main element or article; None if it is unclear which part is the main content.

    Several articles are a list, and a main element beside twice as much other text is not the main content.
    """
    for selector in ("main, [role=main]", "article"):
        found = [node for node in root.css(selector) if not _is_hidden(node)]
        places = {node.mem_id for node in found}
        outermost = [node for node in found if not _is_within(node, places)]
        if len(outermost) == 1:
            break
        if outermost:
            return None
    else:
        return None
    main = outermost[0]
    text = _visible_text(main, _is_around)
    rest = _visible_text(
        root, lambda node: node.mem_id == main.mem_id or node.tag == "header" or _is_around(node)
    )
    return text if text and len(rest) <= max(_LITTLE, 2 * len(text)) else None


def _is_within(node: "LexborNode", places: set[int]) -> bool:
    above = node.parent
    while above is not None:
        if above.mem_id in places:
            return True
        above = above.parent
    return False


def _is_around(node: "LexborNode") -> bool:
    """Whether an element is for navigation, consent or input, and not to be read."""
    if not node.is_element_node:
        return False
    if node.tag in {"nav", "aside", "footer", "dialog"}:
        return True
    if node.tag == "form":  # some systems put a whole page into one
        return node.css_first("h1, h2, h3, article") is None
    attributes = node.attributes
    if (attributes.get("role") or "").lower() in _ROLES_AROUND:
        return True
    return any(_BANNER.search(attributes.get(name) or "") is not None for name in ("id", "class"))


class _Writer:
    """Joins text nodes to lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.run: list[str] = []
        self._keeps_space = False  # the run holds text of <pre>, whose indentation counts

    def text(self, text: str, *, as_written: bool) -> None:
        if not as_written:
            self.run.append(_SPACE.sub(" ", text.replace("\xad", "")))  # a soft hyphen is seen at line ends
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


def _visible_text(root: "LexborNode", without: "Callable[[LexborNode], bool] | None" = None) -> str:
    """Traverse the tree without recursion, because pages nest deeper than Python's stack."""
    writer = _Writer()
    written = 0  # how many <pre> and <textarea> we are in
    node: LexborNode | None = root
    while node is not None:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            writer.text(node.text_content or "", as_written=written > 0)
        elif tag not in _UNSEEN and not _is_hidden(node) and not (without is not None and without(node)):
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
    if not node.is_element_node:
        return False
    attributes = node.attributes
    if "hidden" in attributes:
        return True
    # A script shows a body that is not displayed at first.
    return node.tag != "body" and _NOT_SHOWN.search(attributes.get("style") or "") is not None
