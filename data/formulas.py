"""Text of strangers in tables that spreadsheets open."""

from typing import TypeVar

Cell = TypeVar("Cell")

# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def defused(cell: Cell) -> Cell | str:
    """The cell; a text that a spreadsheet would compute gets an apostrophe before it. Numbers stay."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def fused(cell: Cell) -> Cell | str:
    """The text that `defused` was given."""
    made = isinstance(cell, str) and cell[:1] == "'" and cell[1:].startswith(_FORMULA)
    return str(cell)[1:] if made else cell
