"""Settings of the Python runtime while many rows are processed, in our own processes."""

import contextlib
import gc
import sys
from collections.abc import Iterator

_OBJECTS = 50_000  # new objects before a collection; the default of CPython 3.11 is 700
_TURN = 0.0005  # switch interval in seconds; Python's default is 0.005


@contextlib.contextmanager
def bulk_work() -> Iterator[None]:
    """Raise the garbage collector's threshold and shorten the thread switch interval for the block.

    Batches of rows are freed by reference counting as soon as they are written. With Python's default
    threshold the collector scans each batch several times and, repeatedly, every object of the process (half
    a million once an encoder is loaded), which takes a fifth of the time to add rows.

    The writing thread releases the GIL for each statement and the encoding thread for each product, and each
    then waits for another to give it up, hundreds of times a second.

    Values that the process itself, or another block, has moved further in the same direction are left alone,
    also if they change meanwhile: with overlapping blocks, the one that changed a value restores it.
    """
    first, *others = gc.get_threshold()
    turn = sys.getswitchinterval()
    if 0 < first < _OBJECTS:
        gc.set_threshold(_OBJECTS, *others)
    if turn > _TURN:
        sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        if 0 < first < _OBJECTS and gc.get_threshold()[0] == _OBJECTS:
            gc.set_threshold(first, *others)
        if turn > _TURN and sys.getswitchinterval() == _TURN:
            sys.setswitchinterval(turn)
