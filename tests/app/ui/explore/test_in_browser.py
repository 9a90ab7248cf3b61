"""The page Explore in a real browser: dialogs and files, of which AppTest knows nothing."""

import json

import pytest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


@pytest.fixture
def settings(explored: Settings) -> Settings:
    """The served library is the explored one."""
    return explored


@pytest.mark.long
def test_documents_are_compared_merged_exported_and_looked_for(visitor, settings, tmp_path):
    visitor.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    visitor.goes_to("explore?view=duplicates&collection=notes&dup_cosine=0.9")
    visitor.sees("2 near-duplicates")
    visitor.sees_element(".ns-card ins")
    visitor.presses("Merge into it …")
    visitor.presses("Merge")
    visitor.until(lambda _: len(list(_documents(settings))) == 4, "nothing was merged")
    visitor.until(lambda _: visitor.text().count("near-duplicates") == 1, "the merged are still shown")

    visitor.presses("Export without duplicates")
    file = tmp_path / "notes-one-of-each.jsonl"
    visitor.until(lambda _: file.exists(), "nothing was downloaded")
    assert len([json.loads(line) for line in file.read_text("utf-8").splitlines()]) == 3

    visitor.goes_to("explore?view=clusters&collection=samples")
    visitor.presses("Search in it")
    visitor.is_at("filter=%7B%22cluster%22")
    visitor.is_at("collection=samples")
    visitor.finds("document.querySelector('[data-testid=stMain] h1').innerText === 'Search'")


@pytest.mark.long
def test_however_many_documents_are_to_go_the_buttons_are_in_sight(visitor, settings):
    with Library.open(settings.library, device="cpu") as library:
        rows = ({"id": f"copy-{at}", "text": "The office is closed in August."} for at in range(60))
        library.collection("copies").add_rows(rows)
    visitor.goes_to("explore?view=duplicates&collection=copies")
    visitor.presses("Keep this one …")
    visitor.sees("and 9 more")
    visitor.is_still()
    button = (
        "[...document.querySelectorAll('[role=dialog] button')].find(e => e.innerText.includes('Cancel'))"
    )
    assert (
        visitor.finds(f"{button}.getBoundingClientRect().bottom <= innerHeight ? 'in sight' : 'below'")
        == "in sight"
    )


@pytest.mark.long
def test_long_names_are_read_whole_in_an_open_list_on_a_phone(visitors, settings):
    text = "The committee agreed that the office stays closed between the years, and nobody answers letters."
    with Library.open(settings.library, device="cpu") as library:
        library.collection("long").add_rows(
            {
                "id": f"record-{at}",
                "title": f"{'On the hours of the office ' * 3}{at}",
                "text": f"{text} {at}",
            }
            for at in range(3)
        )
    visitor = visitors(width=500)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    visitor.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    visitor.goes_to("explore?view=duplicates&collection=long&dup_cosine=0.9")
    visitor.sees("3 near-duplicates")

    def opens(at):
        own = "[data-testid=stMain] .react-aria-ComboBox:has([aria-label=Keep]) button"
        button = at.find_element("css selector", own)
        at.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        return True

    visitor.acts(opens, "there is no list")
    visitor.sees_element("[role=option]", 3)
    widths = (
        "[...document.querySelectorAll('[data-item-hl]')].map(each => [each.scrollWidth, each.clientWidth])"
    )
    assert all(needed <= there for needed, there in visitor.finds(widths))


def _documents(settings):
    with Library.open(settings.library, device="cpu") as library:
        yield from library.collection("notes").documents()
