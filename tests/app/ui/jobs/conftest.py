"""Jobs as the catalogue and their folders have them, without any process."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.jobs import Job, JobKind, Jobs, JobState
from nearsay.app.jobs.job_folder import JobFolder, JobProgress
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs as rows


@dataclass
class Recorder:
    """Writes jobs down."""

    library: Path
    stack: ExitStack
    numbers: list[int] = field(default_factory=list)

    def __call__(
        self,
        state: JobState = JobState.DONE,
        *,
        kind: JobKind = JobKind.SENTENCE,
        title: str = "Fine-tune mine",
        arguments: tuple[str, ...] = ("train", "sentence", "pairs.tsv", "--out", "mine"),
        collection: str | None = None,
        resumes: int | None = None,
        message: str | None = None,
        log: str = "",
        output: tuple[Any, ...] = (),
        progress: JobProgress | None = None,
    ) -> Job:
        begun, over = "2026-01-02T03:04:05.000+00:00", "2026-01-02T03:05:25.000+00:00"
        with Library.open(self.library) as library:
            new = rows.NewJob(kind, title, arguments, str(self.library), collection, "mine", resumes, begun)
            database = library.store.database
            with database.writing() as connection:
                number = rows.create(connection, new)
                if state is not JobState.WAITING:
                    rows.begun(connection, number, begun)
                if state.ended and state is not JobState.INTERRUPTED:
                    code = {JobState.DONE: 0, JobState.FAILED: 1}.get(state, 130)
                    rows.ended(connection, number, rows.Ending(state, code, message, over))
            folder = JobFolder(library.store.folder, number)
            lock = folder.make()
            if state.ended:
                os.close(lock)
            else:
                self.stack.callback(os.close, lock)
            folder.log_file.write_text(log, "utf-8")
            folder.output_file.write_text("".join(json.dumps(line) + "\n" for line in output), "utf-8")
            if progress is not None:
                folder.write_progress(progress)
            self.numbers.append(number)
            return Jobs(library).get(number)


@pytest.fixture
def record(settings: Settings) -> Iterator[Callable[..., Job]]:
    """`record(JobState.FAILED, message="…")`: a job in the page's library."""
    with ExitStack() as stack:
        yield Recorder(Path(settings.library), stack)
