"""Text extraction from Markdown."""

import re
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nearsay.data.document import FileText, JsonValue
from nearsay.data.errors import MissingExtraError
from nearsay.data.html_text import html_text
from nearsay.data.json_values import MAX_VALUES, UnusableRowError, json_value

if TYPE_CHECKING:
    from markdown_it.token import Token

_FRONT_MATTER: Final = 2**17  # characters, .7 seconds of parsing; notes have some hundred
_TOML: Final = re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_WIKI_LINK: Final = re.compile(  # x[[1]] is code, and behind a picture's name stands its width
    r"!\[\[([^][|\n]+)(?:\|[^][\n]*)?\]\]|(?<!\w)\[\[(?:[^][|\n]+\|)?([^][|\n]+)\]\]"
)
# What is a number or a truth value, as in tables, and as YAML 1.2 has it. To YAML 1.1, and so to PyYAML, NO
# is false, 12:30 is 750 and the postcode 01067 is 567. https://yaml.org/spec/1.2.2/#1032-tag-resolution
_SCALARS: Final = (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
    ("float", r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
)


def markdown_text(source: str) -> FileText:
    """Read CommonMark with tables, strikethrough and front matter.

    Front matter is YAML between lines of ---, or TOML between lines of +++, as in Hugo. The title is its
    title, else the first heading; the rest of it is metadata. Blocks, including headings, are separated by
    blank lines. Code is kept as text; of links, wiki links ([[page|text]]) and images the text is kept, of
    HTML blocks the visible text. Raises UnusableRowError for invalid front matter; MissingExtraError without
    the `documents` packages.
    """
    try:
        from markdown_it import MarkdownIt
        from mdit_py_plugins.front_matter import front_matter_plugin
    except ImportError:
        raise MissingExtraError("Reading Markdown files", "documents") from None
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    metadata: dict[str, JsonValue] = {}
    if toml := _TOML.match(source):
        metadata, source = _toml(toml[1]), source[toml.end() :]
    else:
        parser.use(front_matter_plugin)
    tokens = parser.parse(source)
    if tokens and tokens[0].type == "front_matter":
        found = _front_matter(tokens[0].content)
        if found is None:  # two rules with text between them
            parser.disable("front_matter")
            tokens = parser.parse(source)
        else:
            metadata = found
    title = metadata.pop("title", None)
    return FileText(
        title=_first_heading(tokens) if title is None else str(title).strip(),
        text=_text(tokens),
        metadata=metadata,
    )


def _toml(content: str) -> dict[str, JsonValue]:
    _check_length(content)
    try:
        found = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnusableRowError(f"the front matter is not TOML: {error}") from error
    value = json_value(found, "the front matter", nan_is_none=True)
    return value if isinstance(value, dict) else {}


def _check_length(content: str) -> None:
    if len(content) > _FRONT_MATTER:
        raise UnusableRowError(
            f"the front matter is longer than {_FRONT_MATTER:,} characters; move what is text below it"
        )


def _front_matter(content: str) -> dict[str, JsonValue] | None:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("Reading Markdown files", "documents") from None
    _check_length(content)

    class Loader(yaml.SafeLoader):
        """Refuses what grows when it is merged: `<<: [*a, *a]`, and the same of that."""

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            super().flatten_mapping(node)
            if len(node.value) > MAX_VALUES:
                raise yaml.YAMLError(f"merge keys (<<) make more than {MAX_VALUES:,} values")

    replaced = {f"tag:yaml.org,2002:{kind}" for kind, _, _ in _SCALARS}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in replaced]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for kind, pattern, firsts in _SCALARS:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), list(firsts))
    try:
        found = yaml.load(content, Loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date such as 2024-13-45
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UnusableRowError(f"the front matter is not YAML: {problem}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        return None
    value = json_value(found, "the front matter", nan_is_none=True)
    return value if isinstance(value, dict) else None


def _first_heading(tokens: Sequence["Token"]) -> str:
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            return " ".join(_inline(inline).split())
    return ""


def _text(tokens: Sequence["Token"]) -> str:
    parts: list[str] = []
    in_lines = False  # within a table or a tight list, whose parts stand on lines of their own

    def add(text: str, *, line: bool) -> None:
        nonlocal in_lines
        if text.strip():
            parts.append(("\n" if line and in_lines else "\n\n") + text)
            in_lines = line

    cells: list[str] | None = None
    tight = False
    for token in tokens:
        match token.type:
            case "table_open" | "bullet_list_open" | "ordered_list_open":
                in_lines = in_lines and token.level > 0
            case "paragraph_open" | "heading_open":
                tight = token.hidden
            case "tr_open":
                cells = []
            case "tr_close":
                add(" | ".join(cells or ()), line=True)
                cells = None
            case "inline" if cells is not None:
                cells.append(_inline(token))
            case "inline":
                add(_inline(token), line=tight)
            case "fence" | "code_block":
                add(token.content.rstrip(), line=False)
            case "html_block":
                add(html_text(token.content).text, line=False)
    return "".join(parts).strip()


def _inline(token: "Token") -> str:
    parts: list[str] = []
    for child in token.children or ():
        if child.type == "text":
            parts.append(_WIKI_LINK.sub(r"\1\2", child.content))
        elif child.type in {"code_inline", "text_special"}:
            parts.append(child.content)
        elif child.type == "image":
            parts.append(_inline(child))
        elif child.type == "softbreak" or (
            child.type == "html_inline" and child.content[:3].lower() == "<br"
        ):
            parts.append(" ")
        elif child.type == "hardbreak":
            parts.append("\n")
    return "".join(parts).strip()
