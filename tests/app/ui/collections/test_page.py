"""The page Collections over a real library, without a browser."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.jobs import JobKind, Jobs, JobState
from nearsay.app.jobs.command_line import checked
from nearsay.app.ui.collections import at_work
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.uploads import Uploads
from nearsay.indexer import Library
from nearsay.indexer.catalogue.tables import documents

Page = Callable[..., AppTest]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the page starts, each one that can be a job; none is really begun."""
    commands: list[list[str]] = []

    def start(jobs: Jobs, kind: JobKind, arguments: list[str], **said: object) -> object:
        checked(arguments)
        commands.append(list(arguments))
        return SimpleNamespace(number=7)

    monkeypatch.setattr(Jobs, "start", start)
    return commands


def _said(app: AppTest) -> str:
    kinds = (app.markdown, app.caption, app.subheader, app.success, app.info, app.warning, app.error)
    return "\n".join(element.value for kind in kinds for element in kind).replace("\\", "")


def _press(app: AppTest, label: str) -> AppTest:
    (button,) = [button for button in app.button if button.label.replace("\\", "").startswith(label)]
    button.click().run()
    assert not app.exception
    return app


def _library(settings: Settings) -> Library:
    return Library.open(settings.library, create=False)


@pytest.mark.long
def test_a_card_tells_what_a_collection_holds(page: Page) -> None:
    said = _said(page("collections"))
    assert "**160 documents**, 160 passages" in said
    assert "Encoder: all-MiniLM-L6-v2, 384 dimensions" in said
    assert "Fields: date, kind, level, subject" in said


def test_documents_are_turned_page_by_page(page: Page) -> None:
    app = page("collections", see="Documents")
    assert "160 documents." in _said(app)
    first = app.dataframe[0].value["id"].tolist()
    _press(app, "Next")
    second = app.dataframe[0].value["id"].tolist()
    assert len(first) == len(second) == 50
    assert not set(first) & set(second)
    _press(app, "Previous")
    assert app.dataframe[0].value["id"].tolist() == first


def test_a_tick_is_of_its_document_and_not_of_the_one_that_moves_up(page: Page, settings: Settings) -> None:
    app = page("collections", see="Documents")
    shown = app.dataframe[0].value["id"].tolist()
    (key,) = re.findall(r"'(docs-samples[^']*)'", str(app.session_state))
    app.session_state[key] = {"selection": {"rows": [2], "columns": [], "cells": []}}
    app.run()
    assert app.code[0].value == shown[2]
    with _library(settings) as library:
        library.collection("samples").remove([shown[2]])
    app.run()
    assert app.dataframe[0].value["id"].tolist()[:3] == [*shown[:2], shown[3]]
    assert not app.code
    assert not [button for button in app.button if button.label.startswith("Delete 1 document")]


def test_a_filter_and_words_find_documents(page: Page) -> None:
    app = page("collections", see="Documents", docs_where="subject = 'cooking'")
    count = len(app.dataframe[0].value)
    assert f"{count} documents match the filter." in _said(app)
    assert all('"cooking"' in row for row in app.dataframe[0].value["metadata"])
    found = page("collections", see="Documents", docs_find="oking-").dataframe[0].value["id"].tolist()
    assert found
    assert all("oking-" in id_ for id_ in found)


def test_a_filter_that_cannot_be_read_is_told(page: Page) -> None:
    app = page("collections", see="Documents", docs_where="subject = = 3")
    assert "column 11" in _said(app)


def test_an_edited_document_is_kept_and_found_by_its_new_words(page: Page, settings: Settings) -> None:
    with _library(settings) as library:
        id_ = next(library.collection("samples").documents()).id
    app = page("collections", see="Documents", doc=id_)
    (text,) = [area for area in app.text_area if area.label == "Text"][:1]
    text.input("A zeppelin moored above the lighthouse.")
    _press(app, "Save")
    with _library(settings) as library:
        samples = library.collection("samples")
        assert samples.document(id_).text == "A zeppelin moored above the lighthouse."
        assert samples.search("zeppelin", k=1, mode="lexical")[0].id == id_
        assert samples.overview().documents == 160


def test_metadata_that_is_no_json_changes_nothing(page: Page, settings: Settings) -> None:
    with _library(settings) as library:
        before = next(library.collection("samples").documents())
    app = page("collections", see="Documents", doc=before.id)
    (metadata,) = [area for area in app.text_area if area.label == "Metadata"][:1]
    metadata.input('{"year": ')
    _press(app, "Save")
    assert "The metadata is not valid JSON" in _said(app)
    with _library(settings) as library:
        assert library.collection("samples").document(before.id) == before


def test_a_document_that_is_gone_is_told(page: Page) -> None:
    assert "has no document 'gone'" in _said(page("collections", see="Documents", doc="gone"))


def _asking() -> None:
    """AppTest draws a dialog only while the button is pressed: here it is drawn each time."""
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.removing import ask_to_remove
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings.from_environment()
    ask_to_remove(Visit(settings, opened(settings), "samples"), where="subject = 'cooking'")


def test_deleting_names_the_number_first(page: Page, settings: Settings) -> None:
    with _library(settings) as library:
        count = library.collection("samples").browser.count("subject = 'cooking'")
    app = page("collections", see="Documents", docs_where="subject = 'cooking'")
    _press(app, "Delete all that match")
    assert f"Removed with all passages: **{count} documents**" in _said(app)
    app = AppTest.from_function(_asking, default_timeout=60).run()
    _press(app, "Remove")
    with _library(settings) as library:
        assert library.collection("samples").overview().documents == 160 - count


def test_generations_are_shown_with_their_plan(page: Page) -> None:
    app = page("collections", see="Generations")
    table = app.dataframe[0].value
    assert table["state"].tolist() == ["● live"]
    assert table["plan"].tolist() == ["exact"]
    assert "Every vector is compared" in _said(app)


@pytest.mark.long
def test_upkeep_is_started_as_a_command(page: Page, started: list[list[str]]) -> None:
    _press(page("collections", see="Generations"), "Index")
    app = page("collections", see="Generations")
    app.checkbox(key="optimize-newer-samples").check()
    _press(app, "Index")
    _press(page("collections", see="Generations"), "Compact")
    _press(page("collections", see="Generations"), "Repair")
    _press(page("collections", see="Generations"), "Measure and choose")
    assert started == [
        ["index", "optimize", "--", "samples"],
        ["index", "optimize", "--newer", "--", "samples"],
        ["index", "compact", "--", "samples"],
        ["index", "rebuild", "--", "samples"],
        ["index", "tune", "--recall", "0.95@10", "--memory", "none", "--", "samples"],
    ]


def test_a_collection_is_deleted_only_by_its_name(page: Page, started: list[list[str]]) -> None:
    app = page("collections", see="Generations")
    (name,) = [field for field in app.text_input if field.label.startswith("Type its name")]
    name.input("sample")
    _press(app, "Delete the collection")
    assert "nothing was deleted" in _said(app)
    assert started == []
    (name,) = [field for field in app.text_input if field.label.startswith("Type its name")]
    name.input("samples")
    _press(app, "Delete the collection")
    assert started == [["collections", "remove", "--yes", "--", "samples"]]


def test_the_doctor_is_asked_in_the_background(page: Page, started: list[list[str]]) -> None:
    _press(page("collections", see="Health"), "Run the doctor")
    assert started == [["doctor"]]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with rows in it."""
    folder = tmp_path / "rows"
    folder.mkdir()
    lines = [
        json.dumps({"key": f"r{at}", "body": f"The pump failed {at} times.", "n": at}) for at in range(9)
    ]
    (folder / "reports.jsonl").write_text("\n".join(lines), "utf-8")
    return folder


def test_a_folder_is_looked_at_and_added(page: Page, started: list[list[str]], rows: Path) -> None:
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "pumps"})
    app.text_input(key="add_folder").input(str(rows)).run()
    assert "1 file, 521 bytes: 1 jsonl" in _said(app)
    assert app.dataframe[0].value["text"][0] == "The pump failed 0 times."
    longest = app.number_input(key="add_tokens")  # what the encoder reads: no number is known yet
    assert (longest.value, longest.placeholder) == (None, "the encoder's limit")
    _press(app, "Add rows to pumps")
    assert started == [["documents", "add", "--", "pumps", str(rows)]]


def test_a_table_that_was_not_looked_at_is_read_by_its_own_fields(
    page: Page, started: list[list[str]], rows: Path
) -> None:
    for at in range(8):  # as many files as are opened, before the last table
        (rows / f"a{at}.txt").write_text("A pump hums.", "utf-8")
    (rows / "tickets.jsonl").write_text('{"id": 1, "message": "The hall is flooded again."}', "utf-8")
    (rows / "a.html").write_text("<nav>Home</nav><main><p>All about pumps.</p></main>", "utf-8")
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "pumps"})
    app.text_input(key="add_folder").input(str(rows)).run()
    (text,) = [box for box in app.selectbox if box.label == "Text"]
    assert text.value == "body"
    assert "the main part of the page is taken" in _said(app)
    assert "--" not in _said(app)
    _press(app, "Add rows to pumps")
    assert started == [["documents", "add", "--", "pumps", str(rows)]]


def test_another_field_that_was_chosen_is_given_with_the_others(
    page: Page, started: list[list[str]], rows: Path
) -> None:
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "pumps"})
    app.text_input(key="add_folder").input(str(rows)).run()
    (metadata,) = [box for box in app.multiselect if box.label == "Metadata"]
    metadata.set_value([]).run()
    _press(app, "Add rows to pumps")
    fields = ["--text", "body", "--id", "key", "--metadata", ""]
    assert started == [["documents", "add", *fields, "--", "pumps", str(rows)]]


@pytest.mark.parametrize(
    ("name", "said"),
    [("no/name", "not a name"), ("samples", "the collection 'samples' already exists")],
)
def test_a_name_is_checked_before_anything_is_done(page: Page, name: str, said: str) -> None:
    app = page("collections", see="Add", state={"add_name": name})
    assert said.lower() in _said(app).lower()


def test_a_name_that_cannot_be_takes_nothing_of_the_form_away(page: Page, rows: Path) -> None:
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "pumps"})
    app.text_input(key="add_folder").input(str(rows)).run()
    app.text_input(key="add_name").input("my pumps").run()
    assert "'my pumps' is not a name" in _said(app)
    assert app.text_input(key="add_folder").value == str(rows)
    assert app.button(key="add-start").disabled
    assert "Name the collection first." not in _said(app)
    app.text_input(key="add_name").input("").run()
    assert app.button(key="add-start").disabled
    assert "Name the collection first." in _said(app)
    app.text_input(key="add_name").input("my-pumps").run()
    assert not app.error
    assert app.button(key="add-start").label.replace("\\", "") == "Add rows to my-pumps"


def test_rows_that_cannot_be_used_are_told_or_counted_by_file(page: Page, tmp_path: Path) -> None:
    for name in ("a", "b"):
        lines = ['{"text": "good"}', *["no row"] * 4]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "mine"})
    app.text_input(key="add_folder").input(str(tmp_path)).run()
    assert _said(app).count("Cannot be used: ") == 5
    in_files = f"{tmp_path / 'a.jsonl'} (1), {tmp_path / 'b.jsonl'} (2)"  # one file's rows hide no other's
    last = f"3 more rows of this preview cannot be used, in {in_files}."
    assert app.warning[-1].value.replace("\\", "") == last


@pytest.mark.long
def test_files_in_another_encoding_are_added_as_what_is_chosen(
    page: Page, started: list[list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "menu.csv"
    file.write_bytes("text;größe\nDer Käse reift im kühlen Keller.;klein\n".encode("cp1252"))
    app = page("collections", see="Add", add_from="A folder", state={"add_name": "menu"})
    app.text_input(key="add_folder").input(str(file)).run()
    assert "menu.csv: read as cp1252" in _said(app)
    assert app.dataframe[0].value["text"].tolist() == ["Der Käse reift im kühlen Keller."]
    (encoding,) = [box for box in app.selectbox if box.label == "Encoding"]
    assert encoding.value is None
    encoding.select("cp1252").run()
    assert not app.warning
    assert app.dataframe[0].value["text"].tolist() == ["Der Käse reift im kühlen Keller."]
    assert "größe" in app.dataframe[0].value["metadata"][0]
    _press(app, "Add menu.csv to menu")
    assert started[0][:4] == ["documents", "add", "--encoding", "cp1252"]


@pytest.mark.long
def test_who_comes_while_it_is_at_work_sees_how_it_ended(
    page: Page, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _library(settings) as library:
        jobs = Jobs(library)
        job = jobs.wait(jobs.start(JobKind.OTHER, ["collections", "list"], title="Look").number)
    with monkeypatch.context() as while_at_work:
        while_at_work.setattr(at_work, "running_jobs", lambda _: [job])
        app = page("collections")
    app.run()
    assert app.query_params["job"] == str(job.number)
    assert "Done in" in _said(app)


@pytest.mark.long
def test_a_job_that_ends_while_the_page_looks_is_shown_to_its_end(
    page: Page, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _library(settings) as library:
        jobs = Jobs(library)
        job = jobs.wait(jobs.start(JobKind.DEMO, ["collections", "list"], collection="samples").number)
    looks = iter([[replace(job, state=JobState.RUNNING)]])
    monkeypatch.setattr(at_work, "running_jobs", lambda _: next(looks, []))
    app = page("collections")
    assert "Done in" in _said(app)
    assert "samples is ready to search" in _said(app)


def test_a_folder_that_is_not_there_is_told(page: Page) -> None:
    app = page(
        "collections", see="Add", add_from="A folder", state={"add_name": "x", "add_folder": "/no/such"}
    )
    assert "/no/such does not exist" in _said(app)


def test_uploads_are_checked_by_content_and_kept(page: Page, settings: Settings) -> None:
    app = page("collections", see="Add", state={"add_name": "mine"})
    app.file_uploader[0].upload("good.txt", b"One line.\nTwo.").upload("bad.pdf", b"no pdf").run()
    assert _said(app) == Naming("bad.pdf", "PDF", "text")
    assert app.dataframe[0].value["text"].tolist() == ["One line.", "Two."]
    (kept,) = (Path(settings.library) / "uploads").rglob("*.txt")
    assert kept.read_bytes() == b"One line.\nTwo."


@pytest.mark.long
def test_what_was_indexed_is_cleared_at_the_next_visit(page: Page, settings: Settings) -> None:
    with _library(settings) as library:
        uploads = Uploads(library.store.folder)
        place = uploads.keep([("a.txt", io.BytesIO(b"A line of text."))])
        jobs = Jobs(library)
        arguments = ["documents", "add", "--relative-to", str(place), "--", "mine", str(place / "a.txt")]
        job = jobs.wait(jobs.start(JobKind.ADD, arguments, collection="mine").number)
        assert job.message is None
    app = page("collections", job=str(job.number))
    assert not place.exists()
    assert "mine: 1 added; 1 passage embedded" in _said(app)
    assert "mine is ready to search" in _said(app)
    labels = {button.label for button in app.button}
    assert {"Browse its documents", "See its topics", "Close"} <= labels
    with _library(settings) as library:
        assert next(library.collection("mine").documents()).source == "a.txt"


@pytest.mark.long
def test_nothing_that_changes_is_offered_to_who_may_only_read(page: Page, settings: Settings) -> None:
    reading = replace(settings, read_only=True)
    for part in ("Overview", "Documents", "Generations"):
        app = page("collections", settings=reading, see=part)
        labels = " ".join(button.label for button in app.button)
        assert not {"Add", "Delete", "Index", "Compact", "Rebuild", "Mend", "Ask"} & set(labels.split())
    app = page("collections", settings=reading, see="Add")
    assert not app.file_uploader


@pytest.mark.parametrize("number", ["x", "99", "9" * 40])
def test_a_job_that_is_not_there_is_passed_over(page: Page, number: str) -> None:
    assert "**160 documents**" in _said(page("collections", job=number))


@pytest.mark.long
def test_what_was_written_of_a_document_that_changed_meanwhile_is_kept_and_not_saved(
    page: Page, settings: Settings
) -> None:
    earlier = {"id": "n", "text": "The lamp is lit at six."}
    with _library(settings) as library:
        notes = library.collection("notes")
        notes.add_rows([earlier])
        row = notes.document("n")
    app = page("collections", see="Documents", doc="n", state={"chosen_collection": "notes"})
    (text,) = [area for area in app.text_area if area.label == "Text"][:1]
    text.input("The lamp is lit at seven.")
    with _library(settings) as library:
        _changed_later(library, row.updated_at)
    _press(app, "Save")
    assert "Somebody changed this document" in _said(app)
    with _library(settings) as library:
        assert library.collection("notes").document("n").text == "The lamp is lit at noon."
    (text,) = [area for area in app.text_area if area.label == "Text"][:1]
    assert text.value == "The lamp is lit at seven."
    _press(app, "Save")
    with _library(settings) as library:
        assert library.collection("notes").document("n").text == "The lamp is lit at seven."


def _changed_later(library: Library, before: str) -> None:
    """Write another text into the document, as if a while had passed: moments are kept to the second."""
    library.collection("notes").add_rows([{"id": "n", "text": "The lamp is lit at noon."}])
    with library.store.database.writing() as connection:
        later = f"2{before[1:3]}9{before[4:]}"
        connection.execute(documents.update().where(documents.c.id == "n").values(updated_at=later))


def test_a_contract_that_asks_for_little_has_its_form(page: Page, settings: Settings) -> None:
    with _library(settings) as library:
        library.collection("samples").tune(recall="0.3@10")
    app = page("collections", see="Generations")
    assert not app.error
    (recall,) = [field for field in app.number_input if field.label == "Recall"]
    assert recall.value == 0.3


def test_a_memory_that_is_left_as_it_stands_in_the_form_stays_what_it_is(
    page: Page, settings: Settings, started: list[list[str]]
) -> None:
    with _library(settings) as library:
        library.collection("samples").tune(memory="1GiB")
    _press(page("collections", see="Generations"), "Measure and choose")
    assert started == [["index", "tune", "--recall", "0.95@10", "--memory", str(2**30), "--", "samples"]]


def test_a_contract_that_cannot_be_takes_nothing_else_away(page: Page, started: list[list[str]]) -> None:
    app = page("collections", see="Generations")
    (memory,) = [field for field in app.text_input if field.label == "Memory"]
    memory.input("2 parrots")
    _press(app, "Measure and choose")
    assert "is no amount of memory" in _said(app)
    assert [button for button in app.button if button.label == "Compact"]
    assert not started


def _rolling_back() -> None:
    from nearsay.app.ui.collections.generations_part import _confirm
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings.from_environment()
    visit = Visit(settings, opened(settings), "samples")
    (row,) = visit.collection.generations()
    _confirm(visit, visit.collection, row, 7, back=True)


def _asked_to_roll_back() -> None:
    from nearsay.app.ui.collections.generations_part import _confirm
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings.from_environment()
    visit = Visit(settings, opened(settings), "samples")
    (row,) = visit.collection.generations()
    _confirm(visit, visit.collection, row, row.number, back=True)


def test_the_button_of_a_roll_back_says_so(page: Page) -> None:
    page("collections")  # its settings are in the environment now
    app = AppTest.from_function(_asked_to_roll_back, default_timeout=60).run()
    assert app.button(key="rollout_yes").label == "Roll back"


def test_nothing_is_rolled_back_after_another_generation_went_live(page: Page) -> None:
    page("collections")  # its settings are in the environment now
    app = AppTest.from_function(_rolling_back, default_timeout=60).run()
    assert "generation 1 went live meanwhile" in _said(app).lower()
    assert not [button for button in app.button if button.key == "rollout_yes"]


def _promoting() -> None:
    from nearsay.app.ui.collections.generations_part import _confirm
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings.from_environment()
    visit = Visit(settings, opened(settings), "samples")
    (row,) = visit.collection.generations()
    _confirm(visit, visit.collection, row, row.number, back=False)


@pytest.mark.parametrize("force", [True, False])
def test_a_generation_is_promoted_even_if_it_fails_the_gate_where_that_is_ticked(
    page: Page, started: list[list[str]], force: bool
) -> None:
    page("collections")  # its settings are in the environment now
    app = AppTest.from_function(_promoting, default_timeout=60).run()
    (choice,) = app.checkbox
    if force:
        choice.check().run()
    app.button(key="rollout_yes").click().run()
    assert started == [["index", "promote", "--generation", "1", *["--force"] * force, "--", "samples"]]
