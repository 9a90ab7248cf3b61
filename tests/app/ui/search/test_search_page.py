"""The page Search over a real library."""

import datetime as dt
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.ui.asked import example_filter
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

Page = Callable[..., AppTest]
_QUERY = "frost on a cold clear night"
_ASK = {"q": _QUERY, "why": "false"}  # without the shading, which takes longest


def _cards(app: AppTest) -> list[str]:
    return [element.body for element in app.html if "ns-card" in element.body]


def _titles(app: AppTest) -> list[str]:
    return [
        html.unescape(
            re.sub(r"<[^>]*>", "", card.split('aria-level="3">')[1].split('<span class="ns-score">')[0])
        )
        for card in _cards(app)
    ]


def _pressed(app: AppTest, label: str, number: int = 0) -> AppTest:
    [button for button in app.button if button.label == label][number].click()
    app.run()
    assert not app.exception
    return app


@pytest.fixture
def library(library_folder) -> Library:
    with Library.open(library_folder, device="cpu") as library:
        yield library


@pytest.mark.long
def test_without_a_query_it_says_what_there_is_and_offers_examples(page: Page) -> None:
    app = page("search")
    assert any("holds 160 documents" in each.value for each in app.markdown)
    examples = [button for button in app.button if button.key.startswith("example")]
    assert len(examples) == 3
    examples[0].click()
    app.run()
    assert app.text_input(key="q").value == examples[0].label.replace("\\", "")
    assert len(_cards(app)) == 10


@pytest.mark.long
def test_a_query_in_the_address_shows_what_the_library_finds(page: Page, library: Library) -> None:
    app = page("search", q=_QUERY, k="12")
    hits = library.collection("samples").search(_QUERY, 12)
    assert _titles(app) == [hit.title for hit in hits[:10]]
    assert "<mark" in _cards(app)[0]
    assert "ns-best" in "".join(_cards(app))
    assert any(each.value == Naming("1 to 10", 12, "160 passages") for each in app.caption)
    app = _pressed(app, "Next")
    assert _titles(app) == [hit.title for hit in hits[10:]]
    assert app.query_params["at"] == "11"
    assert _titles(page("search", q=_QUERY, k="12", at="11")) == [hit.title for hit in hits[10:]]


def test_modes_and_each_document_once_are_asked_of_the_library(page: Page, library: Library) -> None:
    app = page("search", **_ASK, mode="lexical", once="true")
    hits = library.collection("samples").search(_QUERY, mode="lexical", by_document=True)
    assert _titles(app) == [hit.title for hit in hits]
    assert "BM25" in _cards(app)[0]
    assert "<u>" in _cards(app)[0]
    assert "<mark" not in _cards(app)[0]


@pytest.mark.long
def test_a_filter_stands_in_the_address_and_can_be_taken_back(page: Page, library: Library) -> None:
    app = page("search", **_ASK)
    widget = app.button_group(key="filter level")
    widget.set_value(["beginner"])
    app.run()
    assert app.query_params["filter"] == '{"level":["beginner"]}'
    hits = library.collection("samples").search(_QUERY, where="level = 'beginner'")
    assert _titles(app) == [hit.title for hit in hits]
    shared = page("search", **_ASK, filter='{"level":["beginner"]}')
    assert _titles(shared) == _titles(app)
    assert shared.button_group(key="filter level").value == ["beginner"]
    shared.button(key="drop level").click()
    shared.run()
    assert _titles(shared) == [hit.title for hit in library.collection("samples").search(_QUERY)]


@pytest.mark.long
def test_dates_have_bounds_to_choose_by(page: Page, library: Library) -> None:
    app = page("search", **_ASK)
    app.date_input(key="filter low date").set_value(dt.date(2022, 1, 1))
    app.run()
    hits = library.collection("samples").search(_QUERY, where="date >= 2022-01-01")
    assert _titles(app) == [hit.title for hit in hits]
    assert app.query_params["filter"] == '{"date":{"low":"2022-01-01"}}'


@pytest.mark.long
def test_numbers_have_a_range_with_the_bounds_of_all_documents(page: Page, library: Library) -> None:
    rows = [{"id": f"n{year}", "text": f"frost {year}", "year": year} for year in (2019, 2021)]
    library.collection("samples").add_rows(rows)
    app = page("search", **_ASK)
    low, high = (app.number_input(key=f"filter {side} year") for side in ("low", "high"))
    assert (low.value, low.placeholder, high.placeholder) == (None, "2019", "2021")
    low.set_value(2020)
    app.run()
    assert app.query_params["filter"] == '{"year":{"low":2020}}'
    assert len(_cards(app)) == 1
    assert "frost 2021" in html.unescape(re.sub(r"<[^>]*>", "", _cards(app)[0]))


@pytest.mark.long
def test_a_number_that_is_refused_is_told_below_its_field_and_once_in_place_of_the_results(
    page: Page, library: Library
) -> None:
    rows = [{"id": f"n{year}", "text": f"frost {year}", "year": year} for year in (2019, 2021)]
    library.collection("samples").add_rows(rows)
    app = page("search", **_ASK, filter='{"year":{"low":1e30}}')
    for place in (app.sidebar, app.main):
        assert ["is out of range" in each.value for each in place.error] == [True]
    app.number_input(key="filter low year").set_value(2020).run()
    assert not app.error
    assert len(_cards(app)) == 1


@pytest.mark.long
def test_a_field_is_filtered_in_one_place_with_the_counts_under_the_other_filters(
    page: Page, library: Library
) -> None:
    app = page("search", **_ASK)
    assert not app.main.button_group
    pills = app.sidebar.button_group(key="filter level")
    counts = {each.value: each.documents for each in library.collection("samples").facets("level").values}
    assert f"beginner \\({counts['beginner']}\\)" in pills.options
    pills.set_value(["beginner"])
    app.run()
    assert app.query_params["filter"] == '{"level":["beginner"]}'
    assert len(app.button_group(key="filter level").options) == len(counts)  # to take another beside it
    beginners = library.collection("samples").facets("kind", where="level = 'beginner'").values
    assert app.multiselect(key="filter kind").options == [
        f"{each.value} ({each.documents})" for each in beginners
    ]


@pytest.mark.long
def test_a_filter_by_hand_counts_and_a_wrong_one_is_a_sentence(page: Page, library: Library) -> None:
    app = page("search", **_ASK, where="level = 'beginner'")
    hits = library.collection("samples").search(_QUERY, where="level = 'beginner'")
    assert _titles(app) == [hit.title for hit in hits]
    first = library.collection("samples").browser.page(None, limit=1).rows[0].metadata
    shown = app.text_input(key="where").placeholder
    assert (shown, shown.partition(" ")[0] in first) == (example_filter(first), True)
    wrong = page("search", **_ASK, where="level = ")
    assert "cannot be read at its end" in wrong.sidebar.error[0].value
    assert "was ignored" in wrong.main.warning[0].value
    assert len(_cards(wrong)) == 10
    (folded,) = [each for each in wrong.sidebar.expander if each.label == "Filter expression"]
    assert folded.proto.expanded
    wrong.text_input(key="where").input("level = 'beginner'").run()
    assert not wrong.error
    assert not wrong.warning
    assert _titles(wrong) == [hit.title for hit in hits]


@pytest.mark.long
def test_an_address_that_makes_no_sense_is_told_and_the_rest_is_shown(page: Page) -> None:
    app = page("search", **_ASK, filter="nonsense", at="x", like="")
    assert app.warning[0].value == Naming("filter", "address", "cannot be read")
    assert len(_cards(app)) == 10


@pytest.mark.long
def test_of_a_question_that_the_encoder_cuts_is_told_how_much_was_compared(page: Page) -> None:
    said = "Only the first 254 tokens of your query were compared by meaning: all-MiniLM-L6-v2 reads"
    for mode, is_told in (("hybrid", True), ("dense", True), ("lexical", False)):
        app = page("search", q="frost " * 400, why="false", mode=mode)
        captions = [each.value.replace("\\", "") for each in app.caption]
        assert (f"{said} no more." in captions) is is_told
        assert _cards(app)
    app = page("search", q="frost " * 250, why="false")
    assert not any("Only the first" in each.value for each in app.caption)


@pytest.mark.long
def test_a_question_that_is_too_long_is_told_and_stays_to_be_shortened(page: Page) -> None:
    question = "frost" * 4160
    app = page("search", why="false")
    app.text_input(key="q").input(question).run()
    for shown in (app, page("search", q=question, why="false")):
        assert shown.text_input(key="q").value == question
        assert shown.error[0].value.replace("\\", "") == Naming("20,800 characters", "5,000")
        assert not _cards(shown)
    app.text_input(key="q").input(_QUERY).run()
    assert not app.error
    assert len(_cards(app)) == 10


@pytest.mark.long
def test_a_filter_that_is_too_long_is_told_before_it_is_read(page: Page) -> None:
    app = page("search", **_ASK, where="year = 1 or " * 2_000)
    assert app.error[0].value.replace("\\", "") == Naming("24,000 characters", "20,000")
    app = page("collections", see="Documents", docs_where="year = 1 or " * 2_000)
    assert app.error[0].value.replace("\\", "") == Naming("23,999 characters", "20,000")
    app = page("collections", see="Documents", docs_find="frost " * 1_000)
    assert app.error[0].value.replace("\\", "") == Naming("5,999 characters", "5,000")


@pytest.mark.long
def test_nothing_found_says_why_and_what_to_try(page: Page) -> None:
    app = page("search", q="zzzzqqq", mode="lexical", why="false")
    (told,) = app.info
    said = told.value.replace("\\", "")
    assert said == Naming("Nothing found", "mode dense")
    assert "--mode" not in said  # the page has a button for it
    assert not any("othing" in each.value for each in app.main.markdown)
    app = _pressed(app, "Also search by meaning")
    assert len(_cards(app)) == 10
    app = page("search", **_ASK, where="level = 'nobody'")
    assert [each.value for each in app.info] == [Naming("Nothing found", "filter")]
    app = _pressed(app, "Search without the filter")
    assert len(_cards(app)) == 10


@pytest.mark.long
def test_a_judgement_is_kept_shown_and_taken_back(page: Page, library: Library) -> None:
    judgements = library.collection("samples").judgements
    app = _pressed(page("search", **_ASK), "Relevant")
    (kept,) = judgements.list()
    assert (kept.query, kept.relevant, kept.rank, kept.mode, kept.generation) == (
        _QUERY,
        True,
        1,
        "hybrid",
        1,
    )
    app = _pressed(app, "Not relevant", 1)
    assert [one.relevant for one in judgements.list()] == [True, False]
    again = page("search", **_ASK)
    pressed = next(button for button in again.button if button.label == "Relevant")
    assert pressed.icon == ":material/check_circle:"
    app = _pressed(app, "Relevant")
    assert [one.relevant for one in judgements.list()] == [False]


def test_a_page_that_only_reads_has_no_judging(page: Page, settings: Settings) -> None:
    app = page("search", settings=replace(settings, read_only=True), **_ASK)
    assert len(_cards(app)) == 10
    assert not [button for button in app.button if "elevant" in button.label]


@pytest.mark.long
def test_more_like_this_has_an_address_of_its_own(page: Page, library: Library) -> None:
    samples = library.collection("samples")
    first, second = samples.search(_QUERY)[:2]
    app = _pressed(page("search", **_ASK), "More like this")
    assert app.query_params["like"] == first.id
    assert _titles(app) == [hit.title for hit in samples.similar(first.id)]
    app = _pressed(app, "Not like this")
    away = samples.similar(first.id)[0].id
    assert app.query_params["unlike"] == away
    hits = samples.similar(first.id, without=away)
    assert _titles(app) == [hit.title for hit in hits]
    assert _titles(page("search", like=[first.id, second.id])) == [
        hit.title for hit in samples.similar([first.id, second.id])
    ]
    app = _pressed(app, "Back to the search")
    assert _titles(app)[0] == first.title


@pytest.mark.long
def test_what_is_looked_for_by_likeness_is_shown_and_called_by_its_text_where_it_has_no_title(
    page: Page, library: Library
) -> None:
    text = "The barn owl hunts voles by ear."
    library.collection("samples").add_rows([{"text": text}])
    (found,) = [each for each in library.collection("samples").documents() if each.text == text]
    assert found.id.rpartition("#")[2].isalnum()
    app = page("search", like=[found.id, " ", found.id])
    assert text in _shown_text(next(each.body for each in app.html if text in each.body))
    assert app.multiselect(key="Like chosen").options == [text]


def _shown_text(body: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", body))


def test_like_a_document_that_is_not_there_is_a_sentence(page: Page) -> None:
    assert "has no document 'nobody'" in page("search", like="nobody").error[0].value.replace("\\", "")


@pytest.mark.long
def test_a_document_is_shown_whole(page: Page, library: Library) -> None:
    app = _pressed(page("search", **_ASK), "Document")
    first = library.collection("samples").search(_QUERY)[0]
    assert any("ns-document" in element.body for element in app.html)
    assert any(first.id in caption.value.replace("\\", "") for caption in app.caption)


@pytest.mark.long
def test_of_a_document_that_was_removed_meanwhile_it_is_told(page: Page, library: Library) -> None:
    app = page("search", **_ASK)
    first = library.collection("samples").search(_QUERY)[0]
    library.collection("samples").remove([first.id])
    app = _pressed(app, "Document")
    assert f"no document '{first.id}'" in app.error[0].value.replace("\\", "")
    assert any("ns-rank" in each.body for each in app.html)  # the other results


@pytest.mark.long
def test_of_two_clusters_with_one_name_the_one_that_is_chosen_is_searched(
    page: Page, settings: Settings
) -> None:
    with Library.open(settings.library, device="cpu") as library:
        explorer = library.collection("samples").explore
        explorer.cluster("kmeans", clusters=3)
        for number in (1, 2):
            explorer.rename_cluster(number, "the sea")
    app = page("search", q="a cat that does not eat")
    for number in (1, 2):
        app.button_group(key="filter cluster").set_value([number]).run()
        assert json.loads(app.session_state["filter"]) == {"cluster": [number]}
