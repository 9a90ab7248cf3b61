"""Writes docs/api.md, the reference of the Python API, from docstrings, and the table of losses.

python tests/api_reference.py [--check]

With --check nothing is written, and a page that is not what the code says is an error.
"""

import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nearsay.indexer
from nearsay.training.sentence.objectives.table import losses_table

DOCS = Path(__file__).parent.parent / "docs"
LOSSES = re.compile(r"(?<=<!-- losses -->\n).*?(?=<!-- end -->)", re.DOTALL)
_CLASSES = (
    *("Library", "Collection", "AsyncCollection", "Hits", "Hit", "HitScores", "Lineage"),
    *("Browser", "Explorer", "Judgements"),
)
_CODE = re.compile(r"from [\w.]+ import |for .+ in .+:$|await [\w.]+\(|    print|[\w, ]+ = |[\w.]+\(.*\)$")
_FIELD = re.compile(r"^    (\w+): [^#\n]*#\s*(.+)$", re.MULTILINE)
_NAMED = re.compile(r"^(\w+(?:, \w+)*): +(.*)$")


def reference() -> str:
    """The whole page as Markdown."""
    first = [getattr(nearsay.indexer, name) for name in _CLASSES]
    rest = [
        getattr(nearsay.indexer, name)
        for name in nearsay.indexer.__all__
        if name not in (*_CLASSES, "SearchOptions", "Where")
    ]
    errors = [one for one in rest if issubclass(one, Exception)]
    lines = [
        "# The Python API",
        "",
        "Everything below is imported from `nearsay.indexer`. This page is made from the docstrings by",
        "`tests/api_reference.py`. `Where`, a filter, is `str | Mapping[str, object]`.",
        "",
    ]
    for one in first + [one for one in rest if one not in errors]:
        lines += [f"## {one.__name__}", "", *_text(one), *_members(one)]
    lines += ["## Errors", ""]
    lines += [f"- `{one.__name__}`({one.__base__.__name__}): {inspect.getdoc(one)}" for one in errors]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _text(of: object) -> list[str]:
    """A docstring as Markdown: paragraphs, and a list item for each `name: what it is`; code stays code."""
    found: list[str] = []
    for line in (inspect.getdoc(of) or "").splitlines():
        named = _NAMED.match(line)
        if named:
            names = ", ".join(f"`{name}`" for name in named[1].split(", "))
            found.append(f"- {names}: {named[2]}")
        elif found and found[-1].startswith(("- ", "  ")) and line.startswith(" "):
            found.append(f"  {line.strip()}")
        elif _CODE.match(line):
            found.append(f"    {line}")
        else:
            found.append(line)
    return [*found, ""]


def _members(one: type) -> Iterator[str]:
    if issubclass(one, enum.Enum):
        yield from (f"- `{member.value}`" for member in one)
        yield ""
        return
    if "__dataclass_fields__" in vars(one):
        said = dict(_FIELD.findall(inspect.getsource(one)))
        for field in dataclasses.fields(one):
            if field.name.startswith("_"):
                continue
            comment = f": {said[field.name]}" if field.name in said else ""
            yield f"- `{field.name}`, {_short(field.type)}{comment}"
        yield ""
    for name, member in vars(one).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield from (f"### {one.__name__}.{name}", "", *_text(member))
        elif callable(member) or isinstance(member, classmethod | staticmethod):
            function = inspect.unwrap(getattr(one, name))
            await_it = "await " if one is nearsay.indexer.AsyncCollection else ""
            if inspect.isasyncgenfunction(function):
                await_it = "async for … in "
            yield from (
                f"### {one.__name__}.{name}",
                "",
                f"```python\n{await_it}{name}{_signature(function)}\n```",
                "",
            )
            if await_it != "await ":
                yield from _text(function)


def _signature(function: object) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    of_the_object = ("self", "cls", "explored")
    parameters = [
        each.replace(annotation=_short(each.annotation)) if each.annotation is not each.empty else each
        for each in signature.parameters.values()
        if each.name not in of_the_object
    ]
    shown = ["*" if each == "*" else each for each in _each(parameters)]
    result = (
        "" if signature.return_annotation is signature.empty else f" -> {_short(signature.return_annotation)}"
    )
    line = f"({', '.join(shown)}){result}"
    return line if len(line) < 80 else "(\n    " + ",\n    ".join(shown) + f",\n){result}"


def _each(parameters: list[inspect.Parameter]) -> Iterator[str]:
    star = False
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            star = True
        if each.kind is each.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        mark = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        yield f"{mark}{each.name}{kind}{default}"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return repr(value.value)
    if callable(value) or dataclasses.is_dataclass(value):
        return "…"
    return repr(value)


def _short(annotation: object) -> str:
    """A type without the modules that it comes from."""
    said = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    said = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", said).replace("'", "").replace('"', "")
    said = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]", r"NDArray[\1]", said)
    where = "str | Mapping[str, object]"
    return re.sub(r"NDArray\[~?\w+\]", lambda found: found[0].replace("~", ""), said).replace(where, "Where")


if __name__ == "__main__":
    losses = (DOCS / "add-a-loss.md").read_text("utf-8")
    table = LOSSES.sub(lambda _: losses_table() + "\n", losses)
    for place, text in ((DOCS / "api.md", reference()), (DOCS / "add-a-loss.md", table)):
        if "--check" not in sys.argv:
            place.write_text(text, "utf-8")
        elif place.read_text("utf-8") != text:
            sys.exit(f"{place} is not what the code says. Run: python tests/api_reference.py")
