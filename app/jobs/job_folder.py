"""The folder of one job: its lock, its progress, its output and its log."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nearsay.app import life_lock
from nearsay.data.document import visible
from nearsay.data.durable import FULL
from nearsay.data.errors import DiskFullError, NearsayError

JOBS_FOLDER = "runs"  # of a library: jobs were called so when the first libraries were made

_TAIL_BYTES = 256 * 2**10  # of a log that are looked at for its last lines
_SHOWN = ("loss", "mlm_accuracy", "clm_accuracy", "nsp_accuracy", "accuracy")  # metrics of a training


@dataclass(frozen=True, slots=True)
class JobProgress:
    """One look at a command that is under way."""

    doing: str  # in a word or two: "embedding", "measuring kinds of index", "training"
    unit: str  # what is counted: "passages", "steps"
    done: int
    total: int | None  # known or estimated; None where nobody knows, and of a training limited by time
    share: float | None  # of what is being done now, from 0 to 1
    rate: float | None  # units a second; None before the first
    seconds: float  # that it has been doing this
    seconds_left: float | None  # at the rate so far
    metrics: Mapping[str, float] = field(default_factory=dict)  # of a training, as of the log's last line
    evaluation: Mapping[str, float] = field(default_factory=dict)  # of a training, the last one
    tokens_per_second: float | None = None  # of a training
    peak_share: float | None = None  # of a training: of what the hardware could do
    at: float = field(default_factory=time.time)  # when this was seen, in seconds since 1970

    def words(self, room: int | None = None) -> str:
        """As in "embedding: 1,200 of about 23,300 passages (5%), 350 a second, 1 min 3 s left".

        room: characters, for which what matters least is left out: what stands before the time that is left
        """
        if not self.done and (self.total is None or self.rate is None):
            return f"{self.doing} …"
        counted = f"{self.done:,} {self.unit}"
        if self.total:  # a training knows; of a corpus it is an estimate
            about = "" if self.unit == "steps" else "about "
            counted = f"{self.done:,} of {about}{max(self.total, self.done):,} {self.unit}"
        share = "" if self.share is None else f" ({self.share:.0%})"
        parts = [f"{self.doing}: {counted}{share}" if self.doing else f"{counted}{share}"]
        shown = {name: self.metrics[name] for name in _SHOWN if name in self.metrics}
        shown |= {f"dev {name}": value for name, value in [*self.evaluation.items()][:1]}
        parts += [f"{name.replace('_', ' ')} {value:.3f}" for name, value in shown.items()]
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
        if self.peak_share is not None:
            parts.append(f"{self.peak_share:.0%} of peak")
        if self.rate:
            slow = self.rate < 1.0
            parts.append(f"{1 / self.rate:,.1f} s each" if slow else f"{self.rate:,.0f} a second")
        if self.seconds_left is not None and not (self.total and self.done >= self.total):
            parts.append(f"{duration(self.seconds_left)} left")
        while room is not None and len(parts) > 1 and len(", ".join(parts)) > room:
            del parts[-2 if len(parts) > 2 else -1]
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time that people can take in: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 0.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    steps = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
    unit, large, below, small = next(step for step in steps if whole >= step[1])
    rest = whole % large // small
    return f"{whole // large} {unit}" + (f" {rest} {below}" if rest else "")


class JobFolder:
    """`LIBRARY/runs/NUMBER`; every look at it is a read of a small file."""

    def __init__(self, library: Path, number: int) -> None:
        """The folder need not be there."""
        self.library = library
        self.number = number
        self.path = library / JOBS_FOLDER / str(number)
        self.output_file = self.path / "output"  # standard output: JSON lines where the command has --json
        self.log_file = self.path / "log"  # standard error
        self.lock_file = self.path / "lock"  # held by the job's process for its life
        self._notes_file = self.path / "notes"
        self._progress_file = self.path / "progress.json"
        self._waiting_file = self.path / "waiting"  # there while the job waits for its turn
        self._stop_files = (self.path / "stop", self.path / "stop-at-once")

    @property
    def alive(self) -> bool:
        """Whether the job's process is there."""
        return life_lock.is_held(self.lock_file)

    @property
    def waiting(self) -> bool:
        """Whether the job waits for its turn, and is alive."""
        return self._waiting_file.exists() and self.alive

    @property
    def times_asked_to_stop(self) -> int:
        """0, as where nobody may look; 1: it ends after what it is at; 2: at once."""
        with contextlib.suppress(OSError):
            return sum(file.exists() for file in self._stop_files)
        return 0

    def make(self) -> int:
        """Make the folder of a job that waits; the descriptor of its lock, for its process to inherit."""
        with writing(self.path):
            if self.alive:
                raise NearsayError(
                    f"a job that the catalogue does not know is at work in {self.path}. Let it end"
                )
            if self.path.exists():
                shutil.rmtree(self.path)  # a backup of the catalogue was restored
            self.path.mkdir(parents=True)
            self._waiting_file.touch()
            taken = life_lock.take(self.lock_file)
        if taken is None:
            raise NearsayError(f"{self.lock_file} is held by another process. Try again")
        return taken

    def turn_has_come(self) -> None:
        """It waits no more."""
        self._waiting_file.unlink(missing_ok=True)

    def ask_to_stop(self) -> None:
        """Ask the job to end after what it is at; asked already, to end at once."""
        for file in self._stop_files:
            with contextlib.suppress(FileExistsError), writing(self.path):
                file.touch(exist_ok=False)
                return

    def write_progress(self, progress: JobProgress) -> None:
        """Let others read how far the job is.

        It replaces the file, but does not wait for the disk: after a loss of power nobody asks for it.
        """
        temporary = self._progress_file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(progress)), "utf-8")
        temporary.replace(self._progress_file)

    def progress(self) -> JobProgress | None:
        """How far the job is; None if it has not said."""
        try:
            return JobProgress(**json.loads(self._progress_file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def add_note(self, note: str) -> None:
        """Keep what a command says beside its results, a line each; it stands in the log, too."""
        line = visible(" ".join(note.split())) + "\n"
        with contextlib.suppress(OSError), self._notes_file.open("a", encoding="utf-8") as stream:
            stream.write(line)

    def notes(self) -> tuple[str, ...]:
        """What the command said beside its results; nothing of a job that an older version ran."""
        try:
            return tuple(self._notes_file.read_text("utf-8", "replace").splitlines())
        except OSError:
            return ()

    def log(self, last: int | None = None) -> list[str]:
        """The lines on standard error; last: only so many, and of a quarter megabyte at most."""
        try:
            with self.log_file.open("rb") as stream:
                begin = 0 if last is None else max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES)
                stream.seek(begin)
                lines = stream.read().decode("utf-8", "replace").splitlines()[min(begin, 1) :]
        except FileNotFoundError:
            return []
        return lines if last is None else lines[max(0, len(lines) - last) :]

    def output(self) -> Iterator[Any]:  # any JSON value
        """What was printed, line by line: JSON values, and text where a line is none."""
        try:
            with self.output_file.open("r", encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    try:
                        yield json.loads(line)
                    except ValueError:
                        yield line.rstrip("\n")
        except FileNotFoundError:
            return

    def remove(self) -> None:
        """Delete it."""
        with writing(self.path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the disk says of a job's folder into an error with its remedy; FileExistsError stays."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise DiskFullError(
                f"no room left to write in {folder} ({error.strerror}). Free some space and try again"
            ) from error
        raise NearsayError(
            f"{folder} cannot be written ({error.strerror}). Check the library's folder and its rights"
        ) from error
