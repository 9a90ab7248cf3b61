"""Passages that an exploration shows, for people."""

import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from nearsay.app.cli.printing import metadata_line, print_json, terminal_width, visible
from nearsay.data.document import beginning

if TYPE_CHECKING:
    from nearsay.indexer.neighbours.shown import Near, ShownPassage

__all__ = ["near_line", "print_passages"]

_PREVIEW = 400  # characters of a passage shown to a person
_NEAR_PREVIEW = 80

_Passage = TypeVar("_Passage", bound="ShownPassage")


def print_passages(
    found: Iterable[_Passage], said: Callable[[_Passage], tuple[str, str]], *, as_json: bool
) -> None:
    """The passages in order, each as a block of lines, or as JSON.

    said: what is told of a passage: behind its title, and in a line of its own
    """
    from nearsay.indexer.catalogue.passage import headline

    for each in found:
        if as_json:
            print_json(each)
            continue
        behind, below = said(each)
        facts = metadata_line(each.metadata)
        called = headline(each.title, each.id, each.text)
        head = click.style(visible(called), bold=True)
        click.echo(f"{each.rank:3}. {each.score:.3f}  {head}{click.style(f'  ({behind})', dim=True)}")
        text = beginning(visible(each.text), _PREVIEW)
        click.echo(textwrap.indent(textwrap.fill(text, terminal_width() - 5), "     "))
        place = facts if called == each.id else f"{each.id}  {facts}".strip()
        for line in (below, place):
            if line:
                click.echo(click.style(f"     {visible(line)}", dim=True))


def near_line(near: "Near | None", what: str) -> str:
    """Which passage is nearest, in a line."""
    if near is None:
        return ""
    title = beginning(near.title or near.text, _NEAR_PREVIEW)
    return f"{what}: {near.cosine:.3f}  {title}" + (f"  ({near.id})" if near.title else "")
