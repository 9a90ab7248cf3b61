"""Search and Compare in a real browser."""

from collections.abc import Callable
from typing import Any

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

pytestmark = pytest.mark.slow
_EVIL = (
    "<img src=x onerror=\"document.title='run'\"> [a](javascript:alert(1)) ![b](http://nowhere.example/b.png)"
)


@pytest.fixture
def browser(browsers: Callable[..., Any]) -> Any:
    return browsers()


def _until(browser: Any, script: str, seconds: float = 60.0) -> Any:
    """What a script gives once that is something."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, poll_frequency=0.1).until(
        lambda at: at.execute_script(f"return {script}")
    )


def test_a_query_is_searched_by_enter_and_stands_in_the_address(browser: Any, served: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.get(served)
    _until(browser, "document.querySelector('input[aria-label=Search]')")
    box = browser.find_element(By.CSS_SELECTOR, "input[aria-label=Search]")
    box.send_keys("frost on a cold night", Keys.ENTER)
    _until(browser, "document.querySelector('.ns-card mark')")
    titles = "[...document.querySelectorAll('.ns-title')].map(each => each.innerText)"
    first = _until(browser, titles)
    assert len(first) == 10
    assert "q=frost" in browser.current_url
    browser.get(browser.current_url)
    _until(browser, "document.querySelectorAll('.ns-title').length == 10")
    assert _until(browser, titles) == first
    _until(browser, "!document.querySelector('.st-key-ns_hidden')?.offsetHeight")


def test_nothing_of_a_document_is_run_or_loaded(
    browser: Any, settings: Settings, request: pytest.FixtureRequest
) -> None:
    with Library.open(settings.library, device="cpu") as library:
        row = {"id": f"evil {_EVIL}", "title": _EVIL, "text": f"the zebra {_EVIL}", "venue": _EVIL}
        library.collection("samples").add_rows([row])
    address = request.getfixturevalue("served")
    for page in ("", "compare"):
        browser.get(f"{address}/{page}?q=zebra&mode=lexical&right-mode=lexical&left-mode=lexical&read=true")
        shown = _until(browser, "(document.querySelector('.ns-card') || {}).innerText")
        assert "<img src=x onerror=" in shown
        assert browser.title != "run"
        assert not _until(browser, "[document.querySelectorAll('img[src=x]').length]")[0]
    asked = " ".join(entry["message"] for entry in browser.get_log("performance"))
    assert 'nowhere.example/b.png"' not in asked.replace("\\", "")


def test_the_lines_between_two_rankings_are_drawn(browser: Any, served: str) -> None:
    browser.get(f"{served}/compare?q=frost+on+a+cold+night&right-mode=dense")
    width = _until(browser, "(document.querySelector('img.ns-lines') || {}).naturalWidth")
    assert width > 0
    rows = _until(browser, "document.querySelectorAll('.ns-item').length")
    assert rows == 20
    tall = "document.querySelector('{}').getBoundingClientRect().height"
    height, item = _until(browser, f"[{tall.format('img.ns-lines')}, {tall.format('.ns-item')}]")
    assert height == pytest.approx(10 * item, abs=1)  # each line begins at its row
