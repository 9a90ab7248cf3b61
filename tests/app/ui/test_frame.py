"""The frame around the pages."""

import re

import pytest


def test_a_page_is_shown_with_its_collection(page):
    app = page("search")
    assert app.session_state["collection"] == "samples"


@pytest.mark.slow
def test_the_page_asks_no_address_but_its_own(served, browsers):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser = browsers()
    browser.get(served)
    WebDriverWait(browser, 30).until(lambda at: at.find_elements(By.CSS_SELECTOR, "[data-testid=stMain] h1"))
    asked = re.findall(
        r'"url":"(\w+://[^"/]+)', " ".join(entry["message"] for entry in browser.get_log("performance"))
    )
    assert {host.split("://")[1] for host in asked} == {served.split("://")[1]}
