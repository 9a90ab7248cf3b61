"""Collections and their documents in a real browser."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.jobs import JobKind, Jobs
from nearsay.app.jobs import jobs as starting
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

_IN_VIEW = """(() => {
    const found = document.querySelector('.ns-document .ns-passage')?.getBoundingClientRect()
    return found && found.top > 0 && found.bottom < innerHeight && found.height > 0
})()"""


@pytest.mark.long
def test_a_collection_is_shown_as_soon_as_it_is_made(
    settings: Settings, visitor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "CHILD", (sys.executable, "-c", "import time; time.sleep(600)"))
    with Library.open(settings.library, device="cpu") as library:
        job = Jobs(library).start(JobKind.OTHER, ["collections", "list"], title="Something long")
        try:
            visitor.goes_to("collections?see=Overview")
            visitor.sees("Something long")
            visitor.sees_element("[class*=st-key-card-]", 1)
            library.collection("fresh").add_rows(["the lantern burns low"])
            visitor.sees_element("[class*=st-key-card-fresh]", 1)  # though what is at work goes on
            visitor.sees("Something long")
        finally:
            os.kill(job.pid, signal.SIGKILL)


_LINES = [f"Line {number} tells of the harbour and of the winter there." for number in range(6_000)]
_LINES[5_000] = "The zebra carries <img src=x onerror=\"document.title='run'\"> a violin."


@pytest.fixture(scope="module")
def with_book(made_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a text of many pages; never written to."""
    home = Path(shutil.copytree(made_library, tmp_path_factory.mktemp("book") / "library"))
    with Library.open(home, device="cpu") as library:
        text = "\n".join(_LINES)
        library.collection("books").add_rows([{"id": "book", "title": "A book", "text": text}])
    return home


@pytest.fixture
def book(settings: Settings, with_book: Path) -> str:
    """It is in the test's library, too; one passage that is like no other."""
    shutil.rmtree(settings.library)
    shutil.copytree(with_book, settings.library)
    return _LINES[5_000]


@pytest.mark.long
def test_a_book_opens_at_the_passage_and_is_read_on_from_there(
    book: str, request: pytest.FixtureRequest
) -> None:
    visitor = request.getfixturevalue("visitor")
    visitor.goes_to("?collection=books&q=zebra&mode=lexical&why=false")
    visitor.presses("Document")
    visitor.finds(_IN_VIEW)
    assert book in visitor.finds("document.querySelector('.ns-document .ns-passage').innerText")
    assert visitor.browser.title != "run"
    before = visitor.finds("document.querySelector('.ns-document').innerText")
    assert "Line 4999 " in before
    visitor.presses("Next")
    visitor.finds("!document.querySelector('.ns-document').innerText.includes('Line 4999 ')")
    after = visitor.finds("document.querySelector('.ns-document').innerText")
    last = int(before.rstrip(" …").rpartition("Line ")[2].split()[0])
    assert after.startswith(f"… Line {last + 1} ")
    visitor.finds("document.querySelector('.ns-document').getBoundingClientRect().top >= 0")
    visitor.presses("To the passage")
    visitor.finds(_IN_VIEW)
    visitor.presses("Previous")
    visitor.finds("!document.querySelector('.ns-document .ns-passage')")


@pytest.mark.long
def test_the_documents_of_a_collection_are_read_to_their_end(
    book: str, request: pytest.FixtureRequest
) -> None:
    visitor = request.getfixturevalue("visitor")
    visitor.goes_to("collections?collection=books&see=Documents&doc=book")
    visitor.sees("Line 0 tells")
    visitor.sees("Page 1 of ")
    pages = int(visitor.finds("document.body.innerText.match(/Page 1 of (\\d+)/)[1]"))
    assert pages > 30
    for page in (2, 3):
        visitor.presses("Next")
        visitor.sees(f"Page {page} of {pages}")
