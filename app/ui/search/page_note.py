"""What a search remarks, as a page says it."""

from typing import Final

__all__ = ["page_note"]

_OPTION: Final = ": --mode dense"  # what is typed in a shell


def page_note(note: str) -> str:
    """A note of a search as a sentence, with what is chosen on a page in the place of what is typed."""
    said = note[:1].upper() + note[1:]
    return said.replace(_OPTION, ": choose the mode dense")
