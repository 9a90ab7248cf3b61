"""Runs in the catalogue: what was asked for, and how it ended.

A state is text here: what one means, and whether a run that should be alive is, `nearsay.app.runs` knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.tables import runs

__all__ = ["Ending", "NewRun", "RunRow", "begun", "create", "delete", "ended", "find", "newest", "spawned"]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is asked for."""

    kind: str
    title: str
    arguments: Sequence[str]  # what stands behind `nearsay` on the command line
    working_folder: str  # where names of files in the arguments begin
    collection: str | None
    product: str | None
    resumes: int | None  # the number of the run that this one goes on with
    created_at: str
    subject: Mapping[str, JsonValue] | None = None  # its command and the values that decide what it finds


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    state: str
    exit_code: int | None
    message: str | None  # why it failed
    ended_at: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the catalogue has it at one moment."""

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
    subject: Mapping[str, JsonValue] | None = None  # None: it was started by an older version


def create(connection: sa.Connection, new: NewRun) -> int:
    """Enter a run that waits for its turn; its number, which no other run gets."""
    values = {name: getattr(new, name) for name in NewRun.__slots__}
    values |= {"arguments": list(new.arguments), "state": "waiting"}
    return int(connection.execute(runs.insert().values(values).returning(runs.c.number)).scalar_one())


def find(connection: sa.Connection, number: int) -> RunRow | None:
    """The run of that number, if there is one."""
    row = connection.execute(_rows().where(runs.c.number == number)).one_or_none()
    return None if row is None else _row(row)


def newest(
    connection: sa.Connection,
    *,
    states: Sequence[str] | None = None,
    collection: str | None = None,
    limit: int | None = None,
) -> list[RunRow]:
    """The runs, the newest first; states, collection: only those; limit: at most so many."""
    statement = _rows().order_by(runs.c.number.desc())
    if states is not None:
        statement = statement.where(runs.c.state.in_(states))
    if collection is not None:
        statement = statement.where(runs.c.collection == collection)
    if limit is not None:
        statement = statement.limit(limit)
    return [_row(row) for row in connection.execute(statement)]


def spawned(connection: sa.Connection, number: int, *, pid: int, host: str) -> None:
    """Enter the process of a run."""
    connection.execute(runs.update().where(runs.c.number == number).values(pid=pid, host=host))


def begun(connection: sa.Connection, number: int, at: str) -> None:
    """A run's turn has come."""
    connection.execute(runs.update().where(runs.c.number == number).values(state="running", started_at=at))


def ended(connection: sa.Connection, number: int, ending: Ending) -> None:
    """A run has ended."""
    values = {name: getattr(ending, name) for name in Ending.__slots__}
    connection.execute(runs.update().where(runs.c.number == number).values(values))


def delete(connection: sa.Connection, number: int) -> None:
    """Forget a run."""
    connection.execute(runs.delete().where(runs.c.number == number))


def _rows() -> sa.Select[tuple[object, ...]]:
    return sa.select(*[runs.c[name] for name in RunRow.__slots__])


def _row(row: sa.Row[tuple[object, ...]]) -> RunRow:
    values = row._asdict()
    return RunRow(**(values | {"arguments": tuple(values["arguments"])}))
