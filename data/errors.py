"""Errors that a user can correct.

Each message contains the values concerned and ends with a remedy. The command line prints it as one line and
exits with 1; any other exception is a defect of nearsay.
"""

from typing import Self


class NearsayError(Exception):
    """The base of all errors that a user can correct."""

    command: str = ""
    """What mends it in a shell, where the message says it in other words; the command line adds it."""


class BadInputError(NearsayError):
    """A file, an option or a value cannot be used as it is."""


class UnknownColumnsError(BadInputError):
    """The columns of texts or labels cannot be guessed; the caller has to name them."""


class DiskFullError(NearsayError):
    """There is no free space; nothing half-written is left."""


class NotFiniteError(NearsayError):
    """A model outputs NaN or infinity: it is damaged, or its training diverged."""


class StorageError(NearsayError):
    """The system cannot open, read or write a file at the moment; the file itself may be intact."""


class MissingExtraError(NearsayError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        """`purpose`: what needs it, the start of the sentence; `extra`: the name in `nearsay[extra]`."""
        super().__init__(f"{purpose} needs an optional package. Install it: pip install 'nearsay[{extra}]'")
        self._given = (purpose, extra)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Pickle the arguments instead of the message."""
        return type(self), self._given


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if there is none."""
    said = str(error).strip()
    return said.splitlines()[0] if said else type(error).__name__
