"""One run, as a page shows it."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearsay.app.cli.progress import RunProgress
from nearsay.app.runs.run_folder import RunFolder
from nearsay.app.runs.run_kind import RunKind
from nearsay.app.runs.run_state import RunState

__all__ = ["Run"]


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
