"""The frame around the pages."""

import re
from pathlib import Path

import pytest

from nearsay.app.ui import errors
from nearsay.app.ui.application import PAGES
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.indexer import Library


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_every_page_is_shown_over_a_collection(page, entry):
    app = page(entry.path)
    assert app.title[0].value


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_every_page_is_shown_over_an_empty_library(page, entry, empty_settings):
    app = page(entry.path, settings=empty_settings, state={"collection": None})
    assert app.title[0].value


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_every_page_is_shown_to_who_may_only_read(page, entry, settings):
    app = page(entry.path, settings=Settings(library=settings.library, device="cpu", read_only=True))
    assert app.title[0].value


def test_who_may_only_read_can_change_nothing(settings):
    visit = Visit(Settings(library=settings.library, read_only=True), None, None)
    with pytest.raises(BadInputError, match="only reads"):
        visit.check_writing()


def test_an_error_of_nearsay_is_a_sentence_with_its_remedy(app_of):
    app = app_of(
        "from nearsay.data.errors import BadInputError\nraise BadInputError('no *such* file. Name another')"
    )
    assert app.error[0].value == r"No \*such\* file\. Name another"
    assert not app.exception


def test_what_was_not_foreseen_is_a_sentence_too_and_its_trace_goes_to_the_log(app_of, caplog):
    app = app_of("raise KeyError('secret value')")
    assert "did not foresee" in app.error[0].value
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
    assert app.warning[0].value.endswith("Do it again.")


def test_a_library_that_is_not_there_is_made_only_when_asked(first_start, tmp_path):
    app = first_start(tmp_path / "mistyped")
    assert not (tmp_path / "mistyped").exists()
    assert not app.exception
    button = next(button for button in app.button if "library" in button.label)
    button.click().run()
    assert not app.exception
    assert (tmp_path / "mistyped" / "library.json").exists()


def test_the_collection_stands_in_the_address_whichever_is_the_first(whole_page, settings):
    with Library.open(settings.library, device="cpu") as library:
        library.collection("zoo").add_rows(["the keeper feeds the seals", "the cage is mended"])
    app = whole_page()
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
    assert "no collection 'a collection that is not there' here any more. This is 'samples'" in said
    assert not app.run().warning


def test_no_page_reads_html_or_markdown_of_others():
    for path in Path("app/ui").rglob("*.py"):
        assert "unsafe_allow" not in path.read_text("utf-8"), path


@pytest.mark.slow
def test_the_page_asks_no_address_but_its_own(visitor):
    for entry in PAGES:
        visitor.goes_to(entry.path)
        visitor.sees_element("[data-testid=stMain] h1")
        visitor.is_still()
    log = " ".join(entry["message"] for entry in visitor.browser.get_log("performance"))
    asked = re.findall(r'"url":"(\w+://[^"/]+)', log)
    assert {host.split("://")[1] for host in asked} == {visitor.address.split("://")[1]}
