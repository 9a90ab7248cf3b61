"""The page Explore, looked at without a browser."""

import json
import logging
import re
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from naming import Naming
from streamlit import runtime

from nearsay.app.jobs import JobKind, Jobs, JobState
from nearsay.app.ui import opened, watching
from nearsay.app.ui.explore import clusters_view, duplicates_view, map_view, time_view, unusual_view
from nearsay.app.ui.explore.page import VIEWS
from nearsay.app.ui.explore.unusual_view import unusual_words
from nearsay.app.ui.map_component.show_map import Selection, packed_map
from nearsay.app.ui.opened import _warm as warm  # before the fixture that puts nothing in its place
from nearsay.app.ui.opened import remembered_map
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import clusterings, collections
from nearsay.indexer.exploring.unlike import RemotePassage
from nearsay.indexer.neighbours.points import Near
from nearsay.training.sentence.text_encoder import TextKind

NOTES = {"chosen_collection": "notes"}
_LATER = "2999-01-01T00:00:00+00:00"


class Recorder:
    """Stands for the jobs of the library: keeps what was to be started."""

    def __init__(self):
        self.started = []

    def __call__(self, visit):
        return self

    def list(self, *_, **__):
        return []

    def start(self, kind, arguments, **named):
        self.started.append((kind, list(arguments)))
        return SimpleNamespace(number=len(self.started))


def said(app):
    """Everything that stands on the page as text."""
    kinds = (app.markdown, app.caption, app.info, app.success, app.error, app.subheader, app.metric)
    return "\n".join(str(each.value) for kind in kinds for each in kind)


def press(app, label):
    next(each for each in app.button if each.label.startswith(label)).click().run()
    assert not app.exception
    assert not app.error


def labels(app):
    return [each.label for each in app.button]


def ids(settings, name):
    with Library.open(settings.library, device="cpu") as library:
        return [document.id for document in library.collection(name).documents()]


@pytest.mark.long
def test_every_view_stands_without_an_error(page, explored):
    app = page("explore", settings=explored)
    for view in [*VIEWS, "map"]:
        app.segmented_control(key="view").set_value(view).run()
        assert not app.exception
        assert not app.error
    assert app.title[0].value == "Explore"


def test_a_page_that_only_reads_offers_no_change(page, read_only):
    app = page("explore", settings=read_only, view="duplicates", dup_cosine="0.9", state=NOTES)
    assert "2 near-duplicates**" in said(app)
    for view in VIEWS:
        app.segmented_control(key="view").set_value(view).run()
        assert not app.error
        assert labels(app) == []


@pytest.mark.long
def test_nothing_of_a_group_goes_before_somebody_has_said_yes(page, explored):
    for label, yes in (
        ("Keep this one", "Remove"),
        ("Merge into it", "Merge"),
        ("Keep one of each group", "Remove"),
    ):
        app = page("explore", settings=explored, view="duplicates", dup_cosine="0.9", state=NOTES)
        assert [each.value for each in app.metric] == ["2", "2"]
        assert yes not in labels(app)
        press(app, label)
        assert yes in labels(app)
        assert len(ids(explored, "notes")) == 5


def test_a_group_of_no_duplicates_is_hidden_and_nothing_is_removed(page, explored):
    app = page("explore", settings=explored, view="duplicates", dup_cosine="0.9", state=NOTES)
    press(app, "Not duplicates")
    assert "Hidden in this session: 1 " in said(app)
    press(app, "Not duplicates")
    assert "Hidden in this session: 2 " in said(app)
    assert said(app) == Naming("No other documents")
    assert len(ids(explored, "notes")) == 5
    press(app, "Show again")
    assert [each.value for each in app.metric] == ["2", "2"]
    assert "Hidden" not in said(app)


@pytest.mark.long
def test_what_takes_long_is_a_job_that_is_read_back(page, explored, monkeypatch):
    monkeypatch.setattr(duplicates_view, "_QUICK", 0)
    app = page("explore", settings=explored, view="duplicates", dup_cosine="0.9", state=NOTES)
    press(app, "Start")
    with Library.open(explored.library, device="cpu") as library:
        jobs = Jobs(library)
        (started,) = jobs.list()
        assert started.kind is JobKind.DUPLICATES
        assert jobs.wait(started.number).state is JobState.DONE
    app.run()
    assert "Run again" in labels(app)
    assert [each.value for each in app.metric] == ["2", "2"]
    assert said(app).count("2 near-duplicates**") == 2
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").add_rows([{"id": "board", "text": "Another text altogether."}])
    app.run()
    assert [each.value for each in app.metric] == [
        "1",
        "1",
    ]  # what was written since is no duplicate any more


def _done_by_a_job(app, settings):
    """The page once the job that its button starts has ended."""
    press(app, "Start")
    with Library.open(settings.library, device="cpu") as library:
        (started,) = Jobs(library).list()
        assert Jobs(library).wait(started.number).state is JobState.DONE
    app.run()
    assert not app.exception


@pytest.mark.long
def test_what_a_look_says_beside_its_results_stands_on_the_page_when_a_job_found_them(
    page, explored, monkeypatch
):
    monkeypatch.setattr(unusual_view, "_QUICK_OUTLIERS", 0)
    app = page("explore", settings=explored, view="unusual", un_count="9", state=NOTES)
    _done_by_a_job(app, explored)
    assert "5 of the 9 asked for" in said(app)


@pytest.mark.long
def test_through_time_a_job_finds_every_cluster_too(page, explored, monkeypatch):
    app = page("explore", settings=explored, view="time", time_by="year")
    (at_once,) = (frame.value for frame in app.dataframe)
    assert len(at_once) > 9  # more than a command prints
    monkeypatch.setattr(time_view, "_QUICK", 0)
    app = page("explore", settings=explored, view="time", time_by="year")
    _done_by_a_job(app, explored)
    (found,) = (frame.value for frame in app.dataframe)
    assert found.astype(str).equals(at_once.astype(str))


def test_documents_without_a_date_are_told_beside_the_chart(page, explored):
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").explore.cluster("kmeans", clusters=1)
        library.collection("notes").add_rows([{"text": "A note of no year."}])
        library.collection("notes").explore.cluster("kmeans", clusters=1)
    app = page("explore", settings=explored, view="time", time_field="year", state=NOTES)
    assert "1 document" in said(app)


def test_what_was_not_compared_is_told_beside_the_pairs(page, explored, monkeypatch):
    monkeypatch.setattr("nearsay.indexer.duplicates.pairs._notes", lambda *_: ("some pairs may be missing",))
    app = page("explore", settings=explored, view="duplicates", dup_what="pairs", state=NOTES)
    assert "Some pairs may be missing" in said(app)


@pytest.mark.long
def test_what_making_clusters_had_to_say_stands_beside_them(page, explored):
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").add_rows([{"text": "A note on its own.", "cluster": "mine"}])
        jobs = Jobs(library)
        arguments = ["explore", "clusters", "notes", "--method", "kmeans", "--clusters", "2"]
        job = jobs.wait(jobs.start(JobKind.CLUSTER, arguments).number)
        assert job.state is JobState.DONE
        arguments = [*arguments[:-1], "1000"]  # more than there are passages
        assert jobs.wait(jobs.start(JobKind.CLUSTER, arguments).number).state is JobState.FAILED
    app = page("explore", settings=explored, view="clusters", state=NOTES)
    assert "ocuments have a metadata field 'cluster'" in said(app).replace("\\", "")
    with Library.open(explored.library, device="cpu") as library:  # made elsewhere since
        library.collection("notes").explore.cluster("kmeans", clusters=1)
        with library.store.database.writing() as connection:
            connection.execute(clusterings.update().values(created_at=_LATER))
    app = page("explore", settings=explored, view="clusters", state=NOTES)
    assert "have a metadata field" not in said(app)


def test_a_cluster_gets_a_name_and_is_found_by_it(page, explored):
    app = page("explore", settings=explored, view="clusters")
    first = next(each for each in app.text_input if each.label == "New name")
    first.input("things *of* the sea")
    press(app, "Save")
    app.text_input(key="cl_find").input("of* the").run()
    assert "**things \\*of\\* the sea**" in said(app)
    assert sum(each.label == "New name" for each in app.text_input) == 1


def test_clusters_stand_in_their_order_where_two_columns_become_one(page, explored):
    app = page("explore", settings=explored, view="clusters")
    app.selectbox(key="cl_sort").set_value("number").run()
    numbers = [
        int(found) for each in app.markdown for found in re.findall(r":gray-badge\[(\d+)\]", each.value)
    ]
    assert len(numbers) > 3
    assert numbers == sorted(numbers)


def test_a_name_that_cannot_be_is_refused_in_a_sentence(page, explored):
    app = page("explore", settings=explored, view="clusters")
    next(each for each in app.text_input if each.label == "New name").input("  ")
    next(each for each in app.button if each.label == "Save").click().run()
    assert "is not a valid cluster name" in app.error[0].value


def test_clusters_and_map_are_made_by_jobs(page, explored, monkeypatch):
    jobs = Recorder()
    monkeypatch.setattr(watching, "jobs_of", jobs)
    app = page("explore", settings=explored, view="clusters", state=NOTES)
    app.selectbox(key="cl_method").set_value("kmeans").run()
    app.number_input(key="cl_clusters").set_value(3).run()
    press(app, "Find clusters")
    app.segmented_control(key="view").set_value("map").run()
    press(app, "Create the map")
    assert jobs.started == [
        (JobKind.CLUSTER, ["explore", "clusters", "notes", "--method", "kmeans", "--clusters", "3"]),
        (JobKind.MAP, ["explore", "map", "notes", "--no-file"]),
    ]


def test_how_a_job_ended_that_was_quicker_than_the_page_is_shown(page, explored, monkeypatch):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    app = page("explore", settings=explored, view="clusters", state=NOTES)
    press(app, "Find clusters")
    assert any(each.value.startswith("Interrupted") for each in app.warning)


def test_a_map_without_clusters_offers_the_button_that_finds_them(page, explored, chosen, monkeypatch):
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").explore.draw_map(None)
    jobs = Recorder()
    monkeypatch.setattr(watching, "jobs_of", jobs)
    app = page("explore", settings=explored, state=NOTES)
    assert "nearsay explore clusters" not in said(app)
    press(app, "Find clusters")
    assert jobs.started == [(JobKind.CLUSTER, ["explore", "clusters", "notes"])]
    assert "Find clusters" not in labels(page("explore", settings=explored))  # which has some


@pytest.fixture
def chosen(monkeypatch):
    """The first three points of the map are chosen; gives what the map was drawn with."""
    given = {}

    def show(shown, **named):
        given.update(named, shown=shown)
        places = np.arange(3)
        return Selection(places, shown.drawn.ids[places], 1, ())

    monkeypatch.setattr(map_view, "show_map", show)
    return given


def test_what_is_chosen_on_the_map_is_a_table(page, explored, chosen):
    app = page("explore", settings=explored)
    assert "3 passages of 3 documents selected" in said(app)
    table = app.dataframe[0].value
    assert list(table.columns[:5]) == ["title", "text", "cluster", "id", "passage"]
    assert table["id"].tolist() == ids(explored, "samples")[:3]


def test_what_is_chosen_on_the_map_stays_until_somebody_has_said_yes(page, explored, chosen):
    app = page("explore", settings=explored)
    before = ids(explored, "samples")
    press(app, "Remove 3 documents")
    assert "Remove" in labels(app)
    assert ids(explored, "samples") == before


@pytest.mark.long
def test_what_is_asked_for_stands_out_on_the_map_by_meaning_alone(page, explored, chosen, monkeypatch):
    modes, search = [], Collection.search

    def asked(self, query, k, **how):
        modes.append(how.get("mode"))
        return search(self, query, k, **how)

    monkeypatch.setattr(Collection, "search", asked)
    app = page("explore", settings=explored, map_q="a cat that does not eat")
    assert "50 nearest" in said(app)
    assert len(chosen["highlight"]) == 50
    assert modes == ["dense"]


@pytest.mark.long
def test_a_map_that_is_done_while_the_page_looks_is_shown(page, explored, chosen, monkeypatch):
    with Library.open(explored.library, device="cpu") as library:
        jobs = Jobs(library)
        job = jobs.wait(jobs.start(JobKind.MAP, ["collections", "list"], collection="samples").number)
    looks = []

    def changing(before, after):
        """The first look of all sees how it was before, every later one how it is."""

        def look(*given):
            looks.append(look)
            return (before if len(looks) == 1 else after)(*given)

        return look

    at_work = [replace(job, state=JobState.RUNNING)]
    monkeypatch.setattr(map_view, "newest_jobs", changing(lambda *_: at_work, lambda *_: [job]))
    monkeypatch.setattr(map_view, "kept_drawing", changing(lambda _: None, opened.kept_drawing))
    app = page("explore", settings=explored)
    assert "Create the map" not in labels(app)
    assert "3 passages of 3 documents selected" in said(app)


def test_passages_that_came_after_the_map_are_told(page, explored, chosen):
    with Library.open(explored.library, device="cpu") as library:
        library.collection("samples").add_rows([{"id": "new", "text": "something that came later"}])
    app = page("explore", settings=explored)
    assert "1 passage added since is not on the map yet" in said(app)
    assert "Place them" in labels(app)


@pytest.mark.long
def test_the_field_for_a_new_name_holds_the_name_of_the_collection_that_is_shown(page, explored):
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").explore.cluster("kmeans", clusters=2)
        names = {each.name for each in library.collection("notes").explore.clusters().clusters}
    app = page("explore", settings=explored, view="clusters")
    app.session_state["chosen_collection"] = "notes"
    app.run()
    assert {each.value for each in app.text_input if each.label == "New name"} == names


@pytest.mark.long
def test_what_was_found_in_a_deleted_collection_is_not_shown_of_its_namesake(page, explored, monkeypatch):
    monkeypatch.setattr(duplicates_view, "_QUICK", 0)
    app = page("explore", settings=explored, view="duplicates", dup_what="pairs", state=NOTES)
    press(app, "Start")
    with Library.open(explored.library, device="cpu") as library:
        (started,) = Jobs(library).list()
        assert Jobs(library).wait(started.number).state is JobState.DONE
    app.run()
    assert len(app.dataframe) == 1
    with Library.open(explored.library, device="cpu") as library:
        library.collection("notes").delete()
        library.collection("notes").add_rows([{"text": "Another text."}, {"text": "And one more."}])
        with library.store.database.writing() as connection:  # a while later: moments are kept to the second
            connection.execute(
                collections.update().where(collections.c.name == "notes").values(created_at=_LATER)
            )
    app = page("explore", settings=explored, view="duplicates", dup_what="pairs", state=NOTES)
    assert not app.dataframe
    assert "Start" in labels(app)


def test_months_without_anything_have_their_place_in_the_chart(page, explored):
    with Library.open(explored.library, device="cpu") as library:
        gaps = library.collection("gaps")
        gaps.add_rows(
            {"text": f"Rain in {month}.", "when": month} for month in ("2023-03", "2023-07", "2024-01")
        )
        gaps.explore.cluster("kmeans", clusters=1)
    app = page("explore", settings=explored, view="time", state={"chosen_collection": "gaps"})
    (chart,) = app.get("vega_lite_chart")
    domain = json.loads(chart.proto.spec)["encoding"]["x"]["scale"]["domain"]
    assert domain == [*(f"2023-{month:02}" for month in range(3, 13)), "2024-01"]
    assert "8 of the 11" in said(app)


@pytest.mark.long
def test_where_most_passages_are_in_no_cluster_the_choices_that_help_are_named(page, explored):
    rows = [
        {"text": f"{what} {number} {what}."} for what in ("Frost", "Bread", "Chess") for number in range(4)
    ]
    with Library.open(explored.library, device="cpu") as library:
        library.collection("few").add_rows([*rows, *({"text": f"Tides rise {n}."} for n in range(6))])
        library.collection("few").explore.cluster(least_size=6)
        found = library.collection("few").explore.clusters()
    assert found.outliers * 2 > found.passages
    app = page("explore", settings=explored, view="clusters", state={"chosen_collection": "few"})
    assert said(app) == Naming(f"{found.outliers} of 18 passages", "**Cluster again**")
    assert said(app) == Naming("**Smallest cluster size**", 6, "**Assign each outlier to")
    assert app.number_input(key="cl_least_size").label == "Smallest cluster size"
    assert app.toggle(key="cl_assign_outliers").label == "Assign each outlier to the nearest cluster"
    reading = replace(explored, read_only=True)
    for settings, name in ((explored, "samples"), (reading, "few")):
        app = page("explore", settings=settings, view="clusters", state={"chosen_collection": name})
        assert "Outliers:" not in said(app)


@pytest.mark.parametrize(
    ("a_minute", "takes"),
    [
        (23_300, "a few seconds"),
        (10, "up to a minute"),
        (5, "about a minute"),
        (1, "about 5 minutes"),
    ],
)
def test_how_long_the_map_takes_is_said_of_as_many_passages_as_there_are(
    page, explored, monkeypatch, a_minute, takes
):
    monkeypatch.setattr(map_view, "_A_MINUTE", a_minute)
    app = page("explore", settings=explored, state=NOTES)
    assert said(app) == Naming("once", "5 passages", takes)


def test_of_very_many_documents_only_the_command_that_exports_them_is_shown(page, explored, monkeypatch):
    monkeypatch.setattr(duplicates_view, "_MOST_EXPORTED", 0)
    app = page("explore", settings=explored, view="duplicates", dup_cosine="0.9", state=NOTES)
    assert not app.get("download_button")
    assert any("--out notes-one-of-each.jsonl" in each.value for each in app.code)


def test_of_very_many_clustered_passages_the_whole_command_is_shown(page, explored, monkeypatch):
    monkeypatch.setattr(clusters_view, "_MOST_EXPORTED", 0)
    app = page("explore", settings=explored, view="clusters")
    shown = [each.value for each in app.code if "--out samples-clusters.csv" in each.value]
    assert [each.startswith("nearsay explore clusters --library") for each in shown] == [True]


def test_a_number_that_no_table_holds_is_shown_as_text(page, explored, chosen):
    with Library.open(explored.library, device="cpu") as library:
        stars = library.collection("stars")
        stars.add_rows([{"text": f"Star {name} is far away.", "metres": 10**30} for name in "abc"])
        stars.explore.map()
    app = page("explore", settings=explored, state={"chosen_collection": "stars"})
    assert "3 passages" in said(app)
    assert not app.error


def test_few_maps_are_kept_in_memory():
    made = []
    for number in (1, 2, 3, 4, 1):
        remembered_map(f"a map {number}", lambda number=number: made.append(number))
    assert made == [1, 2, 3, 4, 1]  # the first had to go


def test_the_first_collections_map_is_drawn_before_anybody_looks(explored, monkeypatch, caplog):
    made = []
    monkeypatch.setattr(runtime, "exists", lambda: True)  # else Streamlit does not warn
    monkeypatch.setattr(opened, "packed_map", lambda drawn: made.append(drawn) or packed_map(drawn))
    with Library.open(explored.library, device="cpu") as library:
        assert library.names()[0] == "notes"
        in_a_thread(warm, library, explored)  # there is none yet, and that is no error
        assert not made
        library.collection("notes").explore.map()
        in_a_thread(warm, library, explored)
        assert [drawn.collection for drawn in made] == ["notes"]
        shown, count = opened.kept_drawing(Visit(explored, library, "notes"))
        assert (len(shown), count, len(made)) == (5, 5, 1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_map_that_cannot_be_drawn_ahead_costs_nobody_the_first_search(explored, monkeypatch, caplog):
    def broken(visit):
        raise OSError("the disk is gone")

    searched = []
    monkeypatch.setattr(opened, "kept_drawing", broken)
    monkeypatch.setattr(Collection, "get_ready", lambda _: searched.append(True))
    with Library.open(explored.library, device="cpu") as library:
        warm(library, explored)
    assert searched == [True]
    assert "drawing the map failed" in caplog.text


def test_over_an_empty_library_a_question_is_encoded_ahead_which_takes_no_torch(empty_settings, monkeypatch):
    encoded = []

    class Light:
        def encode(self, texts, *, kind=TextKind.PASSAGE):
            encoded.append((texts, kind))

    monkeypatch.setattr(Library, "encoder", lambda *_: Light())
    with Library.open(empty_settings.library, device="cpu") as library:
        warm(library, empty_settings)
    assert [kind for _, kind in encoded] == [TextKind.QUERY]


def test_a_library_that_cannot_be_read_any_more_ends_what_is_loaded_beside_quietly(explored, monkeypatch):
    def broken(library):
        raise OSError("the disk is gone")

    monkeypatch.setattr(Library, "names", broken)
    with Library.open(explored.library, device="cpu") as library:
        warm(library, explored)


def in_a_thread(work, *values):
    thread = threading.Thread(target=work, args=values)
    thread.start()
    thread.join()


def test_the_figure_of_an_outlier_is_told_from_the_cosine_of_its_nearest():
    found = RemotePassage(1, 0.44, "a", "A title", "A text.", {}, 0, Near("b", "Another", "Its text.", 0.5))
    assert unusual_words(found) == ("mean cosine to the nearest 0.44", "nearest (0.50): Another")


def test_while_a_map_is_made_its_job_alone_shows_the_command(page, explored, monkeypatch):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    with Library.open(explored.library, device="cpu") as library:
        job = Jobs(library).start(JobKind.MAP, ["explore", "map", "notes"], collection="notes")
    watched = []
    monkeypatch.setattr(map_view, "newest_jobs", lambda *_: [replace(job, state=JobState.RUNNING)])
    monkeypatch.setattr(map_view, "watch_newest", lambda _, jobs, __: watched.extend(jobs))
    app = page("explore", settings=explored, view="map", state=NOTES)
    assert watched
    assert [each.label for each in app.expander] == []


@pytest.mark.parametrize("what", ["outliers", "a diverse sample"])
def test_what_has_to_be_said_of_a_list_of_passages_stands_above_it(page, explored, what):
    app = page("explore", settings=explored, state=NOTES, view="unusual", un_what=what, un_count="50")
    assert said(app) == Naming("5 of the 50 asked for", "only 5 passages")
