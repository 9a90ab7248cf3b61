"""The page Jobs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nearsay.app.jobs import JobKind, JobProgress, Jobs, JobState
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import running_jobs
from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs as rows


def _words(app):
    shown = [*app.markdown, *app.caption, *app.error, *app.info, *app.success, *app.warning, *app.code]
    return "\n".join(each.value for each in shown)


def test_without_jobs_the_page_says_what_will_be_here(page):
    app = page("jobs")
    assert "There are none yet" in app.info[0].value


def test_a_job_that_failed_says_why_and_can_be_resumed(page, record):
    job = record(JobState.FAILED, message="there is no file *x*. Name another", log="reading\nfailed\n")
    app = page("jobs", job=str(job.number))
    assert app.error[0].value == "There is no file \\*x\\*\\. Name another"
    assert [button.label for button in app.button if button.label == "Resume"] == ["Resume"]
    assert "reading\nfailed" in _words(app)


def test_the_error_of_a_job_that_failed_is_said_once(page, record):
    message = "generation 2 is not promoted:\nnDCG 0.1"
    record(JobState.FAILED, kind=JobKind.PROMOTE, message=message, log=f"measured\nError: {message}\n")
    app = page("collections", job="1")
    assert app.error[0].value.startswith("Generation 2 is not promoted")
    assert "measured" in [code.value for code in app.code]


def test_what_a_cancelled_job_has_kept_is_said_once(page, record):
    record(JobState.CANCELLED, kind=JobKind.ADD, log="\nStopped. Whatever was written is kept: go on\n")
    assert _words(page("collections", job="1")).count("kept") == 1


def test_the_page_of_an_improvement_leads_to_where_it_is_applied(page, record):
    record(JobState.DONE, kind=JobKind.IMPROVE, collection="samples")
    assert any("Apply or undo" in link.proto.label for link in page("jobs", job="1").get("page_link"))


def test_while_every_job_is_at_work_nothing_is_said_of_a_list_of_others(page, record):
    record(JobState.RUNNING)
    app = page("jobs")
    assert not app.selectbox
    assert "No job" not in _words(app)


def test_of_very_many_rows_the_page_says_that_it_shows_the_first(page, record):
    output = tuple({"id": f"d{number}"} for number in range(1_001))
    job = record(JobState.DONE, kind=JobKind.OTHER, output=output[:1_000])
    assert "first 1,000 rows" not in _words(page("jobs", job=str(job.number)))
    job = record(JobState.DONE, kind=JobKind.OTHER, output=output)
    app = page("jobs", job=str(job.number))
    assert len(app.dataframe[0].value) == 1_000
    assert "first 1,000 rows" in _words(app)


@pytest.mark.parametrize("asked", ["99", "x", "9999999999"])
def test_an_address_that_names_no_job_leads_to_all(page, record, asked):
    record(JobState.DONE)
    app = page("jobs", job=asked)
    assert "job in the address does not exist" in app.error[0].value
    assert "nearsay" not in app.error[0].value


@pytest.mark.parametrize("name", ["j1", "mine"])
def test_a_name_at_the_beginning_of_an_error_stays_as_it_is(page, record, name):
    job = record(JobState.FAILED, arguments=("train", "--out", name), message=f"{name} holds a job")
    assert page("jobs", job=str(job.number)).error[0].value == f"{name} holds a job"


def test_resume_on_the_page_of_a_job_leads_to_the_one_that_goes_on(page, record, settings, monkeypatch):
    job = record(JobState.CANCELLED)
    following = record(JobState.DONE, resumes=None, title="The next")
    monkeypatch.setattr(Jobs, "resume", lambda jobs, _: jobs.get(following.number))
    app = page("jobs", job=str(job.number))
    next(each for each in app.button if each.label == "Resume").click().run()
    assert not app.error
    assert "**The next**" in _words(app)
    assert app.query_params["job"] in (str(following.number), [str(following.number)])  # by Streamlit's age


def test_a_job_at_work_shows_its_progress_and_can_be_cancelled(page, record, settings):
    look = JobProgress("training", "steps", 10, 40, 0.25, 2.0, 5.0, 15.0)
    job = record(JobState.RUNNING, progress=look, log="one\ntwo\n")
    app = page("jobs", job=str(job.number))
    (cancel,) = [button for button in app.button if button.label == "Cancel"]
    cancel.click().run()
    assert not app.error
    with Library.open(settings.library) as library:
        assert Jobs(library).get(job.number).stopping
    app = page("jobs", job=str(job.number))
    assert [button.label for button in app.button if "Stop" in button.label] == ["Stop at once"]


def test_progress_that_the_log_also_has_is_said_once(page, record):
    look = JobProgress("training", "steps", 10, 40, 0.25, 2.0, 5.0, 15.0)
    record(JobState.RUNNING, progress=look, log=f"one\n{look.words()}\n")
    app = page("jobs")
    assert "one" in [each.value for each in app.code]
    assert not any(look.words() in each.value for each in app.code)


def test_nothing_can_be_cancelled_or_removed_where_the_page_only_reads(page, record, settings):
    running = record(JobState.RUNNING)
    done = record(JobState.CANCELLED)
    for job in (running, done):
        app = page("jobs", settings=replace(settings, read_only=True), job=str(job.number))
        assert not app.button
        assert not app.code


def test_the_list_is_filtered_by_state_kind_and_collection(page, record):
    record(JobState.DONE, title="Fine-tune it")
    record(JobState.FAILED, kind=JobKind.ADD, title="Add papers", collection="samples", message="no")
    app = page("jobs")
    assert "job 1 · fine-tuning" in _words(app)
    assert "job 2 · adding · samples" in _words(app)
    app.selectbox(key="jobs_state").select("failed").run()
    assert "job 1 ·" not in _words(app)
    app.selectbox(key="jobs_state").select("any").run()
    app.checkbox(key="jobs_own").check().run()
    assert "job 2 · adding" in _words(app)
    assert "job 1 ·" not in _words(app)


def test_the_result_of_a_training_stands_with_its_curves(page, record, settings):
    change = {
        "set": "pairs",
        "kind": "sts",
        "figure": "spearman",
        "items": 9,
        "before": 70.0,
        "after": 75.0,
        "difference_low": 1.0,
        "difference_high": 9.0,
        "verdict": "better",
    }
    told = {"report": "trained", "folder": "mine", "facts": {"steps": 4}, "evaluations": [change]}
    job = record(output=(told,))
    place = Path(settings.library, "mine", "run", "metrics.jsonl")
    place.parent.mkdir(parents=True)
    place.write_text("".join(json.dumps({"step": n, "loss": 1.0 / n}) + "\n" for n in (1, 2)), "utf-8")
    app = page("jobs", job=str(job.number))
    table = app.dataframe[0].value
    assert list(table["after"]) == ["75.00"]
    assert list(table["95 % interval"]) == ["+1 to +9"]
    assert "**Loss**" in _words(app)


def test_a_job_that_was_resumed_points_to_the_one_that_goes_on(page, record):
    first = record(JobState.CANCELLED)
    second = record(JobState.RUNNING, resumes=first.number)
    app = page("jobs", job=str(first.number))
    assert "Resume" not in [button.label for button in app.button]
    assert f"job {second.number}" not in _words(app)  # this page shows the one that was asked for


@pytest.mark.parametrize(
    ("where", "kept", "kind"),
    [
        ("training", "training_job", JobKind.SENTENCE),
        ("encoders", "encoders_job", JobKind.EVALUATE),
        ("collections", "", JobKind.ADD),
    ],
)
def test_what_was_started_on_a_page_and_resumed_is_shown_there_once(page, record, where, kept, kind):
    first = record(JobState.CANCELLED, kind=kind)
    second = record(JobState.RUNNING, kind=kind, resumes=first.number)
    app = page(where, state={kept: first.number}) if kept else page(where, job=str(first.number))
    assert not app.error
    assert [each.value for each in app.caption].count(f"job {second.number}") == 1
    assert [button.label for button in app.button].count("Cancel") == 1


@pytest.mark.parametrize(("where", "kind"), [("training", JobKind.PRETRAIN), ("encoders", JobKind.EVALUATE)])
def test_who_comes_while_a_job_is_at_work_sees_how_it_ended(page, record, settings, where, kind):
    job = record(JobState.RUNNING, kind=kind)
    app = page(where)
    with Library.open(settings.library) as library, library.store.database.writing() as connection:
        over = "2026-01-02T03:05:25.000+00:00"
        rows.ended(connection, job.number, rows.Ending(JobState.CANCELLED, 130, None, over))
    app.run()
    assert "Cancelled" in app.info[0].value
    assert {"Resume", "Dismiss"} <= {button.label for button in app.button}


def test_a_job_is_removed_after_a_second_thought(page, record, settings):
    job = record(JobState.DONE)
    app = page("jobs", job=str(job.number))
    app.button(key=f"jobs_remove-{job.number}").click().run()
    with Library.open(settings.library) as library:
        assert Jobs(library).list() == []


def test_an_address_that_names_no_job_is_told(page, record):
    record()
    for asked in ("seven", "99", "9" * 30):
        app = page("jobs", job=asked)
        assert app.error


def test_a_title_is_text_and_no_markdown(page, record):
    record(JobState.RUNNING, title="![x](http://elsewhere/x.png) <b>")
    shown = _words(page("jobs"))
    assert "![x]" not in shown
    assert "\\!\\[x\\]" in shown


def test_a_job_at_work_is_found_behind_many_that_ended(record, settings):
    at_work = record(JobState.RUNNING)
    for _ in range(60):
        record()
    with Library.open(settings.library, device="cpu") as library:
        assert [job.number for job in running_jobs(Visit(settings, library, None))] == [at_work.number]


def test_a_job_that_failed_names_the_page_and_no_command(page, record):
    record(JobState.FAILED, message="'x' waits.\nMend it: nearsay index rebuild x --library /home/me/own")
    app = page("jobs", job="1")
    assert (
        app.error[0].value.replace("\\", "")
        == "'x' waits. Mend it on the page Collections, under Generations"
    )


def test_a_job_at_work_that_gives_no_progress_is_not_said_to_begin(page, record):
    record(JobState.RUNNING)
    captions = [each.value for each in page("jobs", job="1").caption]
    assert "Running …" in captions
    assert "Starting …" not in captions


@pytest.mark.long
def test_a_long_title_is_read_whole_on_a_phone(visitors, record):
    record(title="explore clusters notes --method kmeans --clusters 64 and more")
    visitor = visitors(width=500)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    visitor.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    visitor.goes_to("jobs")
    visitor.sees("64 and more")
    title = "[...document.querySelectorAll('[data-testid=stMain] [data-testid=stPageLink] a *')]"
    inside = "each => [each.getBoundingClientRect().right, each.closest('a').getBoundingClientRect().right]"
    places = visitor.finds(f"{title}.filter(each => each.childElementCount == 0).map({inside})")
    assert places
    assert all(word <= link + 1 for word, link in places)
    clipped = f"{title}.some(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth)"
    assert not visitor.browser.execute_script(f"return {clipped}")


@pytest.mark.long
def test_a_job_of_the_list_stands_in_the_address_and_back_leads_to_the_list(visitor, record):
    job = record(title="Cluster the notes")
    visitor.goes_to("jobs?collection=samples")
    visitor.presses("Cluster the notes")
    visitor.sees("All jobs")
    visitor.is_at(f"jobs?collection=samples&job={job.number}")
    visitor.is_still()
    visitor.finds("history.back() || true")
    visitor.sees("State")
    visitor.finds("location.search === '?collection=samples'")


@pytest.mark.long
def test_one_press_of_back_leads_from_a_job_to_the_page_that_started_it(visitor):
    visitor.goes_to("judge?collection=samples")
    visitor.unfolds("Improve the search from judgements")
    visitor.presses("Improve")
    visitor.sees("All jobs")
    visitor.is_still()
    visitor.finds("history.back() || true")
    visitor.is_at("/judge?collection=samples")
    assert "job=" not in visitor.browser.current_url
