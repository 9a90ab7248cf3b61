"""The memory that is a process's own, of a command and of the processes of a Ray cluster."""

import os
import threading
from pathlib import Path

__all__ = ["Watched", "own_memory"]

LOOKS = 0.2  # seconds between two looks at the memory
_WORK = ("ray::Builder", "ray::Worker", "ray::Shard")  # processes that are named as what they run


class Watched:
    """The most memory of its own that each process of the cluster, and this one, had while it was entered."""

    def __init__(self, root: int) -> None:
        """root: the process that started the others"""
        self._root = root
        self._most: dict[tuple[str, int], int] = {}
        self.together = 0  # bytes, the most of all at one time
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def bytes(self) -> dict[str, list[int]]:
        """By the name of the process, the largest first; Ray's own processes are one name."""
        found: dict[str, list[int]] = {}
        for (name, _), most in sorted(self._most.items(), key=lambda each: -each[1]):
            found.setdefault(name, []).append(most)
        return found

    def _watch(self) -> None:
        while not self._left.wait(LOOKS):
            now = {(name, process): held for name, process, held in self._looked()}
            for key, held in now.items():
                self._most[key] = max(held, self._most.get(key, 0))
            self.together = max(self.together, sum(now.values()))

    def _looked(self) -> list[tuple[str, int, int]]:
        parents, found = {}, []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
        for process in parents:
            above = process
            while above not in (0, self._root):
                above = parents.get(above, 0)
            if above != self._root and process != os.getpid():
                continue
            try:
                line = (Path("/proc") / str(process) / "cmdline").read_bytes().decode()
                held = own_memory(process)
            except (OSError, IndexError):
                continue
            name = (
                line.split("\0")[0].partition(".")[0].partition("(")[0] if line.startswith(_WORK) else "Ray"
            )
            found.append(("command" if process == os.getpid() else name, process, held))
        return found


def own_memory(process: int | None = None) -> int:
    """Bytes that are a process's own, mapped files not counted; None for this one."""
    said = (Path("/proc") / str(process or os.getpid()) / "status").read_text()
    return int(said.partition("RssAnon:")[2].split()[0]) * 1024
