"""Options of commands that read nothing but texts."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from nearsay.data.read_options import ReadOptions

__all__ = ["TextFields", "read_options", "text_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_FORMATS = ["txt", "csv", "tsv", "jsonl", "parquet", "markdown", "html", "pdf", "docx"]


class TextFields(TypedDict):
    """What `text_options` gives to a command."""

    text: str | None
    format_: str | None
    whole_file: bool
    encoding: str | None
    max_text_bytes: int


def text_options(command: Command) -> Command:
    """`--text`, `--format`, `--whole-file`, `--encoding` and `--max-text-bytes`."""
    for option in (
        click.option(
            "--max-text-bytes",
            type=int,
            default=16 * 2**20,
            show_default=True,
            help="Longer rows are skipped.",
        ),
        click.option("--encoding", metavar="NAME", help="UTF-8 if left out."),
        click.option("--whole-file", is_flag=True, help="A txt file is one text instead of a text a line."),
        click.option(
            "--format", "format_", type=click.Choice(_FORMATS), help="By the file's name if left out."
        ),
        click.option(
            "--text", metavar="FIELD", help="The field with the text; guessed and reported if left out."
        ),
    ):
        command = option(command)
    return command


def read_options(fields: TextFields) -> "ReadOptions":
    """How the reader reads what the options say."""
    from nearsay.data.formats import Format
    from nearsay.data.read_options import ReadOptions, Split

    return ReadOptions(
        text=fields["text"],
        metadata=(),
        format=None if fields["format_"] is None else Format(fields["format_"]),
        split=Split.FILE if fields["whole_file"] else Split.LINES,
        encoding=fields["encoding"],
        max_text_bytes=fields["max_text_bytes"],
    )
