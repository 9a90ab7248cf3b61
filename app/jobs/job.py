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


class JobKind(StrEnum):
    """The work of a job: its name in the catalogue, its name for people, and the commands that do it."""

    said: str
    commands: tuple[str, ...]  # one word stands for what else there is in its group

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

    def __new__(cls, value: str, said: str = "", *commands: str) -> "JobKind":
        """A member of that value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.said, member.commands = said, commands
        return member

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "JobKind":
        """The kind of job that a command line is: `["documents", "add", "papers", …]` is an ADD."""
        kinds = {command: kind for kind in cls for command in kind.commands}
        return kinds.get(" ".join(arguments[:2])) or kinds.get("".join(arguments[:1])) or cls.OTHER


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

    def notes(self) -> tuple[str, ...]:
        """The sentences that it said beside its results: what was compared in part, what was left out."""
        return self.folder.notes()

    def output(self, first: int | None = None) -> list[Any]:
        """What it printed, line by line: JSON values, and text where a line is none; first: only so many."""
        return list(itertools.islice(self.folder.output(), first))
