"""The errors that a user can mend.

Each message names the values in play and ends with the remedy. The command line prints it as one line and
exits with 1; everything else that is raised is a defect of nearsay.
"""

from typing import Self


class NearsayError(Exception):
    """The root of everything that nearsay raises on purpose."""

    command: str = ""
    """What mends it in a shell, where the message says it in other words; the command line adds it."""


class BadInputError(NearsayError):
    """What was given (a file, an option, a value) cannot be used as it is."""


class UnknownColumnsError(BadInputError):
    """Which columns are the texts or the label cannot be told; the caller has to name them."""


class DiskFullError(NearsayError):
    """There is no room left for what has to be written; nothing half-written stays."""


class NotFiniteError(NearsayError):
    """A model gives numbers that are NaN or infinite: it is damaged, or its training diverged."""


class StorageError(NearsayError):
    """The system refuses to open, read or write a file just now; it says nothing of what the file holds."""


class MissingExtraError(NearsayError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        """`purpose`: what needs it, as the start of a sentence; `extra`: the name in `nearsay[extra]`."""
        super().__init__(f"{purpose} needs an optional package. Install it: pip install 'nearsay[{extra}]'")
        self._given = (purpose, extra)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """What another process made of it: the words it was made of, not the sentence."""
        return type(self), self._given


def first_line(error: BaseException) -> str:
    """Give the first line of what a library says, or the error's kind when it says nothing."""
    said = str(error).strip()
    return said.splitlines()[0] if said else type(error).__name__
