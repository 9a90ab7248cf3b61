"""Protection against formulas in tables that spreadsheets open."""

from typing import TypeVar

Cell = TypeVar("Cell")

# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def defused(cell: Cell) -> Cell | str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula. Numbers stay."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def fused(cell: Cell) -> Cell | str:
    """Undo `defused`."""
    made = isinstance(cell, str) and cell[:1] == "'" and cell[1:].startswith(_FORMULA)
    return str(cell)[1:] if made else cell
