"""The page Explore in a real browser: dialogs and files, of which AppTest knows nothing."""

import json

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


@pytest.fixture
def settings(explored: Settings) -> Settings:
    """The served library is the explored one."""
    return explored


@pytest.mark.slow
def test_documents_are_compared_merged_exported_and_looked_for(served, browsers, settings, tmp_path):
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser = browsers()
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )

    def until(found):
        # What is on the page is drawn anew at any time: then it is looked for again.
        return WebDriverWait(browser, 60, ignored_exceptions=[WebDriverException]).until(lambda _: found())

    def press(text):
        def pressed():
            every = browser.find_elements(By.CSS_SELECTOR, "button, a")
            found = next((each for each in every if each.text.strip().endswith(text)), None)
            return found is not None and (found.click() or True)

        until(pressed)

    def shown():
        return browser.find_element(By.CSS_SELECTOR, "[data-testid=stMain]").text

    browser.get(f"{served}/explore?view=duplicates&collection=notes&dup_cosine=0.9")
    until(lambda: "2 documents say nearly the same" in shown())
    assert browser.find_elements(By.CSS_SELECTOR, ".ns-card ins")
    press("Merge into it …")
    press("Merge them")
    until(lambda: len(list(_documents(settings))) == 4)
    until(lambda: shown().count("say nearly the same") == 1)

    press("Export with one of each")
    file = tmp_path / "notes-one-of-each.jsonl"
    until(file.exists)
    assert len([json.loads(line) for line in file.read_text("utf-8").splitlines()]) == 3

    browser.get(f"{served}/explore?view=clusters&collection=samples")
    press("Search in it")
    until(lambda: "where=cluster" in browser.current_url)
    until(lambda: browser.find_element(By.CSS_SELECTOR, "[data-testid=stMain] h1").text == "Search")
    assert "collection=samples" in browser.current_url


def _documents(settings):
    with Library.open(settings.library, device="cpu") as library:
        yield from library.collection("notes").documents()
