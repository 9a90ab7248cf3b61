"""What a run's process does beside its work: it writes progress down, and looks whether to stop."""

import contextlib
import signal
import threading
from types import TracebackType
from typing import Self

from nearsay.app.cli.progress import RunProgress
from nearsay.app.runs.run_folder import RunFolder

__all__ = ["Watcher"]

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_WRITES = 0.5


class Watcher:
    """A thread: the work never waits for a file, and its last look is written though it falls silent."""

    def __init__(self, folder: RunFolder) -> None:
        """`folder`: where progress goes, and where it is asked to stop."""
        self._folder = folder
        self._latest: RunProgress | None = None
        self._written: RunProgress | None = None
        self._sent = 0  # interrupts
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher of the run", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._write()

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody asked, and was heard."""
        return self._sent > 0

    def heard(self, progress: RunProgress) -> None:
        """Take one look at the work; the latest is what others read."""
        self._latest = progress

    def _watch(self) -> None:
        looks_a_write = round(_SECONDS_BETWEEN_WRITES / _SECONDS_BETWEEN_LOOKS)
        looks = 0
        while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
            looks += 1
            if looks % looks_a_write == 0:
                self._write()
            if self._sent < self._folder.times_asked_to_stop:
                self._sent += 1
                # The main thread alone runs handlers, and this one wakes it from whatever it waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _write(self) -> None:
        latest = self._latest
        if latest is not None and latest is not self._written:
            with contextlib.suppress(OSError):  # a full disk is told by the work itself
                self._folder.write_progress(latest)
                self._written = latest
