"""How the database says that a lexical table cannot be read."""

from typing import Final

from sqlalchemy.exc import DBAPIError

__all__ = ["is_damaged", "is_gone"]

_UNDEFINED_TABLE: Final = "42P01"  # https://www.postgresql.org/docs/current/errcodes-appendix.html


def is_gone(error: DBAPIError) -> bool:
    """Whether there is no such table (any longer)."""
    return getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE or "no such table" in str(error.orig)


def is_damaged(error: DBAPIError) -> bool:
    """Whether FTS5 found its table damaged, which says nothing against the rest of the catalogue."""
    return getattr(error.orig, "sqlite_errorname", None) == "SQLITE_CORRUPT_VTAB"
