"""Jobs in the catalogue."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from nearsay.indexer.catalogue import jobs
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.jobs import Ending, JobRow, NewJob

ADD = NewJob("add", "Add papers", ["documents", "add", 'é "x"'], "/home", "papers", None, None, "2026-01-01")


def test_a_job_is_read_as_it_was_entered(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        number = jobs.create(connection, ADD)
    with catalogue.reading() as connection:
        assert jobs.find(connection, number) == JobRow(
            number=number,
            kind="add",
            title="Add papers",
            arguments=("documents", "add", 'é "x"'),
            working_folder="/home",
            collection="papers",
            product=None,
            resumes=None,
            state="waiting",
            pid=None,
            host=None,
            created_at="2026-01-01",
            started_at=None,
            ended_at=None,
            exit_code=None,
            message=None,
        )
        assert jobs.find(connection, number + 1) is None


def test_what_becomes_of_a_job_is_entered_in_its_row_alone(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        first, second = jobs.create(connection, ADD), jobs.create(connection, replace(ADD, resumes=1))
        before = jobs.find(connection, first)
        jobs.spawned(connection, second, pid=99, host="here")
        jobs.begun(connection, second, "2026-01-02")
        row = jobs.find(connection, second)
        assert row is not None
        assert (row.pid, row.host, row.state, row.started_at) == (99, "here", "running", "2026-01-02")
        assert row.resumes == 1
        jobs.ended(connection, second, Ending("failed", 1, "no bread", "2026-01-03"))
        row = jobs.find(connection, second)
        assert row is not None
        assert (row.state, row.exit_code, row.message) == ("failed", 1, "no bread")
        assert (row.started_at, row.ended_at) == ("2026-01-02", "2026-01-03")
        assert jobs.find(connection, first) == before


def test_jobs_come_the_newest_first_of_a_state_and_a_collection(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        a, b, c = (jobs.create(connection, replace(ADD, collection=name)) for name in ("x", "y", "x"))
        jobs.begun(connection, b, "2026-01-02")

        def numbers(**more: object) -> list[int]:
            return [row.number for row in jobs.newest(connection, **more)]

        assert numbers() == [c, b, a]
        assert numbers(limit=1) == [c]
        assert numbers(collection="x") == [c, a]
        assert numbers(states=["running"]) == [b]
        assert numbers(states=["running", "waiting"], collection="x") == [c, a]
        assert numbers(states=[]) == []


def test_the_number_of_a_job_that_was_forgotten_is_not_given_again(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        first = jobs.create(connection, ADD)
        jobs.delete(connection, first)
    with catalogue.writing() as connection:
        assert jobs.find(connection, first) is None
        assert jobs.create(connection, ADD) == first + 1


def test_a_state_that_nobody_knows_is_refused(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        number = jobs.create(connection, ADD)
    with pytest.raises(IntegrityError), catalogue.writing() as connection:
        jobs.ended(connection, number, Ending("tired", 0, None, ""))
