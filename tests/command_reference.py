"""Writes docs/commands.md, the reference of the command line, from the commands' own help.

python tests/command_reference.py [--check]

With --check nothing is written, and a page that is not what the commands say is an error.
"""

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from nearsay.app.cli import main

PLACE = Path(__file__).parent.parent / "docs" / "commands.md"
_HEAD = """# Command reference

Every command with its arguments and options, as `nearsay COMMAND --help` prints them. This page is generated
by `tests/command_reference.py`.

The exit status is 0 when the command did what it was asked to do (a search without hits included), 1 for an
error that the message explains, or without one where nobody reads its output any more (`| head -1`), 2 for a
command line that cannot be understood, and 130 after Ctrl-C. Where the meaning of an option names an
environment variable, the option takes its value from there by default; a
[configuration file](command-line.md#set-defaults-in-a-file) can give any option its default.

## Options of many commands

"""
_MANY = 5  # commands that an option has to have in common to be explained once, at the top


def reference() -> str:
    """The whole page as Markdown."""
    found = list(commands(main, ("nearsay",)))
    counted = Counter(record for path, command in found for record in options(path, command))
    often = [record for record, count in counted.items() if count >= _MANY]
    meanings = Counter(names for names, _ in often)
    shared = {(names, meaning) for names, meaning in often if meanings[names] == 1}
    lines = [_HEAD.rstrip(), "", *option_table(sorted(shared))]
    for path, command in found:
        lines += [f"{'##' if len(path) < 3 else '###'} {' '.join(path)}", ""]
        lines += described(path, command, shared)
    return "\n".join(lines).rstrip() + "\n"


def commands(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it; a group before its commands."""
    yield path, group
    if isinstance(group, click.Group):
        for name in sorted(group.commands):
            yield from commands(group.commands[name], (*path, name))


def options(path: tuple[str, ...], command: click.Command) -> list[tuple[str, str]]:
    """Names and meaning of each option, as the command's help prints them."""
    context = click.Context(command, info_name=" ".join(path))
    shown = (each for each in command.params if isinstance(each, click.Option) and not each.hidden)
    return [record for each in shown if (record := each.get_help_record(context)) is not None]


def described(path: tuple[str, ...], command: click.Command, shared: set[tuple[str, str]]) -> Iterator[str]:
    """The usage, the help and a table of the options of one command."""
    pieces = filter(None, command.collect_usage_pieces(click.Context(command)))
    usage = " ".join((*path, *pieces))
    yield f"```text\n{usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):  # click's mark for lines that stay as they are
            title, _, kept = paragraph.removeprefix("\b\n").partition("\n")
            kept = inspect.cleandoc(kept)
            yield f"{escaped(title)}\n\n```text\n{kept}\n```\n" if kept else f"{escaped(title)}\n"
        else:
            yield escaped(paragraph) + "\n"
    if isinstance(command, click.Group):
        for name, each in sorted(command.commands.items()):
            called = " ".join((*path, name))
            yield f"- [`{called}`](#{called.replace(' ', '-')}): {escaped(each.get_short_help_str(300))}"
        yield ""
    found = options(path, command)
    yield from option_table([record for record in found if record not in shared])
    also = [names for names, meaning in found if (names, meaning) in shared]
    if also:
        told = ", ".join(f"`{re.split(r'[ ,]', names)[0]}`" for names in also)
        yield f"Also [options of many commands](#options-of-many-commands): {told}.\n"


def option_table(records: list[tuple[str, str]]) -> Iterator[str]:
    """A row an option; nothing where there is none."""
    if records:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{cell(names)}` | {cell(escaped(meaning))} |" for names, meaning in records)
        yield ""


def escaped(text: str) -> str:
    """Text in which Markdown's signs mean nothing, except what stands in backquotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts)


def cell(text: str) -> str:
    """Text for a cell of a table: on one line, its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PLACE.write_text(reference(), "utf-8")
    elif PLACE.read_text("utf-8") != reference():
        sys.exit(f"{PLACE} is not what the commands say. Run: python tests/command_reference.py")
