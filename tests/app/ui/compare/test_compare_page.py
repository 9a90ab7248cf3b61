"""The page Compare over a real library."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library

Page = Callable[..., AppTest]
_QUERY = "frost on a cold clear night"


def _drawn(app: AppTest) -> str:
    (drawn,) = [element.body for element in app.html if "ns-versus" in element.body]
    return drawn


def _titles(drawn: str) -> tuple[list[str], list[str]]:
    left, right = (re.findall(r"<b>([^<]*)</b>", part) for part in drawn.split("<img"))
    return left, right


@pytest.fixture
def library(library_folder) -> Library:
    with Library.open(library_folder, device="cpu") as library:
        yield library


def test_two_modes_stand_side_by_side(page: Page, library: Library) -> None:
    app = page("compare", **{"q": _QUERY, "left-mode": "dense", "right-mode": "lexical"})
    samples = library.collection("samples")
    left, right = (samples.search(_QUERY, mode=mode) for mode in ("dense", "lexical"))
    assert _titles(_drawn(app)) == tuple([html.escape(hit.title) for hit in side] for side in (left, right))
    shared = {hit.id for hit in left} & {hit.id for hit in right}
    longest = max(len(left), len(right))
    assert app.metric[0].value == f"{len(shared) / longest:.0%}"


def test_one_generation_is_told_how_another_is_made(page: Page, library_folder: Path) -> None:
    app = page("compare")
    command = next(code.value for code in app.code if "index rebuild" in code.value)
    assert str(library_folder) in command  # it is given in a terminal, whose library may be another
    assert "samples --encoder ENCODER" in command
    assert app.selectbox(key="left-mode").value == "hybrid"
    assert app.selectbox(key="right-mode").value == "dense"


def test_what_both_sides_say_is_said_once(page: Page) -> None:
    app = page("compare", q=_QUERY, where="level = 'nobody'")
    (told,) = app.info
    assert told.value == Naming("Nothing found", "filter")
    assert not any("othing" in each.value for each in app.main.markdown)
    app = page("compare", **{"q": "zzzzqqq", "left-mode": "lexical", "right-mode": "dense"})
    assert [each.value for each in app.info] == [Naming("lexical", "Nothing found")]


@pytest.mark.long
def test_a_filter_holds_on_both_sides(page: Page, library: Library) -> None:
    app = page("compare", q=_QUERY, filter='{"level":["beginner"]}')
    samples = library.collection("samples")
    where = "level = 'beginner'"
    left, right = (samples.search(_QUERY, mode=mode, where=where) for mode in ("hybrid", "dense"))
    drawn = _titles(_drawn(app))
    assert [len(side) for side in drawn] == [len(left), len(right)]
    assert drawn[0][0] in left[0].title


def test_passages_of_both_sides_can_be_judged(page: Page, library: Library) -> None:
    app = page("compare", q=_QUERY, read="true")
    next(button for button in app.button if button.label == "Not relevant").click()
    app.run()
    (kept,) = library.collection("samples").judgements.list()
    assert (kept.query, kept.relevant, kept.rank, kept.mode) == (_QUERY, False, 1, "hybrid")


def test_who_may_only_read_is_offered_no_judging(page: Page, settings: Settings) -> None:
    app = page("compare", q=_QUERY, read="true", settings=replace(settings, read_only=True))
    assert [toggle.label for toggle in app.toggle] == ["Blind", "Read the passages"]
    assert not [button for button in app.button if "elevant" in button.label]


@pytest.mark.long
def test_of_a_question_that_the_encoder_cuts_is_told_once_how_much_was_compared(page: Page) -> None:
    asked = {"q": "frost " * 400, "left-mode": "lexical"}
    for right, times in (("hybrid", 1), ("lexical", 0)):
        app = page("compare", **asked, **{"right-mode": right})
        assert sum("Only the first 254 tokens" in each.value for each in app.caption) == times
    both = page("compare", **asked | {"left-mode": "dense", "right-mode": "hybrid"})
    assert sum("Only the first 254 tokens" in each.value for each in both.caption) == 1


def test_a_question_that_is_too_long_is_told(page: Page) -> None:
    app = page("compare", q="x" * 5001)
    assert "5,001 characters" in app.error[0].value.replace("\\", "")
    assert not [element for element in app.html if "ns-versus" in element.body]


@pytest.mark.long
def test_a_filter_by_hand_that_cannot_be_read_is_told_below_its_field(page: Page) -> None:
    app = page("compare", q=_QUERY, where="level = ")
    assert "cannot be read at its end" in app.sidebar.error[0].value
    assert "was ignored" in app.main.warning[0].value
    assert _drawn(app)
