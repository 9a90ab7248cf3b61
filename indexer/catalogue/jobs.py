"""Jobs in the catalogue.

A state is plain text here; `nearsay.app.jobs` knows what it means, and whether a job's process is alive.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.tables import jobs


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to start."""

    kind: str
    title: str
    arguments: Sequence[str]  # of the command `nearsay`
    working_folder: str  # that relative file names in the arguments start from
    collection: str | None
    product: str | None
    resumes: int | None  # the number of the job that this one resumes
    created_at: str
    subject: Mapping[str, JsonValue] | None = None  # its command and the values that determine its result


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended."""

    state: str
    exit_code: int | None
    message: str | None  # why it failed
    ended_at: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in the catalogue at one moment."""

    number: int
    kind: str
    title: str
    arguments: tuple[str, ...]
    working_folder: str
    collection: str | None
    product: str | None
    resumes: int | None
    state: str
    pid: int | None
    host: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    exit_code: int | None
    message: str | None
    subject: Mapping[str, JsonValue] | None = None  # None: started by an older version


def create(connection: sa.Connection, new: NewJob) -> int:
    """Insert a job that waits for its turn. Returns its number, never used for another."""
    values = {name: getattr(new, name) for name in NewJob.__slots__}
    values |= {"arguments": list(new.arguments), "state": "waiting"}
    return int(connection.execute(jobs.insert().values(values).returning(jobs.c.number)).scalar_one())


def find(connection: sa.Connection, number: int) -> JobRow | None:
    """The job of that number, or None."""
    row = connection.execute(_rows().where(jobs.c.number == number)).one_or_none()
    return None if row is None else _row(row)


def resumed(connection: sa.Connection, number: int, after: int) -> int | None:
    """The newest job that resumes a job and was created after another; None if there is none.

    The job is locked until the transaction ends, so that of two simultaneous resumes one sees the other.
    """
    connection.execute(sa.select(jobs.c.number).where(jobs.c.number == number).with_for_update())
    later = sa.select(sa.func.max(jobs.c.number)).where(jobs.c.resumes == number, jobs.c.number > after)
    found: int | None = connection.execute(later).scalar_one()
    return found


def newest(
    connection: sa.Connection,
    *,
    states: Sequence[str] | None = None,
    collection: str | None = None,
    limit: int | None = None,
) -> list[JobRow]:
    """The jobs, newest first; states, collection: only those; limit: at most this many."""
    statement = _rows().order_by(jobs.c.number.desc())
    if states is not None:
        statement = statement.where(jobs.c.state.in_(states))
    if collection is not None:
        statement = statement.where(jobs.c.collection == collection)
    if limit is not None:
        statement = statement.limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def spawned(connection: sa.Connection, number: int, *, pid: int, host: str) -> None:
    """Save the process of a job."""
    connection.execute(jobs.update().where(jobs.c.number == number).values(pid=pid, host=host))


def begun(connection: sa.Connection, number: int, at: str) -> None:
    """Mark a job as running."""
    connection.execute(jobs.update().where(jobs.c.number == number).values(state="running", started_at=at))


def ended(connection: sa.Connection, number: int, ending: Ending) -> None:
    """Save how a job ended."""
    values = {name: getattr(ending, name) for name in Ending.__slots__}
    connection.execute(jobs.update().where(jobs.c.number == number).values(values))


def delete(connection: sa.Connection, number: int) -> None:
    """Delete a job."""
    connection.execute(jobs.delete().where(jobs.c.number == number))


def _rows() -> sa.Select[tuple[object, ...]]:
    return sa.select(*[jobs.c[name] for name in JobRow.__slots__])


def _row(row: sa.Row[tuple[object, ...]]) -> JobRow:
    values = row._asdict()
    return JobRow(**(values | {"arguments": tuple(values["arguments"])}))
