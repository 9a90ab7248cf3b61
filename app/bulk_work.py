"""How Python itself runs while many rows are on their way, in processes of our own."""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from typing import TypeAlias

_OBJECTS = 50_000  # made and still there before the collector looks at them; CPython 3.11's own number is 700
_TURN = 0.0005  # seconds that a thread runs while others wait; Python's own number is 0.005
_HALF = 0.5e-6  # Python cuts what it is given to whole microseconds, and would lose one each time
_lock = threading.Lock()
_under_way = 0  # blocks in this process
_Settings: TypeAlias = tuple[tuple[int, int, int], float]  # of the collector, of turns
_usual: _Settings = (700, 10, 10), 0.005  # what the process had before them
_meanwhile: _Settings = _usual  # what it was given


@contextlib.contextmanager
def bulk_work() -> Iterator[None]:
    """Let the collector look at more objects at a time, and threads take turns sooner, while the block runs.

    Some batches of rows are in memory at a time, and go as soon as they are written without the collector's
    help. At Python's own number it walks through each several times, and again and again through every object
    of the process, of which one that loaded an encoder has half a million: a fifth of adding rows.

    The thread that writes gives Python's lock back for each statement, the one that encodes for each product,
    and each then waits for its turn while another reads: hundreds of times a second.

    A process that has set either further the same way by itself is left as it is, and so is what it sets
    meanwhile. Several blocks, in each other or in several threads, count as one.
    """
    global _under_way, _usual, _meanwhile  # noqa: PLW0603 - the process has one collector and one lock
    with _lock:
        if not _under_way:
            _usual = gc.get_threshold(), sys.getswitchinterval()
            (first, *others), turn = _usual
            if 0 < first < _OBJECTS:
                gc.set_threshold(_OBJECTS, *others)
            sys.setswitchinterval(min(turn + _HALF, _TURN))
            _meanwhile = gc.get_threshold(), sys.getswitchinterval()
        _under_way += 1
    try:
        yield
    finally:
        with _lock:
            _under_way -= 1
            if not _under_way and gc.get_threshold() == _meanwhile[0]:
                gc.set_threshold(*_usual[0])
            if not _under_way and sys.getswitchinterval() == _meanwhile[1]:
                sys.setswitchinterval(_usual[1] + _HALF)
