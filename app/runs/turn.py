"""Runs of a library take turns: so many are at work at once, the others wait, first come first served."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearsay.app import life_lock
from nearsay.app.runs.run_folder import RunFolder

__all__ = ["turn"]

_SECONDS_BETWEEN_TRIES = 0.2


@contextmanager
def turn(library: Path, number: int, *, at_once: int) -> Iterator[None]:
    """Wait until this run may work; the turn ends with the block, or with the process.

    Files alone are looked at, so a run that waits needs neither a database nor the modules for one.
    """
    while (descriptor := _place(library, number, at_once)) is None:
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        RunFolder(library, number).turn_has_come()
        yield
    finally:
        os.close(descriptor)


def _place(library: Path, number: int, at_once: int) -> int | None:
    """One of the locks that stand for a run at work, if one is free and nobody waits for it longer."""
    for place in range(1, at_once + 1):
        descriptor = life_lock.take(library / "runs" / f"turn-{place}.lock")
        if descriptor is not None:
            if not _somebody_waits_longer(library, number):
                return descriptor
            os.close(descriptor)
            return None
    return None


def _somebody_waits_longer(library: Path, number: int) -> bool:
    names = (place.name for place in (library / "runs").iterdir())
    earlier = sorted(int(name) for name in names if name.isdecimal() and int(name) < number)
    return any(RunFolder(library, other).waiting for other in earlier)
