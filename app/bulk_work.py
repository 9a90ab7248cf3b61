"""How Python itself runs while many rows are on their way, in processes of our own."""

import contextlib
import gc
import sys
from collections.abc import Iterator

_OBJECTS = 50_000  # made and still there before the collector looks at them; CPython 3.11's own number is 700
_TURN = 0.0005  # seconds that a thread runs while others wait; Python's own number is 0.005


@contextlib.contextmanager
def bulk_work() -> Iterator[None]:
    """Let the collector look at more objects at a time, and threads take turns sooner, while the block runs.

    Some batches of rows are in memory at a time, and go as soon as they are written without the collector's
    help. At Python's own number it walks through each several times, and again and again through every object
    of the process, of which one that loaded an encoder has half a million: a fifth of adding rows.

    The thread that writes gives Python's lock back for each statement, the one that encodes for each product,
    and each then waits for its turn while another reads: hundreds of times a second.

    A process that has set either further the same way by itself, or in another block, is left as it is, and
    so is what it sets meanwhile: of blocks that overlap, the one that changed something puts it back.
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
