"""One run, as a page shows it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nearsay.app.runs.run_folder import RunFolder, RunProgress
from nearsay.data.document import JsonValue

__all__ = [
    "Run",
    "RunKind",
    "RunState",
]


class RunKind(StrEnum):
    """The work of a run, by which a page sorts and draws it."""

    ADD = "add"
    REMOVE = "remove"
    REBUILD = "rebuild"
    PROMOTE = "promote"
    ROLLBACK = "rollback"
    TUNE = "tune"
    COMPACT = "compact"
    EXPORT = "export"
    DEMO = "demo"
    CLUSTER = "cluster"
    MAP = "map"
    DUPLICATES = "duplicates"
    EXPLORE = "explore"  # what else there is to explore: pairs, outliers, change over time
    INSIDE = "inside"  # a sample of tokens, as a layer of an encoder has them
    VOCABULARY = "vocabulary"
    PRETRAIN = "pretrain"
    SENTENCE = "sentence"
    DISTIL = "distil"
    NEGATIVES = "negatives"
    HEAD = "head"  # a classifier, a tagger or a reader
    TRAIN = "train"  # what else there is to train: average, reduce, static
    EVALUATE = "evaluate"
    ENCODE = "encode"
    DOCTOR = "doctor"
    OTHER = "other"

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "RunKind":
        """The kind of run that a command line is: `["documents", "add", "papers", …]` is an ADD."""
        group, command = [*arguments, "", ""][:2]
        fallback = {"explore": cls.EXPLORE, "train": cls.TRAIN, "evaluate": cls.EVALUATE}
        single = {"demo": cls.DEMO, "doctor": cls.DOCTOR}
        named = _COMMANDS.get((group, command)) or fallback.get(group) or single.get(group)
        return named or cls.OTHER


_COMMANDS = {
    ("documents", "add"): RunKind.ADD,
    ("documents", "remove"): RunKind.REMOVE,
    ("collections", "remove"): RunKind.REMOVE,
    ("index", "rebuild"): RunKind.REBUILD,
    ("index", "promote"): RunKind.PROMOTE,
    ("index", "rollback"): RunKind.ROLLBACK,
    ("index", "tune"): RunKind.TUNE,
    ("index", "optimize"): RunKind.TUNE,
    ("index", "compact"): RunKind.COMPACT,
    ("documents", "export"): RunKind.EXPORT,
    ("explore", "clusters"): RunKind.CLUSTER,
    ("explore", "map"): RunKind.MAP,
    ("explore", "duplicates"): RunKind.DUPLICATES,
    ("encoders", "encode"): RunKind.ENCODE,
    ("encoders", "inside"): RunKind.INSIDE,
    ("train", "vocabulary"): RunKind.VOCABULARY,
    ("train", "pretrain"): RunKind.PRETRAIN,
    ("train", "sentence"): RunKind.SENTENCE,
    ("train", "adapt"): RunKind.SENTENCE,
    ("train", "distill"): RunKind.DISTIL,
    ("train", "negatives"): RunKind.NEGATIVES,
    ("train", "classifier"): RunKind.HEAD,
    ("train", "tagger"): RunKind.HEAD,
    ("train", "reader"): RunKind.HEAD,
}


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


@dataclass(frozen=True, slots=True)
class Run:
    """A run at the moment at which it was looked at; what its methods read is as it is now."""

    number: int
    kind: RunKind
    title: str
    arguments: tuple[str, ...]  # what stands behind `nearsay` on the command line
    working_folder: str  # where names of files in the arguments begin
    collection: str | None
    product: str | None  # what it makes: a folder, a file or a name
    resumes: int | None  # the number of the run that this one goes on with
    state: RunState
    pid: int | None
    host: str | None
    created_at: str  # ISO 8601, UTC, as the other moments
    started_at: str | None  # None: its turn has not come
    ended_at: str | None  # None too if it was killed: nobody knows when
    exit_code: int | None
    message: str | None  # why it failed, in a sentence
    subject: Mapping[str, JsonValue] | None  # its command and their values; None: an older version started it
    library: Path

    @property
    def folder(self) -> RunFolder:
        """Its files."""
        return RunFolder(self.library, self.number)

    @property
    def command(self) -> str:
        """The same for a terminal: `nearsay documents add papers papers.jsonl --library …`."""
        from nearsay.app.runs.command_line import shell_line

        return shell_line(self.arguments, self.library)

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop and has not ended yet."""
        return not self.state.ended and self.folder.times_asked_to_stop > 0

    def progress(self) -> RunProgress | None:
        """How far it is, or was when it ended; None if it has not said."""
        return self.folder.progress()

    def log(self, last: int | None = None) -> list[str]:
        """The lines of its standard error: notes, warnings, errors; last: only so many of the end."""
        return self.folder.log(last)

    def output(self, first: int | None = None) -> list[Any]:
        """What it printed, line by line: JSON values, and text where a line is none; first: only so many."""
        return list(itertools.islice(self.folder.output(), first))
