"""A process that writes to a library and kills itself at a chosen point; run by `test_resume.py`.

Each line on standard input is a JSON object: the library's `folder`, the `action`, the `sources` of an add,
and the `point` at whose `count`-th passing the process kills itself. It is answered by the exit code: -9 for
a process that killed itself, 0 for one that came to its end. Each action runs in a process of its own, forked
from this one while no other thread is there, because importing everything takes longer than all it does.
"""

import contextlib
import itertools
import json
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from words_encoder import WordsEncoder

from nearsay.data import durable
from nearsay.indexer import Library
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.writing import compaction, ingest
from nearsay.training.sentence.text_encoder import TextKind

Reached = Callable[[str], None]


class WatchedEncoder(WordsEncoder):
    """The words encoder, which says when it begins to encode."""

    reached: Reached = staticmethod(lambda _: None)

    def stream(self, windows: Any, *, kind: TextKind = TextKind.PASSAGE) -> Iterator[Any]:
        for window in windows:
            self.reached("before a window is encoded")
            yield from super().stream([window], kind=kind)


class WatchedStream:
    """A file that says when it is written in part."""

    def __init__(self, stream: BinaryIO, reached: Reached) -> None:
        self._stream = stream
        self._reached = reached
        self._parts = 0

    def write(self, part: bytes | memoryview) -> None:
        self._parts += 1
        self._stream.write(part[: len(part) // 2])
        if self._parts == 3:  # a length, a header, then the arrays
            self._stream.flush()
            self._reached("in the middle of a file")
        self._stream.write(part[len(part) // 2 :])


def small_pieces() -> None:
    """Make transactions, windows and segments so small that thirty documents fill several."""
    ingest._ROWS = 5
    ingest._WINDOW = 8
    ingest._WINDOW_ROWS = 8
    segment_writer.ROWS = 8
    compaction.SEGMENT_ROWS = 8


def killing(point: str, count: int) -> Reached:
    """What is told the points that are passed, and kills this process at one of them."""
    passed = itertools.count(1)

    def reached(name: str) -> None:
        if name == point and next(passed) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def watch(reached: Reached) -> None:
    """Have every transaction and every file say how far it is."""
    writing, replacing, unlink = Database.writing, durable.replacing, pathlib.Path.unlink

    @contextlib.contextmanager
    def watched_writing(self: Database) -> Iterator[Any]:
        with writing(self) as connection:
            yield connection
            reached("before a commit")
        reached("after a commit")

    @contextlib.contextmanager
    def watched_replacing(path: Path, **options: str) -> Iterator[Any]:
        with replacing(path, **options) as stream:
            yield WatchedStream(stream, reached)
            reached("before a rename")
        reached("after a rename")

    def watched_unlink(self: Path, *, missing_ok: bool = False) -> None:
        if self.suffix == ".safetensors":
            reached("before a file is removed")
        unlink(self, missing_ok=missing_ok)

    Database.writing = watched_writing
    durable.replacing = watched_replacing
    pathlib.Path.unlink = watched_unlink


def work(folder: str, action: str, sources: Sequence[str], point: str, count: int) -> None:
    reached = killing(point, count)
    WatchedEncoder.reached = staticmethod(reached)
    watch(reached)
    words, letters = WatchedEncoder(), WatchedEncoder("letters", dimension=4)
    with Library.open(
        folder, load_encoder=lambda source: letters if source == "letters" else words
    ) as library:
        collection = library.collection("papers")
        if action == "add":
            collection.add(*sources)
        elif action == "rebuild":
            collection.rebuild("letters")
        else:
            getattr(collection, action)()


def forked(request: dict[str, Any]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(**request)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def warm() -> NDArray[np.float32]:
    """Import what is imported late."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Library.open(folder, load_encoder=lambda _: WordsEncoder()) as library,
    ):
        collection = library.collection("papers")
        collection.add_rows(["a cat"])
        return collection.vectors()[1]


if __name__ == "__main__":
    small_pieces()
    warm()
    for line in sys.stdin:
        print(forked(json.loads(line)), flush=True)
