"""Where a run is."""

from enum import StrEnum

__all__ = ["RunState"]


class RunState(StrEnum):
    """waiting → running → done, failed, cancelled or interrupted."""

    WAITING = "waiting"  # for its turn: another run is at work in this library
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # its message says why, and what to do
    CANCELLED = "cancelled"  # by a person; what was written is kept
    INTERRUPTED = "interrupted"  # by something else: its process was killed, or the machine went off

    @property
    def ended(self) -> bool:
        """Whether no process is at it any more."""
        return self not in (RunState.WAITING, RunState.RUNNING)
