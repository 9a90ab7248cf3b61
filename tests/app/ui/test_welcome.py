"""The first start."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from nearsay.app.jobs import Jobs
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


def _script() -> None:
    """AppTest runs this function's text by itself."""
    from nearsay.app.ui.application import run

    run()


@pytest.fixture
def first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole page over a folder without a library."""

    def look(settings: Settings | None = None) -> AppTest:
        chosen = settings or Settings(library=str(tmp_path / "new"), device="cpu")
        for name, value in chosen.to_environment().items():
            monkeypatch.setenv(name, value)
        app = AppTest.from_function(_script, default_timeout=60).run()
        assert not app.exception
        return app

    return look


def test_a_library_is_made_only_when_it_is_asked_for(first_start, tmp_path: Path) -> None:
    app = first_start()
    assert not (tmp_path / "new").exists()
    assert app.title[0].value == "Welcome to nearsay"
    app.button[0].click().run()
    assert (tmp_path / "new" / "library.json").is_file()


def test_who_may_only_read_is_told_so(first_start, tmp_path: Path) -> None:
    app = first_start(Settings(library=str(tmp_path / "new"), read_only=True))
    assert "this page only reads" in app.info[0].value
    assert not app.button


@pytest.mark.parametrize("path", ["search", "compare", "explore", "collections"])
def test_an_empty_library_offers_three_ways_in(page, settings: Settings, tmp_path: Path, path: str) -> None:
    Library.open(tmp_path / "empty").close()
    app = page(path, settings=replace(settings, library=str(tmp_path / "empty")))
    assert app.title[0].value == "Welcome to nearsay"
    (ways,) = app.segmented_control
    assert list(ways.options) == ["The sample corpus", "Files", "A folder"]


def test_the_sample_corpus_takes_one_click(
    page, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []

    def start(self: Jobs, kind: object, arguments: list[str], **said: object) -> object:
        begun.append(arguments)
        return type("Begun", (), {"number": 1})()

    monkeypatch.setattr(Jobs, "start", start)
    Library.open(tmp_path / "empty").close()
    app = page("collections", settings=replace(settings, library=str(tmp_path / "empty")))
    (button,) = [button for button in app.button if button.label == "Add the sample corpus"]
    button.click().run()
    assert begun == [["demo"]]
