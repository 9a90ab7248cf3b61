"""What is asked before anything is removed, and what yes does."""

import pytest
from streamlit.testing.v1 import AppTest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


def _removing(folder: str, read_only: bool) -> None:
    from nearsay.app.ui.errors import showing_errors
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.removing import ask_to_remove
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings(library=folder, device="cpu", read_only=read_only)
    with showing_errors():
        ask_to_remove(Visit(settings, opened(settings), "notes"), ["board", "chisel"])


def _merging(folder: str, read_only: bool) -> None:
    from nearsay.app.ui.errors import showing_errors
    from nearsay.app.ui.explore.duplicates_view import ask_to_merge
    from nearsay.app.ui.opened import opened
    from nearsay.app.ui.settings import Settings
    from nearsay.app.ui.visit import Visit

    settings = Settings(library=folder, device="cpu", read_only=read_only)
    with showing_errors():
        ask_to_merge(Visit(settings, opened(settings), "notes"), "kettle", ["the-kettle"])


def asked(script, settings: Settings) -> AppTest:
    app = AppTest.from_function(script, args=(settings.library, settings.read_only), default_timeout=60).run()
    assert not app.exception
    return app


def documents(settings: Settings) -> dict[str, dict[str, object]]:
    with Library.open(settings.library, device="cpu") as library:
        return {each.id: dict(each.metadata) for each in library.collection("notes").documents()}


def test_yes_removes_what_was_named(explored):
    app = asked(_removing, explored)
    assert "Removed with all passages: **2 documents**" in app.markdown[0].value
    assert "board" in documents(explored)
    app.button(key="remove_yes").click().run()
    assert list(documents(explored)) == ["kettle", "the-kettle", "chopping-board"]


@pytest.mark.long
def test_yes_merges_what_was_shown(explored):
    app = asked(_merging, explored)
    app.button(key="merge_yes").click().run()
    found = documents(explored)
    assert found["kettle"] == {"source": "kitchen", "year": 2021, "author": "M. Vale"}
    assert "the-kettle" not in found


@pytest.mark.parametrize(("script", "yes"), [(_removing, "remove_yes"), (_merging, "merge_yes")])
def test_a_page_that_only_reads_removes_nothing_whatever_is_pressed(read_only, script, yes):
    before = documents(read_only)
    app = asked(script, read_only)
    app.button(key=yes).click().run()
    assert "This page is read-only" in app.error[0].value.replace("\\", "")
    assert documents(read_only) == before
