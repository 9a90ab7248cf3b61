"""A training from its form to its end, in a browser."""

import pytest


@pytest.mark.slow
def test_a_vocabulary_is_made_watched_and_found_again(served, browsers, library_folder):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    def words(at):
        return at.find_element(By.CSS_SELECTOR, "[data-testid=stMain]").text

    def button(at, label):
        return next((each for each in at.find_elements(By.TAG_NAME, "button") if each.text == label), None)

    browser = browsers()
    waits = WebDriverWait(browser, 60, ignored_exceptions=[Exception])
    browser.get(f"{served}/training?train=Vocabulary")
    waits.until(lambda at: button(at, "Samples")).click()
    waits.until(lambda at: "The first texts" in words(at))
    waits.until(lambda at: at.find_element(By.CSS_SELECTOR, "input[aria-label=Name]").is_enabled())
    browser.find_element(By.CSS_SELECTOR, "input[aria-label=Name]").send_keys("from-a-form\t")
    waits.until(lambda at: button(at, "Make the vocabulary").is_enabled())
    button(browser, "Make the vocabulary").click()
    waits.until(lambda at: "Vocabulary from-a-form" in words(at))
    waits.until(lambda at: "Done in" in words(at))  # without anybody's doing
    assert (library_folder / "vocabularies" / "from-a-form" / "tokenizer.json").is_file()
    browser.get(f"{served}/runs")
    waits.until(lambda at: "Vocabulary from-a-form" in words(at) and "done" in words(at))
    browser.get(f"{served}/training?train=BERT")
    offered = "input[aria-label*=Vocabulary]"  # what the form now begins with
    waits.until(
        lambda at: (at.find_element(By.CSS_SELECTOR, offered).get_attribute("value") or "").startswith("from")
    )
