"""How text for pretraining is read, as options."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nearsay.data.pretraining.prepare_options import PrepareOptions

__all__ = ["BREAKS", "prepare_options"]

BREAKS = click.option(
    "--breaks",
    type=click.Choice(["blank-lines", "files", "headings"]),
    default="blank-lines",
    show_default=True,
    help="Where a document ends in plain text: at blank lines, with its file, or at WikiText's headings.",
)


def prepare_options(
    text: str | None, breaks: str, *, one_sentence_a_line: bool, strict: bool = False
) -> "PrepareOptions":
    """How the text is cut; `text` is the field of a row that holds it."""
    from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions
    from nearsay.data.read_options import ReadOptions, Split

    return PrepareOptions(
        breaks=Breaks(breaks),
        one_sentence_a_line=one_sentence_a_line,
        strict=strict,
        reading=ReadOptions(text=text, metadata=(), split=Split.LINES, max_text_bytes=64 * 2**20),
    )
