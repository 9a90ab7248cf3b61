"""`nearsay jobs`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import jobs as commands
from nearsay.app.cli import main
from nearsay.app.jobs import Jobs, JobState
from nearsay.app.jobs.job_folder import JobProgress
from nearsay.data.faults import Fault
from nearsay.data.report import Done
from nearsay.indexer import Library
from nearsay.indexer.writing.ingest import AddReport

Spawned = Any  # of conftest
Nearsay = Callable[..., Result]


@pytest.fixture
def nearsay(library: Library, spawned: Spawned) -> Nearsay:
    """Gives `nearsay jobs …` in the test's library; what is started has no process."""

    def give(name: str, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["jobs", name, "--library", str(library.store.folder), *arguments])

    return give


def test_every_state_can_be_asked_for() -> None:
    assert [*JobState] == commands._STATES


def test_a_command_is_started_with_its_own_options(nearsay: Nearsay, jobs: Jobs) -> None:
    done = nearsay("start", "--title", "Hello", "scripted", "say", "--device", "cpu", "--out", "x", "--json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [Naming("job 1 is waiting", "nearsay jobs show 1")]
    job = jobs.get(1)
    assert job.arguments == ("scripted", "say", "--device", "cpu", "--out", "x", "--json")
    assert (job.title, job.product) == ("Hello", str(Path.cwd() / "x"))


def test_jobs_are_listed_with_how_far_they_are(nearsay: Nearsay, jobs: Jobs, spawned: Spawned) -> None:
    for title in ("One", "Two", "Three"):
        nearsay("start", "--title", title, "scripted", "say")
    spawned.begin(1)
    spawned.end(1)
    spawned.begin(2)
    jobs.get(2).folder.write_progress(JobProgress("saying", "words", 300, 1200, 0.25, 10.0, 30.0, 90.0))
    jobs.cancel(2)
    lines = nearsay("list").stdout.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["3", "waiting", "Three"],
        ["2", "running", "Two"],
        ["1", "done", "One"],
    ]
    assert lines[2] == Naming("300 of about 1,200 words (25%)", "1 min 30 s", "stopping")
    assert lines[3].endswith("3 min")
    assert ["2026-01-01T10:00" in line for line in lines[1:]] == [False, True, True]  # when its turn came
    (row,) = (
        json.loads(line) for line in nearsay("list", "--state", "running", "--json").stdout.splitlines()
    )
    assert (row["number"], row["state"], row["progress"]["share"]) == (2, "running", 0.25)


def test_a_job_is_shown_with_the_end_of_its_log_or_what_it_printed(
    nearsay: Nearsay, jobs: Jobs, spawned: Spawned
) -> None:
    nearsay("start", "scripted", "say")
    folder = jobs.get(1).folder
    folder.log_file.write_text("one\ntwo\x1b[2J\n")
    folder.output_file.write_text('{"a": 1}\nplain\x1b[2J\n')
    spawned.end(1, "failed", "no bread")
    shown = nearsay("show", "1", "--log", "1")
    assert "no bread" in shown.stdout
    assert f"nearsay scripted say --library {folder.library}" in shown.stdout
    assert shown.stdout.splitlines()[-3:] == ["   result", "a       1", "plain [2J"]
    assert shown.stderr == "two [2J\n"
    assert nearsay("show", "1", "--all").stdout == "   result\na       1\nplain [2J\n"
    assert nearsay("show", "1", "--all", "--json").stdout == '{"a": 1}\nplain [2J\n'
    facts = json.loads(nearsay("show", "1", "--json").stdout)
    assert (facts["state"], facts["message"], len(facts["log"])) == ("failed", "no bread", 2)


def test_an_addition_that_is_done_says_what_the_command_would_have_said(
    nearsay: Nearsay, jobs: Jobs, spawned: Spawned
) -> None:
    nearsay("start", "documents", "add", "papers", "papers.jsonl")
    fault = Fault("papers.jsonl", 3, "not JSON")
    report = AddReport(
        1, 0, 0, 74, 0, 1, 0, 0, 1, (fault,), ("text = 'abstract' (guessed)",), collection="papers"
    )
    jobs.get(1).folder.output_file.write_text(json.dumps(report.to_json()) + "\n")
    spawned.end(1)
    wanted = [
        "text = 'abstract' (guessed)",
        "skipped papers.jsonl:3: not JSON",
        "papers: 1 added, 74 unchanged, 1 skipped; 1 passage embedded",
    ]
    assert nearsay("show", "1").stdout.splitlines()[-3:] == wanted
    assert nearsay("show", "1", "--all").stdout.splitlines() == wanted


def test_an_addition_that_an_earlier_version_stored_without_a_kind_is_shown_as_a_table(
    nearsay: Nearsay, jobs: Jobs, spawned: Spawned
) -> None:
    nearsay("start", "documents", "add", "papers", "papers.jsonl")
    stored = AddReport(1, 0, 0, 74, 0, 1, 0, 0, 1, (), ()).to_json()
    assert stored.pop("report") == "added"
    jobs.get(1).folder.output_file.write_text(json.dumps(stored) + "\n")
    spawned.end(1)
    shown = [line.split() for line in nearsay("show", "1", "--all").stdout.splitlines()]
    assert shown[0] == ["result"]
    assert ["unchanged", "74"] in shown


def test_nothing_is_counted_before_the_first_is_done(nearsay: Nearsay, jobs: Jobs, spawned: Spawned) -> None:
    nearsay("start", "scripted", "say")
    spawned.begin(1)
    jobs.get(1).folder.write_progress(JobProgress("preparing", "steps", 0, None, None, None, 0.0, None))
    assert nearsay("show", "1").stdout.endswith("\npreparing …\n")


def test_many_rows_are_a_table_of_the_first_and_the_rest_is_named(
    nearsay: Nearsay, jobs: Jobs, spawned: Spawned
) -> None:
    nearsay("start", "scripted", "say")
    rows = [{"text_id": f"t{i}", "score": 0.12345678, "text": "long " * 40} for i in range(25)]
    jobs.get(1).folder.output_file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    spawned.end(1)
    *_, last, more = nearsay("show", "1").stdout.splitlines()
    assert last.split()[:3] == ["t19", "0.1235", "long"]
    assert last.endswith("…")
    assert more == Naming("all rows", "nearsay jobs show 1 --all")
    head, *whole = nearsay("show", "1", "--all").stdout.splitlines()
    assert (head.split(), len(whole)) == (["text", "id", "score", "text"], 25)
    assert whole[-1].split() == ["t24", "0.1235", *["long"] * 40]


def test_long_jobs_are_told_in_seconds_and_numbers_that_name_something_as_they_are(
    nearsay: Nearsay, jobs: Jobs, spawned: Spawned
) -> None:
    nearsay("start", "scripted", "say")
    jobs.get(1).folder.output_file.write_text('{"passage": 20190308, "seconds": 12345.6, "venues": ["é"]}')
    spawned.end(1)
    lines = nearsay("show", "1", "--all").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["passage", "20190308"],
        ["seconds", "12,346"],
        ["venues", '["é"]'],
    ]


def test_numbers_that_name_something_have_no_separators(
    nearsay: Nearsay, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    nearsay("start", "scripted", "say")
    job = replace(jobs.get(1), number=12_345, pid=12_053)
    monkeypatch.setattr(Jobs, "get", lambda *_: job)
    lines = nearsay("show", "12345").stdout.splitlines()
    assert [line.split() for line in lines if line.startswith(("number", "pid"))] == [
        ["number", "12345"],
        ["pid", "12053"],
    ]


def test_a_job_is_cancelled_resumed_and_removed(nearsay: Nearsay, jobs: Jobs, spawned: Spawned) -> None:
    nearsay("start", "scripted", "say")
    assert "job 1 was asked to stop" in nearsay("cancel", "1").stderr
    assert json.loads(nearsay("cancel", "1", "--json").stdout)["number"] == 1
    refused = nearsay("remove", "1", "--yes")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    spawned.die(1)
    assert nearsay("resume", "1").stderr.splitlines() == [Naming("job 2 is waiting", "nearsay jobs show 2")]
    assert nearsay("remove", "1").stderr == Naming("would remove", "1 (")
    assert "would remove" in nearsay("remove", "1", "--dry-run").stderr
    assert nearsay("remove", "1", "2", "--yes").stderr == Naming("job 2 is still")
    assert [job.number for job in jobs.list()] == [2, 1]
    removed = nearsay("remove", "1", "1", "--yes", "--json")
    assert json.loads(removed.stdout) == Done("removed", "jobs", 1).to_json()
    assert [job.number for job in jobs.list()] == [2]
    assert nearsay("show", "1").stderr == Naming("Error", "no job 1")


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("failed", 1)])
def test_waiting_ends_with_the_jobs_exit_status(
    nearsay: Nearsay, spawned: Spawned, monkeypatch: pytest.MonkeyPatch, state: str, code: int
) -> None:
    monkeypatch.setattr("nearsay.app.jobs.jobs.wait_until_free", lambda _: spawned.end(1, state, "so"))
    done = nearsay("start", "--wait", "scripted", "say")
    assert done.exit_code == code
    assert done.stderr.splitlines() == [Naming("job 1", state, "so", "nearsay jobs show 1")]


@pytest.mark.long
def test_who_waits_no_more_leaves_the_job_going_on(
    nearsay: Nearsay, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearsay.app.jobs.jobs.wait_until_free", interrupted)
    done = nearsay("start", "--wait", "scripted", "say")
    assert done.exit_code == 130
    assert done.stderr.splitlines() == ["", Naming("job 1 is still running", "nearsay jobs cancel 1")]
    assert not jobs.get(1).stopping


def test_a_library_is_made_for_the_first_job(tmp_path: Path, spawned: Spawned) -> None:
    place = tmp_path / "new"
    done = CliRunner().invoke(main, ["jobs", "start", "--library", str(place), "scripted", "say"])
    assert (done.exit_code, (place / "library.json").exists()) == (0, True)
    assert CliRunner().invoke(main, ["jobs", "list", "--library", str(tmp_path / "no")]).exit_code == 1
