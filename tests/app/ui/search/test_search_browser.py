"""Search and Compare in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearsay.indexer import Library

_EVIL = (
    "<img src=x onerror=\"document.title='run'\"> [a](javascript:alert(1)) ![b](http://nowhere.example/b.png)"
)


@pytest.fixture(scope="module")
def served(served_to_all: Callable[..., Any]) -> Any:
    """With a document that would run and load something."""

    def prepare(folder: Path) -> None:
        with Library.open(folder, device="cpu") as library:
            row = {"id": f"evil {_EVIL}", "title": _EVIL, "text": f"the zebra {_EVIL}", "venue": _EVIL}
            library.collection("samples").add_rows([row])

    return served_to_all(prepare)


@pytest.mark.long
def test_a_query_is_searched_by_enter_and_stands_in_the_address(visitor: Any) -> None:
    visitor.goes_to("")
    visitor.types("Search", "frost on a cold night")
    visitor.sees_element(".ns-card mark")
    first = visitor.titles(10)
    visitor.is_at("q=frost")
    visitor.browser.refresh()
    visitor.sees_element(".ns-card mark")
    assert visitor.titles(10) == first
    visitor.finds("!document.querySelector('.st-key-ns_hidden')?.offsetHeight")


@pytest.mark.long
def test_back_and_forward_lead_from_search_to_search(visitor: Any) -> None:
    visitor.goes_to("?collection=samples&k=3&why=false")
    visitor.types("Search", "frost on a cold night")
    first = visitor.titles(3)
    visitor.types("Search", "how to bake bread")
    visitor.is_at("q=how")
    visitor.is_still()
    second = visitor.titles(3)
    visitor.presses("More like this")
    visitor.is_at("like=")
    visitor.is_still()
    for go, query, found in (("back", "how to bake bread", second), ("back", "frost on a cold night", first)):
        visitor.finds(f"history.{go}() || true")
        shown = f"document.querySelector('input[aria-label=Search]')?.value === '{query}'"
        visitor.finds(f"{shown} && !location.search.includes('like=')")
        visitor.is_still()
        visitor.until(lambda _, found=found: visitor.titles(3) == found, f"{query} is not what was searched")
    visitor.finds("history.back() || true")
    visitor.sees("For example:")
    visitor.finds("history.forward() || true")
    visitor.is_at("q=frost")
    assert visitor.titles(3) == first


@pytest.mark.long
def test_the_menu_takes_a_query_from_one_page_to_the_other(visitor: Any) -> None:
    visitor.goes_to("?collection=samples&k=3&why=false&q=frost+on+a+cold+night")
    visitor.titles(3)
    visitor.presses("Compare")
    visitor.is_at("compare")
    visitor.is_at("q=frost")
    visitor.sees_element(".ns-item")


@pytest.mark.long
def test_the_query_is_there_again_after_another_page(visitor: Any) -> None:
    visitor.goes_to("?collection=samples&why=false&q=frost+on+a+cold+night")
    visitor.titles(10)
    visitor.presses("Explore")
    visitor.is_at("explore?collection")
    visitor.is_still()
    visitor.presses("Search")
    visitor.is_at("q=frost")
    visitor.titles(10)


@pytest.mark.long
def test_nothing_of_a_document_is_run_or_loaded(visitor: Any) -> None:
    for page in ("", "compare"):
        visitor.goes_to(f"{page}?q=zebra&mode=lexical&right-mode=lexical&left-mode=lexical&read=true")
        shown = visitor.finds("document.querySelector('.ns-card').innerText")
        assert "<img src=x onerror=" in shown
        visitor.is_still()
        assert visitor.browser.title != "run"
        assert not visitor.finds("[document.querySelectorAll('img[src=x]').length]")[0]
    asked = " ".join(entry["message"] for entry in visitor.browser.get_log("performance"))
    assert 'nowhere.example/b.png"' not in asked.replace("\\", "")


@pytest.mark.long
def test_the_lines_between_two_rankings_are_drawn(visitor: Any) -> None:
    visitor.goes_to("compare?q=frost+on+a+cold+night&right-mode=dense")
    assert visitor.finds("document.querySelector('img.ns-lines').naturalWidth") > 0
    visitor.sees_element(".ns-item", 20)
    tall = "document.querySelector('{}').getBoundingClientRect().height"
    height, item = visitor.finds(f"[{tall.format('img.ns-lines')}, {tall.format('.ns-item')}]")
    assert height == pytest.approx(10 * item, abs=1)  # each line begins at its row
