"""The first start."""

from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.app.jobs import Jobs
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a folder in which there is no library."""
    return Settings(library=str(tmp_path / "new"), device="cpu")


def test_a_library_is_made_only_when_it_is_asked_for(whole_page, tmp_path: Path) -> None:
    app = whole_page()
    assert not (tmp_path / "new").exists()
    assert app.title[0].value == "Welcome to nearsay"
    app.button[0].click().run()
    assert not app.exception
    assert (tmp_path / "new" / "library.json").is_file()


def test_who_may_only_read_is_told_so(whole_page) -> None:
    app = whole_page(read_only=True)
    assert "this server is read-only" in app.info[0].value
    assert not app.button


@pytest.mark.parametrize("path", ["search", "compare", "explore", "collections"])
def test_an_empty_library_offers_three_ways_in(page, empty_settings: Settings, path: str) -> None:
    app = page(path, settings=empty_settings)
    assert app.title[0].value == "Welcome to nearsay"
    (ways,) = app.segmented_control
    assert list(ways.options) == ["The sample corpus", "Files", "A folder"]


def test_the_sample_corpus_takes_one_click(
    page, empty_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []

    def start(self: Jobs, kind: object, arguments: list[str], **said: object) -> object:
        begun.append(arguments)
        return type("Begun", (), {"number": 1})()

    monkeypatch.setattr(Jobs, "start", start)
    app = page("collections", settings=empty_settings)
    (button,) = [button for button in app.button if button.label == "Add the sample corpus"]
    button.click().run()
    assert begun == [["demo"]]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_library_that_went_is_not_called_one_that_never_was(
    library_folder: Path, whole_page, settings: Settings, read_only: bool
) -> None:
    app = whole_page(library=str(library_folder), read_only=read_only)
    away = library_folder.rename(library_folder.with_name("away"))
    app.run()
    assert app.title[0].value == "The library is missing"
    said = app.error[0].value.replace("\\", "")  # of Markdown
    assert (str(library_folder) in said) is not read_only
    assert not app.button  # nothing is made where it may come back
    away.rename(library_folder)
    assert app.run().title[0].value == "Search"


def test_another_library_in_the_same_folder_is_the_one_that_is_shown(
    library_folder: Path, whole_page, settings: Settings
) -> None:
    app = whole_page(library=str(library_folder))
    assert app.sidebar.selectbox[0].options == ["samples"]
    library_folder.rename(library_folder.with_name("away"))
    with Library.open(library_folder, load_encoder=lambda _: WordsEncoder()) as library:
        library.collection("other").add_rows([{"id": "first", "text": "a cat sat"}])
    assert app.run().sidebar.selectbox[0].options == ["other"]
