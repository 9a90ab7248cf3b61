"""One job, as a page shows it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from nearsay.app.jobs.job_folder import JobFolder, JobProgress
from nearsay.data.document import JsonValue

__all__ = [
    "Job",
    "JobKind",
    "JobState",
]


class JobKind(StrEnum):
    """The work of a job, by which a page sorts and draws it."""

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
    def of(cls, arguments: Sequence[str]) -> "JobKind":
        """The kind of job that a command line is: `["documents", "add", "papers", …]` is an ADD."""
        group, command = [*arguments, "", ""][:2]
        fallback = {"explore": cls.EXPLORE, "train": cls.TRAIN, "evaluate": cls.EVALUATE}
        single = {"demo": cls.DEMO, "doctor": cls.DOCTOR}
        named = _COMMANDS.get((group, command)) or fallback.get(group) or single.get(group)
        return named or cls.OTHER


_COMMANDS = {
    ("documents", "add"): JobKind.ADD,
    ("documents", "remove"): JobKind.REMOVE,
    ("collections", "remove"): JobKind.REMOVE,
    ("index", "rebuild"): JobKind.REBUILD,
    ("index", "promote"): JobKind.PROMOTE,
    ("index", "rollback"): JobKind.ROLLBACK,
    ("index", "tune"): JobKind.TUNE,
    ("index", "optimize"): JobKind.TUNE,
    ("index", "compact"): JobKind.COMPACT,
    ("documents", "export"): JobKind.EXPORT,
    ("explore", "clusters"): JobKind.CLUSTER,
    ("explore", "map"): JobKind.MAP,
    ("explore", "duplicates"): JobKind.DUPLICATES,
    ("encoders", "encode"): JobKind.ENCODE,
    ("encoders", "inside"): JobKind.INSIDE,
    ("train", "vocabulary"): JobKind.VOCABULARY,
    ("train", "pretrain"): JobKind.PRETRAIN,
    ("train", "sentence"): JobKind.SENTENCE,
    ("train", "adapt"): JobKind.SENTENCE,
    ("train", "distill"): JobKind.DISTIL,
    ("train", "negatives"): JobKind.NEGATIVES,
    ("train", "classifier"): JobKind.HEAD,
    ("train", "tagger"): JobKind.HEAD,
    ("train", "reader"): JobKind.HEAD,
}


class JobState(StrEnum):
    """waiting → running → done, failed, cancelled or interrupted."""

    WAITING = "waiting"  # for its turn: another job is at work in this library
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # its message says why, and what to do
    CANCELLED = "cancelled"  # by a person; what was written is kept
    INTERRUPTED = "interrupted"  # by something else: its process was killed, or the machine went off

    @property
    def ended(self) -> bool:
        """Whether no process is at it any more."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """A job at the moment at which it was looked at; what its methods read is as it is now."""

    number: int
    kind: JobKind
    title: str
    arguments: tuple[str, ...]  # what stands behind `nearsay` on the command line
    working_folder: str  # where names of files in the arguments begin
    collection: str | None
    product: str | None  # what it makes: a folder, a file or a name
    resumes: int | None  # the number of the job that this one goes on with
    state: JobState
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
    def folder(self) -> JobFolder:
        """Its files."""
        return JobFolder(self.library, self.number)

    @property
    def command(self) -> str:
        """The same for a terminal: `nearsay documents add papers papers.jsonl --library …`."""
        from nearsay.app.jobs.command_line import shell_line

        return shell_line(self.arguments, self.library)

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop and has not ended yet."""
        return not self.state.ended and self.folder.times_asked_to_stop > 0

    def seconds(self, now: datetime | None = None) -> float | None:
        """How long it has worked, up to its end or to `now`; None where nobody knows."""
        if self.started_at is None or (self.ended_at is None and self.state.ended):  # it waits, or was killed
            return None
        end = datetime.fromisoformat(self.ended_at) if self.ended_at else now or datetime.now(UTC)
        return max((end - datetime.fromisoformat(self.started_at)).total_seconds(), 0.0)

    def progress(self) -> JobProgress | None:
        """How far it is, or was when it ended; None if it has not said."""
        return self.folder.progress()

    def log(self, last: int | None = None) -> list[str]:
        """The lines of its standard error: notes, warnings, errors; last: only so many of the end."""
        return self.folder.log(last)

    def output(self, first: int | None = None) -> list[Any]:
        """What it printed, line by line: JSON values, and text where a line is none; first: only so many."""
        return list(itertools.islice(self.folder.output(), first))
