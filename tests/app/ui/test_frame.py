"""The frame around the pages."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.jobs import JobKind, Jobs
from nearsay.app.ui import errors, opened
from nearsay.app.ui.application import PAGES
from nearsay.app.ui.collections import adding
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.training import choosing
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.encoders import EncoderEntry, Encoders, Origin
from nearsay.indexer.query.search_log import SearchLog


@pytest.mark.long
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_every_page_is_shown_over_a_collection(page, entry):
    app = page(entry.path)
    assert app.title[0].value


@pytest.mark.long
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_every_page_is_shown_over_an_empty_library(page, entry, empty_settings):
    app = page(entry.path, settings=empty_settings, state={"chosen_collection": None})
    assert app.title[0].value


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("explore", {"view": ""}),
        ("collections", {"see": ""}),
        ("training", {"train": ""}),
        ("encoders", {"part": "None"}),
    ],
)
def test_an_address_that_names_no_part_of_a_page_means_the_first(page, path, query):
    assert not page(path, **query).error


def _with_its_sidebar(path: str) -> None:
    """A page beside the choice of a collection; AppTest runs this function's text by itself."""
    from nearsay.app.ui.application import _sidebar, show_page
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings

    settings = Settings.from_environment()
    _sidebar(settings, opened(settings))
    show_page(path, settings)


@pytest.mark.parametrize(
    ("path", "query", "press"),
    [
        ("collections", {"see": "Documents"}, "Add it"),
        ("judge", {}, "Improve and apply"),
        ("explore", {"view": "clusters"}, "Find clusters"),
    ],
)
def test_what_is_pressed_after_its_collection_was_deleted_elsewhere_is_done_to_no_other(
    path, query, press, settings, monkeypatch
):
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    with Library.open(settings.library, device="cpu") as library:
        library.collection("gone").add_rows([{"id": "a", "text": "A note."}])
        app = AppTest.from_function(_with_its_sidebar, args=(path,), default_timeout=60)
        app.query_params["collection"] = "gone"
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        for field in app.text_area:
            field.input("" if field.label == "Metadata" else "A note for gone.")
        before = library.collection("samples").overview().documents
        library.collection("gone").delete()
        next(each for each in app.button if each.label == press).click().run()
        assert not app.exception
        assert library.collection("samples").overview().documents == before
        assert Jobs(library).list() == []
        assert app.session_state["chosen_collection"] == "samples"
        assert app.warning[0].value == Naming("gone", "samples")


READ_ONLY = [entry for entry in PAGES if entry.read_only]


@pytest.mark.parametrize("entry", READ_ONLY, ids=lambda entry: entry.path)
def test_every_page_but_those_that_start_something_is_shown_to_who_may_only_read(page, entry, settings):
    app = page(entry.path, settings=replace(settings, read_only=True))
    assert app.title[0].value


@pytest.mark.long
def test_the_menu_of_a_page_that_only_reads_has_no_jobs_and_no_training(whole_page, settings, monkeypatch):
    listed = []
    usual = st.navigation

    def noted(pages, **options):
        listed.append([page.url_path for page in pages if page.visibility == "visible"])
        return usual(pages, **options)

    monkeypatch.setattr(st, "navigation", noted)
    whole_page()
    whole_page(read_only=True)
    everything, reading = listed
    assert set(everything) - set(reading) == {"judge", "jobs", "training"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("search", {"q": "rain"}),
        ("compare", {"q": "rain"}),
        *(("explore", {"view": view}) for view in ("map", "clusters", "duplicates", "time", "unusual")),
        *(("collections", {"see": see, "job": "1"}) for see in ("Overview", "Documents", "Generations")),
        *(("encoders", {"part": part}) for part in ("List", "Try an encoder", "Try a BERT")),
    ],
)
def test_who_may_only_read_is_not_shown_where_things_lie_on_the_server(
    page, settings, monkeypatch, path, query
):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    with Library.open(settings.library, device="cpu") as library:
        jobs = Jobs(library)
        jobs.start(JobKind.COMPACT, ["index", "compact", "--", "samples"], collection="samples")
        jobs.start(JobKind.CLUSTER, ["explore", "clusters", "samples"], collection="samples")
    gone = Path(settings.library).parent / "encoder that is gone"
    entry = EncoderEntry("gone", str(gone), Origin.USED, there=False)
    monkeypatch.setattr(Encoders, "list", lambda *_, **__: [entry])

    def shown(read_only):
        app = page(path, settings=replace(settings, read_only=read_only), **query)
        return " ".join(str(getattr(each, "proto", "")) for each in app).replace("\\", "")  # of Markdown

    place = str(Path(settings.library).parent)
    assert place not in shown(read_only=True)
    if (path, query.get("see")) == ("collections", "Overview") or query.get("part") == "List":
        assert place in shown(read_only=False)  # what this test looks for can be found


def test_an_error_does_not_tell_who_may_only_read_where_it_happened(app_of, monkeypatch):
    lines = (
        "from nearsay.data.errors import BadInputError\n"
        "raise BadInputError('/srv/ada/library/x.json (and ~/notes/a.txt) is no JSON: 3/4 of it. Remove it')"
    )
    assert "srv" in app_of(lines).error[0].value
    for name, value in Settings(read_only=True).to_environment().items():
        monkeypatch.setenv(name, value)
    said = app_of(lines).error[0].value.replace("\\", "")
    assert said == Naming("…/x.json", "…/a.txt", "no JSON", "3/4")
    assert not any(name in said for name in ("srv", "ada", "library", "~", "notes"))


def test_who_may_only_read_can_change_nothing(settings):
    visit = Visit(Settings(library=settings.library, read_only=True), None, None)
    with pytest.raises(BadInputError, match="read-only"):
        visit.check_writing()


@pytest.mark.parametrize("changes", [{"server_files": False}, {"read_only": True}])
def test_no_file_of_the_server_is_looked_at_where_none_may_be_named(settings, changes):
    visit = Visit(replace(settings, **changes), None, None)
    with pytest.raises(BadInputError, match="--server-files"):
        visit.check_naming_files()
    for look in (
        lambda: adding._folder(visit),
        lambda: choosing.typed_paths(visit, "Files", "key", ""),
    ):
        with pytest.raises(BadInputError, match="--server-files"):
            look()
    Visit(settings, None, None).check_naming_files()


def test_an_error_of_nearsay_is_a_sentence_with_its_remedy(app_of):
    app = app_of(
        "from nearsay.data.errors import BadInputError\nraise BadInputError('no *such* file. Name another')"
    )
    assert app.error[0].value == r"No \*such\* file\. Name another"
    assert not app.exception


def test_what_was_not_foreseen_is_a_sentence_too_and_its_trace_goes_to_the_log(app_of, caplog):
    app = app_of("raise KeyError('secret value')")
    assert "unexpected error" in app.error[0].value
    assert "secret" not in app.error[0].value
    assert not app.exception
    reference = re.search(r"reference (\w+)", app.error[0].value).group(1)
    assert reference in caplog.text
    assert "secret value" in caplog.text


def test_an_import_that_two_threads_begin_at_once_is_tried_again(app_of, monkeypatch):
    monkeypatch.setattr(errors, "_SECONDS", 0.0)
    app = app_of(
        """
        import streamlit as st
        from importlib import _bootstrap

        if not st.session_state.get("looked"):
            st.session_state["looked"] = True
            raise _bootstrap._DeadlockError("deadlock detected")
        st.markdown("all is here")
        """,
        again=True,
    )
    assert [each.value for each in app.markdown] == ["all is here"]
    assert not app.error
    assert not app.warning


_CLASH = "raise ImportError('cannot import name x from partially initialized module y')"


def test_an_import_that_fails_again_and_again_is_told(app_of, monkeypatch):
    monkeypatch.setattr(errors, "_SECONDS", 0.0)
    app = app_of(_CLASH, again=True)
    assert "still loading" in app.warning[0].value


def test_a_press_is_not_lost_where_imports_clash_but_asked_for_again(app_of):
    app = app_of(f"import streamlit as st\nif st.button('Start'):\n    {_CLASH}")
    app.button[0].click().run()
    assert app.warning[0].value.endswith("Try again.")


def test_a_start_of_the_page_keeps_no_search_that_nobody_made(settings):
    with Library.open(settings.library, device="cpu") as library:
        log = SearchLog(library.store, "samples")
        log.switch(on=True)
        opened._search(library, settings)
        assert [encoder.name for encoder in library._encoders.values()] == ["all-MiniLM-L6-v2"]
        assert log.queries() == []
        library.collection("samples").search("a question that somebody asked", 1)
        assert log.queries() == [("a question that somebody asked", 1)]


@pytest.mark.long
def test_the_collection_stands_in_the_address_whichever_is_the_first(whole_page, settings):
    with Library.open(settings.library, device="cpu") as library:
        library.collection("zoo").add_rows(["the keeper feeds the seals", "the cage is mended"])
    app = whole_page().run()  # at the first look the browser adds it, see below
    assert app.query_params["collection"] == "samples"
    app.sidebar.selectbox[0].set_value("zoo").run()
    assert app.query_params["collection"] == "zoo"
    app.query_params["collection"] = "samples"  # a link
    app.run()
    assert app.sidebar.selectbox[0].value == "samples"
    assert not app.warning
    app.query_params["collection"] = "a collection that is not there"
    app.run()
    assert app.query_params["collection"] == "samples"
    (told,) = app.warning
    said = told.value.replace("\\", "")
    assert said == Naming("'a collection that is not there'", "'samples'")
    assert not app.run().warning


@pytest.mark.long
@pytest.mark.parametrize("path", ["", "explore"])
def test_the_first_look_is_one_entry_of_the_history(visitor, path):
    before = visitor.finds("history.length")
    visitor.goes_to(path)
    visitor.is_at(f"/{path}?collection=samples")
    visitor.is_still()
    assert visitor.finds("history.length") == before + 1
    visitor.presses("Judge")
    visitor.is_at("/judge?collection=samples")
    assert visitor.finds("history.length") == before + 2


@pytest.mark.long
def test_one_press_of_back_leads_to_the_page_before(visitor):
    visitor.goes_to("explore?collection=samples&view=unusual")
    visitor.is_still()
    for name in ("Compare", "Encoders", "Jobs"):
        visitor.presses(name)
        visitor.is_at(f"/{name.lower()}?collection=samples")
        visitor.is_still()
    for name in ("Encoders", "Compare"):
        visitor.finds("history.back() || true")
        visitor.is_at(f"/{name.lower()}?collection=samples")
        visitor.is_still()
    visitor.finds("history.back() || true")
    visitor.is_at("/explore?collection=samples&view=unusual")


def test_no_page_reads_html_or_markdown_of_others():
    pages = sorted(Path(opened.__file__).parent.rglob("*.py"))
    assert len(pages) > 50
    for path in pages:
        assert "unsafe_allow" not in path.read_text("utf-8"), path


@pytest.mark.long
def test_the_page_asks_no_address_but_its_own(visitor):
    for entry in PAGES:
        visitor.goes_to(entry.path)
        visitor.sees_element("[data-testid=stMain] h1")
        visitor.is_still()
    log = " ".join(entry["message"] for entry in visitor.browser.get_log("performance"))
    asked = re.findall(r'"url":"(\w+://[^"/]+)', log)
    assert {host.split("://")[1] for host in asked} == {visitor.address.split("://")[1]}


@pytest.fixture
def with_sidebar(settings, monkeypatch):
    """`with_sidebar("search", q="rain")`: a page and the sidebar, over 'samples' and another one."""
    with Library.open(settings.library, device="cpu") as library:
        library.collection("other").add_rows(
            [{"id": f"o{n}", "text": f"a note about cats {n}"} for n in range(3)]
        )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)

    def look(path, **query):
        app = AppTest.from_function(_sidebar_and_page, args=(path,), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return look


def _sidebar_and_page(path):
    """AppTest runs this function's text by itself."""
    from nearsay.app.ui import application
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings

    settings = Settings.from_environment()
    application._sidebar(settings, opened(settings))
    application.show_page(path, settings)


def test_a_button_of_a_card_leads_to_its_own_collection(with_sidebar):
    app = with_sidebar("collections", collection="samples")
    app.button(key="go-Documents-other").click().run()
    assert app.subheader[0].value == "Documents of other"
    assert app.sidebar.selectbox(key="chosen_collection").value == "other"


def test_another_collection_is_shown_from_its_beginning(with_sidebar, settings):
    with Library.open(settings.library, device="cpu") as library:
        id_ = next(library.collection("samples").documents()).id
    for path, query in (
        ("search", {"like": id_, "k": "30", "at": "11"}),
        ("collections", {"see": "Documents", "doc": id_}),
        ("collections", {"see": "Documents", "after": "50"}),
    ):
        app = with_sidebar(path, collection="samples", **query)
        app.sidebar.selectbox(key="chosen_collection").select("other").run()
        assert not app.error
        assert not {"like", "at", "doc", "after"} & set(app.query_params)
    assert app.dataframe[0].value["id"].tolist() == ["o0", "o1", "o2"]
    (first,) = [button for button in app.button if button.key == "docs-first"]
    assert first.disabled


def test_clusters_that_a_filter_names_are_not_those_of_another_collection(with_sidebar, settings):
    with Library.open(settings.library, device="cpu") as library:
        library.collection("samples").explore.cluster("kmeans", clusters=3)
        library.collection("other").explore.cluster("kmeans", clusters=2)
    chosen = '{"cluster":[2],"level":["beginner"]}'
    app = with_sidebar("search", collection="samples", q="cats", filter=chosen)
    assert app.button_group(key="filter cluster").value == [2]
    app.sidebar.selectbox(key="chosen_collection").select("other").run()
    assert not app.error
    assert app.query_params["filter"] == '{"level":["beginner"]}'
    assert app.button_group(key="filter cluster").value == []
