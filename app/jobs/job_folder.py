"""The files of a job: its lock, progress, output and log."""

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

JOBS_FOLDER = "runs"  # in a library; an old name for jobs

_TAIL_BYTES = 256 * 2**10  # read from the end of a log
_SHOWN = ("loss", "mlm_accuracy", "clm_accuracy", "nsp_accuracy", "accuracy")  # metrics of a training


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a running command."""

    doing: str  # "embedding", "measuring kinds of index", "training"
    unit: str  # what is counted: "passages", "steps"
    done: int
    total: int | None  # known or estimated; None: unknown, or a training limited by time
    share: float | None  # of the current work, from 0 to 1
    rate: float | None  # units a second; None before the first
    seconds: float  # spent on the current work
    seconds_left: float | None  # at the rate so far
    metrics: Mapping[str, float] = field(default_factory=dict)  # of a training, as of the log's last line
    evaluation: Mapping[str, float] = field(default_factory=dict)  # of a training, the last one
    tokens_per_second: float | None = None  # of a training
    peak_share: float | None = None  # of a training: share of the hardware's peak
    at: float = field(default_factory=time.time)  # time of this progress, in seconds since 1970

    def words(self, room: int | None = None) -> str:
        """Return it as in "embedding: 1,200 of about 23,300 passages (5%), 350 a second, 1 min 3 s left".

        room: characters available; less important parts, those before the remaining time, are omitted
        """
        if not self.done and (self.total is None or self.rate is None):
            return f"{self.doing} …"
        counted = f"{self.done:,} {self.unit}"
        if self.total:  # exact for a training, estimated for a corpus
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
    """Return a duration in readable form: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
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
    """`LIBRARY/runs/NUMBER`; every access reads or writes a small file."""

    def __init__(self, library: Path, number: int) -> None:
        """The folder need not exist."""
        self.library = library
        self.number = number
        self.path = library / JOBS_FOLDER / str(number)
        self.output_file = self.path / "output"  # standard output: JSON lines where the command has --json
        self.log_file = self.path / "log"  # standard error
        self.lock_file = self.path / "lock"  # held by the job's process while it lives
        self._notes_file = self.path / "notes"
        self._progress_file = self.path / "progress.json"
        self._waiting_file = self.path / "waiting"  # exists while the job waits for its turn
        self._stop_files = (self.path / "stop", self.path / "stop-at-once")

    @property
    def alive(self) -> bool:
        """Whether the job's process is running."""
        return life_lock.is_held(self.lock_file)

    @property
    def waiting(self) -> bool:
        """Whether the job is alive and waits for its turn."""
        return self._waiting_file.exists() and self.alive

    @property
    def times_asked_to_stop(self) -> int:
        """0 (also without permission to read); 1: stop after the current step; 2: stop at once."""
        with contextlib.suppress(OSError):
            return sum(file.exists() for file in self._stop_files)
        return 0

    def make(self) -> int:
        """Create the folder of a waiting job; returns the descriptor of its lock, to be inherited."""
        with writing(self.path):
            if self.alive:
                raise NearsayError(
                    f"a job that is not in the catalogue is running in {self.path}. Wait until it ends"
                )
            if self.path.exists():
                shutil.rmtree(self.path)  # left over, since a backup of the catalogue was restored
            self.path.mkdir(parents=True)
            self._waiting_file.touch()
            taken = life_lock.take(self.lock_file)
        if taken is None:
            raise NearsayError(f"{self.lock_file} is held by another process. Try again")
        return taken

    def turn_has_come(self) -> None:
        """Mark the job as no longer waiting."""
        self._waiting_file.unlink(missing_ok=True)

    def ask_to_stop(self) -> None:
        """Request a stop after the current step; a second request stops it at once."""
        for file in self._stop_files:
            with contextlib.suppress(FileExistsError), writing(self.path):
                file.touch(exist_ok=False)
                return

    def write_progress(self, progress: JobProgress) -> None:
        """Write the progress for other processes, atomically.

        Without fsync: after a power failure it is of no use.
        """
        temporary = self._progress_file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(progress)), "utf-8")
        temporary.replace(self._progress_file)

    def progress(self) -> JobProgress | None:
        """Return the job's progress; None if it reported none."""
        try:
            return JobProgress(**json.loads(self._progress_file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def add_note(self, note: str) -> None:
        """Store a note of the command as one line; it is also in the log."""
        line = visible(" ".join(note.split())) + "\n"
        with contextlib.suppress(OSError), self._notes_file.open("a", encoding="utf-8") as stream:
            stream.write(line)

    def notes(self) -> tuple[str, ...]:
        """Return the command's notes; () for a job that an older version ran."""
        try:
            return tuple(self._notes_file.read_text("utf-8", "replace").splitlines())
        except OSError:
            return ()

    def log(self, last: int | None = None) -> list[str]:
        """Return the lines of standard error; last: only this many, at most a quarter megabyte."""
        try:
            with self.log_file.open("rb") as stream:
                begin = 0 if last is None else max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES)
                stream.seek(begin)
                lines = stream.read().decode("utf-8", "replace").splitlines()[min(begin, 1) :]
        except FileNotFoundError:
            return []
        return lines if last is None else lines[max(0, len(lines) - last) :]

    def output(self) -> Iterator[Any]:  # any JSON value
        """Yield the output by line: JSON values, or text for other lines."""
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
        """Delete the folder."""
        with writing(self.path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert OSError in a job's folder into an error with its remedy; FileExistsError passes through."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise DiskFullError(
                f"no space left in {folder} ({error.strerror}). Free some space and try again"
            ) from error
        raise NearsayError(
            f"{folder} cannot be written ({error.strerror}). Check the library's folder and its permissions"
        ) from error
