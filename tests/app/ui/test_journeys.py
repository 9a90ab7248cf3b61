"""The main journeys, from their first press to their last, in Chromium over a page that really runs."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

PLACES = ("cellar", "attic", "garden", "kitchen", "workshop")
NOTES = (
    "The pump in the {} drips again and a bucket stands below it.",
    "Ada painted the wall of the {} light green before the party.",
    "Somebody left the window of the {} open, and the rain came in.",
    "Mice have eaten the apples that were kept in the {}.",
    "We want a second lamp for the {}, since it is too dark to read.",
    "The key of the {} hangs behind the clock from now on.",
)


class TestFirstStart:
    """Nothing is there but a folder's name."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(library=str(tmp_path / "mine"), device="cpu")

    def test_from_nothing_to_a_collection_that_is_searched_judged_compared_and_mapped(
        self, visitor: Any, settings: Settings, tmp_path: Path
    ) -> None:
        rows = [
            {"id": f"{place}-{at}", "text": note.format(place), "place": place, "year": 2015 + at}
            for place in PLACES
            for at, note in enumerate(NOTES)
        ]
        (tmp_path / "house.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        visitor.goes_to("")
        visitor.presses("Create a library here")
        visitor.presses("Files")
        visitor.gives(tmp_path / "house.jsonl")
        visitor.types("Name of the new collection", "house")
        visitor.presses("Add house.jsonl to house")
        visitor.sees("house is ready to search")

        visitor.goes_to("?collection=house&q=water+comes+out+of+a+machine")
        visitor.sees_element(".ns-card mark")
        visitor.sees("drips again")
        visitor.presses("garden (6)")
        visitor.sees("place: garden")
        visitor.is_at("filter=")
        visitor.presses("Relevant")
        visitor.sees("check_circle")
        with Library.open(settings.library, device="cpu") as library:
            judged = library.collection("house").judgements.list()
        assert [(one.document, one.relevant, one.rank) for one in judged] == [("garden-0", True, 1)]

        visitor.goes_to("compare?collection=house&q=too+dark&left-mode=dense&right-mode=lexical")
        visitor.sees_element(".ns-item")
        visitor.sees("Rank-biased overlap")

        visitor.goes_to("explore?collection=house&view=clusters")
        visitor.presses("Find clusters")
        visitor.sees("Sort by")
        visitor.goes_to("explore?collection=house&view=map")
        visitor.presses("Create the map")
        visitor.sees_element("[data-testid=stBidiComponentIsolated]")


@pytest.mark.long
def test_a_training_is_watched_and_what_it_made_answers_in_the_end(visitor: Any, settings: Settings) -> None:
    visitor.goes_to("training?collection=samples&train=Sentence+encoder")
    visitor.presses("Samples")
    visitor.sees("rows")
    visitor.presses("steps")
    visitor.types("How many", "2")
    visitor.types("Name", "mine", enter=False)
    visitor.presses("Start training")
    visitor.sees("Fine-tune mine")
    visitor.finds("document.querySelector('[data-testid=stMain]').scrollTop === 0")  # where it is shown
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
    visitor.finds("document.querySelector('[data-testid=stMain]').scrollTop === 0")  # where it is shown
    visitor.sees("Done in")
    with Library.open(settings.library, device="cpu") as library:
        live = library.collection("samples").overview().live
        assert live is not None
        assert (live.number, live.encoder.name) == (2, "mine")
    visitor.goes_to("?collection=samples&q=frost+on+a+cold+night")
    visitor.sees_element(".ns-card mark")


@pytest.mark.long
def test_two_people_search_at_once_and_see_what_the_other_judged(visitors: Callable[..., Any]) -> None:
    people = [visitors() for _ in range(2)]
    queries = ("frost+on+a+cold+night", "how+to+bake+bread")

    def search(one: Any, query: str) -> None:
        one.goes_to(f"?collection=samples&q={query}&k=3")
        one.sees_element(".ns-card mark")

    at_once = [threading.Thread(target=search, args=pair) for pair in zip(people, queries, strict=True)]
    for each in at_once:
        each.start()
    for each in at_once:
        each.join()
    first, second = (one.titles(3) for one in people)
    assert set(first).isdisjoint(second)
    people[0].presses("Not relevant")
    people[0].sees("check_circle")
    search(people[1], queries[0])
    people[1].sees("check_circle")
    assert people[1].titles(3) == first


class TestPassword:
    """A page that asks for one."""

    @pytest.fixture
    def settings(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
        monkeypatch.setenv("NEARSAY_UI_PASSWORD", "a quiet harbour")
        return settings

    @pytest.mark.long
    def test_it_is_asked_once_in_a_browser_until_somebody_signs_out(
        self, visitors: Callable[..., Any], settings: Settings
    ) -> None:
        asked, visitor = "input[aria-label=Password]", visitors()
        visitor.goes_to("collections?collection=samples&see=Documents")
        visitor.types("Password", "a quiet harbour")
        visitor.sees("Sign out")
        visitor.sees("160 documents")  # the page of the address, and not the first
        visitor.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        visitor.sees_element(".ns-card mark")
        other = visitors()
        other.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        other.sees_element(asked)
        other.finds("document.activeElement.type === 'password'")  # one can type at once
        first = visitor.browser.current_window_handle
        visitor.browser.switch_to.new_window("tab")
        visitor.goes_to("?collection=samples&q=frost+on+a+cold+night&k=3")
        visitor.sees_element(".ns-card mark")
        second = visitor.browser.current_window_handle
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


@pytest.mark.long
def test_a_title_stands_clear_of_what_is_below_it_on_a_phone(visitors):
    visitor = visitors(width=500)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    visitor.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    top = "Math.min(...[...document.querySelectorAll('[data-testid=stMain] :is(input, button)')]"
    top += ".map(each => each.getBoundingClientRect().top).filter(each => each > title.top))"
    inside = "const range = document.createRange(); range.selectNodeContents(document.querySelector('h1'))\n"
    inside += f"const title = range.getBoundingClientRect(); return {top} - title.bottom"
    for page, name in (("", "Search"), ("collections", "Collections"), ("compare", "Compare")):
        visitor.goes_to(page)
        visitor.finds(f"document.querySelector('h1')?.textContent.includes('{name}')")
        gap = visitor.acts(lambda at: [at.execute_script(inside)], "there is nothing below the title")[0]
        assert 4 <= gap < 40, (name, gap)
