"""The main journeys, from their first press to their last, in Chromium over a page that really runs."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

pytestmark = pytest.mark.slow

PLACES = ("cellar", "attic", "garden", "kitchen", "workshop")
NOTES = (
    "The pump in the {} drips again and a bucket stands below it.",
    "Ada painted the wall of the {} light green before the party.",
    "Somebody left the window of the {} open, and the rain came in.",
    "Mice have eaten the apples that were kept in the {}.",
    "We want a second lamp for the {}, since it is too dark to read.",
    "The key of the {} hangs behind the clock from now on.",
)

_IDLE = """
const app = document.querySelector('[data-testid=stApp]')
return app?.getAttribute('data-test-script-state') === 'notRunning'
"""


class Visitor:
    """Somebody at a browser, who waits for what they look for, and sees only text."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address

    def goes_to(self, page: str) -> None:
        self.browser.get(f"{self.address}/{page}")

    def sees(self, text: str, seconds: float = 180.0) -> None:
        self._until(lambda _: text in self.text(), f"'{text}' is not shown", seconds)

    def sees_element(self, selector: str, seconds: float = 120.0) -> None:
        found = "return document.querySelector(arguments[0])"
        self._until(lambda at: at.execute_script(found, selector), f"there is no {selector}", seconds)

    def presses(self, text: str) -> None:
        """The button, link or choice of this name."""

        def pressed(at: Any) -> bool:
            return bool(
                at.execute_script(
                    """
                    const named = each => {
                        const copy = each.cloneNode(true)  // the name of an icon is text too
                        copy.querySelectorAll('[data-testid=stIconMaterial]').forEach(icon => icon.remove())
                        return copy.textContent.trim()
                    }
                    const every = [...document.querySelectorAll('button, a, label')]
                    const found = every.filter(each => !each.disabled && each.offsetParent)
                        .filter(each => named(each) === arguments[0])
                    if (!found.length) return false
                    found[0].scrollIntoView({block: 'center'})
                    found[0].click()
                    return true
                    """,
                    text,
                )
            )

        self._until(pressed, f"there is no button '{text}'")

    def types(self, label: str, text: str, *, enter: bool = True) -> None:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        def typed(at: Any) -> bool:
            field = at.find_element(By.CSS_SELECTOR, f"input[aria-label='{label}']")
            field.send_keys(Keys.CONTROL, "a")
            field.send_keys(text, Keys.ENTER if enter else Keys.TAB)
            return True

        self._until(typed, f"there is no field '{label}'")

    def gives(self, *files: Path) -> None:
        from selenium.webdriver.common.by import By

        def given(at: Any) -> bool:
            # Streamlit forgets a file that is given in the moment in which it begins to run the page again.
            if not at.execute_script(_IDLE):
                return False
            at.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys("\n".join(map(str, files)))
            return True

        self._until(given, "there is no place for files")

    def keeps_something(self) -> None:
        self._until(
            lambda at: at.execute_script("return !!localStorage.getItem('nearsay')"), "nothing is kept"
        )

    def text(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    def titles(self) -> list[str]:
        shown = "return [...document.querySelectorAll('.ns-title')].map(each => each.innerText)"
        return list(self.browser.execute_script(shown))

    def _until(self, true: Callable[[Any], Any], otherwise: str, seconds: float = 120.0) -> None:
        from selenium.common.exceptions import TimeoutException, WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        # What is on the page is drawn anew at any time: then it is looked for again.
        waiting = WebDriverWait(self.browser, seconds, 0.2, ignored_exceptions=[WebDriverException])
        try:
            waiting.until(true, f"{otherwise} at {self.browser.current_url}")
        except TimeoutException as error:
            raise AssertionError(f"{error.msg}, where this is read:\n{self.text()}") from error


@pytest.fixture
def visitor(browsers: Callable[..., Any], served: str) -> Visitor:
    return Visitor(browsers(), served)


class TestFirstStart:
    """Nothing is there but a folder's name."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(library=str(tmp_path / "mine"), device="cpu")

    def test_from_nothing_to_a_collection_that_is_searched_judged_compared_and_mapped(
        self, visitor: Visitor, settings: Settings, tmp_path: Path
    ) -> None:
        rows = [
            {"id": f"{place}-{at}", "text": note.format(place), "place": place, "year": 2015 + at}
            for place in PLACES
            for at, note in enumerate(NOTES)
        ]
        (tmp_path / "house.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        visitor.goes_to("")
        visitor.presses("Make a library here")
        visitor.presses("Files")
        visitor.gives(tmp_path / "house.jsonl")
        visitor.types("Name of the new collection", "house")
        visitor.presses("Add house.jsonl to house")
        visitor.sees("house can be searched")

        visitor.goes_to("?collection=house&q=water+comes+out+of+a+machine")
        visitor.sees_element(".ns-card mark")
        visitor.sees("drips again")
        visitor.presses("garden (6)")
        visitor.sees("place: garden")
        assert "filter=" in visitor.browser.current_url or "where=" in visitor.browser.current_url
        visitor.presses("Relevant")
        visitor.sees("check_circle")
        with Library.open(settings.library, device="cpu") as library:
            judged = library.collection("house").judgements.list()
        assert [(one.document, one.relevant, one.rank) for one in judged] == [("garden-0", True, 1)]

        visitor.goes_to("compare?collection=house&q=too+dark&left-mode=dense&right-mode=lexical")
        visitor.sees_element(".ns-item")
        visitor.sees("Rank-biased overlap")

        visitor.goes_to("explore?collection=house&view=clusters")
        visitor.presses("Make clusters")
        visitor.sees("Sorted by")
        visitor.goes_to("explore?collection=house&view=map")
        visitor.presses("Make the map")
        visitor.sees_element("[data-testid=stBidiComponentIsolated]")


def test_a_training_is_watched_and_what_it_made_answers_in_the_end(
    visitor: Visitor, settings: Settings
) -> None:
    visitor.goes_to("training?collection=samples&train=Sentence+encoder")
    visitor.presses("Samples")
    visitor.sees("rows")
    visitor.presses("steps")
    visitor.types("How many", "4")
    visitor.types("Name", "mine", enter=False)
    visitor.presses("Start training")
    visitor.sees("of 4 steps")
    visitor.sees("Done in")

    visitor.goes_to("encoders?collection=samples&part=List")
    visitor.sees("made here")
    visitor.presses("Embed a collection with it")
    visitor.presses("Embed")
    visitor.sees("Done in")

    visitor.goes_to("collections?collection=samples&see=Generations")
    visitor.presses("Promote generation 2 …")
    visitor.sees("This will change")
    visitor.presses("Promote")
    visitor.sees("Done in")
    with Library.open(settings.library, device="cpu") as library:
        live = library.collection("samples").overview().live
        assert live is not None
        assert (live.number, live.encoder.name) == (2, "mine")
    visitor.goes_to("?collection=samples&q=frost+on+a+cold+night")
    visitor.sees_element(".ns-card mark")


def test_two_people_search_at_once_and_see_what_the_other_judged(
    browsers: Callable[..., Any], served: str
) -> None:
    people = [Visitor(browsers(), served) for _ in range(2)]
    queries = ("frost+on+a+cold+night", "how+to+bake+bread")

    def search(one: Visitor, query: str) -> None:
        one.goes_to(f"?collection=samples&q={query}&k=3")
        one.sees_element(".ns-card mark")

    at_once = [threading.Thread(target=search, args=pair) for pair in zip(people, queries, strict=True)]
    for each in at_once:
        each.start()
    for each in at_once:
        each.join()
    first, second = (one.titles() for one in people)
    assert len(first) == len(second) == 3
    assert set(first).isdisjoint(second)
    people[0].presses("Not relevant")
    people[0].sees("check_circle")
    search(people[1], queries[0])
    people[1].sees("check_circle")
    assert people[1].titles() == first


class TestPassword:
    """A page that asks for one."""

    @pytest.fixture
    def settings(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setenv("NEARSAY_UI_PASSWORD", "a quiet harbour")
        return settings

    def test_it_is_asked_once_in_a_browser_until_somebody_signs_out(
        self, visitor: Visitor, browsers: Callable[..., Any], served: str, settings: Settings
    ) -> None:
        asked = "input[aria-label=Password]"
        visitor.goes_to("collections?collection=samples&see=Documents")
        visitor.types("Password", "a quiet harbour")
        visitor.sees("Sign out")
        visitor.sees("160 documents")  # the page of the address, and not the first
        visitor.keeps_something()
        visitor.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        visitor.sees_element(".ns-card mark")
        other = Visitor(browsers(), served)
        other.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        other.sees_element(asked)
        visitor.browser.switch_to.new_window("tab")
        visitor.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        visitor.sees_element(".ns-card mark")
        first, second = visitor.browser.window_handles
        visitor.browser.switch_to.window(first)
        visitor.presses("Sign out")
        visitor.sees_element(asked)
        visitor.browser.switch_to.window(second)
        visitor.presses("Relevant")  # on a page that was open already
        visitor.sees_element(asked)
        with Library.open(settings.library, device="cpu") as library:
            assert not library.collection("samples").judgements.list()
        visitor.goes_to("?collection=samples")
        visitor.sees_element(asked)
