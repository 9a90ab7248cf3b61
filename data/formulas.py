"""Text of strangers in tables that spreadsheets open."""

from typing import TypeVar

__all__ = ["defused"]

Cell = TypeVar("Cell")

# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def defused(cell: Cell) -> Cell | str:
    """The cell; a text that a spreadsheet would compute gets an apostrophe before it. Numbers stay."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
