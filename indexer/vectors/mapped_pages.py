"""Giving memory back to the system: pages of mapped files, and what was freed."""

import ctypes
import mmap
from typing import Any, Final

from numpy.typing import NDArray

__all__ = ["give_back", "trim"]

_DO_NOT_NEED: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None)  # None: not on this system


def give_back(array: NDArray[Any]) -> None:
    """Let go of the pages of the mapped file that the array is a view of; of any other array nothing.

    They are read again, mostly from the system's cache, when they are next looked at.
    """
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and _DO_NOT_NEED is not None:
        base.madvise(_DO_NOT_NEED)


def trim() -> None:
    """Return freed memory that the C library keeps for later, where it can (glibc)."""
    release = getattr(ctypes.CDLL(None), "malloc_trim", None) if _DO_NOT_NEED is not None else None
    if release is not None:
        release(0)
