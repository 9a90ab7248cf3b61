"""From a file on the visitor's device to a search, in a browser that loads the page again on the way."""

import json
from pathlib import Path

import pytest

_IDLE = """
const app = document.querySelector('[data-testid=stApp]')
return app?.getAttribute('data-test-script-state') === 'notRunning'
"""


@pytest.mark.slow
def test_an_upload_is_checked_indexed_and_searched(served: str, browsers, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    good, bad = tmp_path / "reports.jsonl", tmp_path / "bad.pdf"
    reports = ({"key": f"r{at}", "body": f"The pump in cellar {at} leaks.", "year": at} for at in range(40))
    good.write_text("\n".join(map(json.dumps, reports)), "utf-8")
    bad.write_text("no pdf at all", "utf-8")
    browser = browsers()
    waiting = WebDriverWait(browser, 240)  # the encoder is loaded by a process of its own

    def until_said(text: str) -> None:
        waiting.until(lambda at: text in at.find_element(By.TAG_NAME, "body").text)

    def press(text: str) -> None:
        path = f"//button[contains(., '{text}')]"
        waiting.until(lambda at: [each for each in at.find_elements(By.XPATH, path) if each.is_enabled()])
        browser.execute_script("arguments[0].click()", browser.find_element(By.XPATH, path))

    browser.get(f"{served}/collections?see=Add")
    until_said("Name of the new collection")
    # Streamlit forgets a file that is given in the moment in which it begins to run the page again.
    waiting.until(lambda at: at.execute_script(_IDLE))
    browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(f"{good}\n{bad}")
    until_said("bad.pdf is called a PDF file, but is text")
    name = browser.find_element(By.XPATH, "//input[@aria-label='Name of the new collection']")
    name.send_keys("pumps", Keys.ENTER)
    press("Add reports.jsonl to pumps")
    waiting.until(lambda at: "run=" in at.current_url)
    browser.refresh()
    until_said("40 documents added; 40 passages embedded.")
    until_said("pumps can be searched")
    question = browser.find_element(By.XPATH, "//input[@aria-label='Question']")
    question.send_keys("water below the house", Keys.ENTER)
    waiting.until(lambda at: "q=water" in at.current_url)
    until_said("The pump in cellar")
