"""A job as recorded in the catalogue, with access to its files."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from nearsay.app.jobs.job_folder import JobFolder, JobProgress
from nearsay.data.document import JsonValue


class JobKind(StrEnum):
    """The kind of a job: its name in the catalogue, its displayed name, and its commands."""

    label: str
    commands: tuple[str, ...]  # one word stands for the rest of its group

    ADD = "add", "adding", "documents add"
    REMOVE = "remove", "removing", "documents remove", "collections remove"
    REBUILD = "rebuild", "rebuild", "index rebuild"
    PROMOTE = "promote", "promotion", "index promote"
    ROLLBACK = "rollback", "rollback", "index rollback"
    TUNE = "tune", "tuning", "index tune", "index optimize"
    IMPROVE = "improve", "improvement", "index improve"
    COMPACT = "compact", "compaction", "index compact"
    EXPORT = "export", "export", "documents export"
    DEMO = "demo", "demo", "demo"
    CLUSTER = "cluster", "clusters", "explore clusters"
    MAP = "map", "map", "explore map"
    DUPLICATES = "duplicates", "duplicates", "explore duplicates"
    EXPLORE = "explore", "exploring", "explore"
    INSIDE = "inside", "sample of tokens", "encoders inside"
    VOCABULARY = "vocabulary", "vocabulary", "train vocabulary"
    PRETRAIN = "pretrain", "pretraining", "train pretrain"
    SENTENCE = "sentence", "fine-tuning", "train sentence", "train adapt"
    DISTIL = "distil", "distillation", "train distill"
    NEGATIVES = "negatives", "hard negatives", "train negatives"
    HEAD = "head", "training of a head", "train classifier", "train tagger", "train reader"
    TRAIN = "train", "training", "train"
    EVALUATE = "evaluate", "evaluation", "evaluate"
    ENCODE = "encode", "encoding", "encoders encode"
    DOCTOR = "doctor", "doctor", "doctor"
    OTHER = "other", "other"

    def __new__(cls, value: str, label: str = "", *commands: str) -> "JobKind":
        """Create a member with this value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.commands = label, commands
        return member

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "JobKind":
        """Return the kind of a command: `["documents", "add", "papers", …]` is an ADD."""
        kinds = {command: kind for kind in cls for command in kind.commands}
        return kinds.get(" ".join(arguments[:2])) or kinds.get("".join(arguments[:1])) or cls.OTHER


class JobState(StrEnum):
    """waiting → running → done, failed, cancelled or interrupted."""

    WAITING = "waiting"  # another job of this library is running
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # its message has the cause and the remedy
    CANCELLED = "cancelled"  # by a user; what was written is kept
    INTERRUPTED = "interrupted"  # its process was killed, or the machine was shut down

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """A job at the time it was read; its methods read the current files."""

    number: int
    kind: JobKind
    title: str
    arguments: tuple[str, ...]  # of `nearsay`
    working_folder: str  # relative paths in the arguments start here
    collection: str | None
    product: str | None  # its output: a folder, file or name
    resumes: int | None  # number of the job that it resumes
    state: JobState
    pid: int | None
    host: str | None
    created_at: str  # ISO 8601 in UTC, as the other times
    started_at: str | None  # None: waiting for its turn
    ended_at: str | None  # None also if it was killed: the time is unknown
    exit_code: int | None
    message: str | None  # why it failed
    subject: Mapping[str, JsonValue] | None  # command and options; None: started by an older version
    library: Path

    @property
    def folder(self) -> JobFolder:
        """The folder with its files."""
        return JobFolder(self.library, self.number)

    @property
    def command(self) -> str:
        """The command line: `nearsay documents add papers papers.jsonl --library …`."""
        from nearsay.app.jobs.command_line import shell_line

        return shell_line(self.arguments, self.library)

    @property
    def stopping(self) -> bool:
        """Whether a stop was requested and it has not ended yet."""
        return not self.state.ended and self.folder.times_asked_to_stop > 0

    def seconds(self, now: datetime | None = None) -> float | None:
        """Return how long it has run, until its end or `now`; None if that is unknown."""
        if self.started_at is None or (self.ended_at is None and self.state.ended):  # waiting, or killed
            return None
        end = datetime.fromisoformat(self.ended_at) if self.ended_at else now or datetime.now(UTC)
        return max((end - datetime.fromisoformat(self.started_at)).total_seconds(), 0.0)

    def progress(self) -> JobProgress | None:
        """Return its progress, or the last one before its end; None if it reported none."""
        return self.folder.progress()

    def log(self, last: int | None = None) -> list[str]:
        """Return the lines of its standard error: notes, warnings, errors; last: only this many."""
        return self.folder.log(last)

    def notes(self) -> tuple[str, ...]:
        """Return its notes, such as what was sampled or left out."""
        return self.folder.notes()

    def output(self, first: int | None = None) -> list[Any]:
        """Return its output by line: JSON values, or text for other lines; first: only this many."""
        return list(itertools.islice(self.folder.output(), first))
