"""How many threads a computation may take."""

import os

__all__ = ["usable_threads"]


def usable_threads() -> int:
    """The cores that this process may use, or as many as OMP_NUM_THREADS says where that is fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wished)) if wished.isdecimal() and int(wished) else cores
