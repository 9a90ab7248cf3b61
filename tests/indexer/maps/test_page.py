"""The page: everything in it, nothing from elsewhere, no text as markup."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from naming import Naming

from nearsay.indexer.maps.draw_map import map_page, preview_length
from nearsay.indexer.maps.drawing import Drawing

Draw = Callable[..., Drawing]


class Tags(HTMLParser):
    """Every tag with its attributes, and the text inside of each kind."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.inside.setdefault(self.tags[-1][0], []).append(data)


def content(page: str) -> dict[str, Any]:
    (packed,) = re.findall(r'id="data">([A-Za-z0-9+/=]*)</script>', page)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def test_the_page_carries_what_is_drawn(draw: Draw, nasty: str) -> None:
    found = content(map_page(draw()).decode())
    assert (found["x"], found["y"]) == ([0, 1, 4, 9], [0, 0, 2, 3])
    assert found["id"] == ["d0", "d1", "d2", "d3"]
    assert found["text"] == ["about cats", nasty, "about dogs", "about nothing"]
    assert [field["name"] for field in found["fields"]] == ["cluster", "venue", "year"]
    clusters, venues, years = found["fields"]
    assert clusters["codes"] == [0, 0, 1, -1]
    assert [name["text"] for name in clusters["names"]] == [nasty, "dogs"]
    assert (venues["values"][0], venues["codes"]) == ("acl", [0, 1, 0, -1])
    assert (years["numbers"], years["low"], years["high"]) == ([2019, 2020, None, 2021], 2019, 2021)
    assert (found["chosen"], found["notes"]) == (0, ["a note"])
    assert content(map_page(draw(colour_by="year")).decode())["chosen"] == 2
    assert content(map_page(draw(colour_by=None, clusters=None, labels=())).decode())["chosen"] == -1


def test_no_text_becomes_markup(draw: Draw, nasty: str) -> None:
    page = map_page(draw(collection=nasty)).decode()
    tags = Tags(page)
    assert [tag for tag, _ in tags.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in tags.tags]
    assert not any(name.startswith("on") for _, attributes in tags.tags for name in attributes)
    assert "document.title='taken'" not in page.replace("&#x27;", "'").split("</title>")[1]


def test_the_script_takes_texts_as_text_alone(draw: Draw) -> None:
    page = map_page(draw()).decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in page


def test_nothing_comes_from_elsewhere(draw: Draw) -> None:
    page = map_page(draw()).decode()
    assert "://" not in page
    for _, attributes in Tags(page).tags:
        assert not {"src", "href", "action", "srcset"} & attributes.keys()
    for way in ("fetch(", "XMLHttpRequest", "import(", "@import", "url(", "WebSocket", "sendBeacon"):
        assert way not in page


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(draw: Draw) -> None:
    page = map_page(draw()).decode()
    tags = Tags(page)
    (policy,) = (
        each["content"] for _, each in tags.tags if each.get("http-equiv") == "Content-Security-Policy"
    )
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)[0]
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]
    hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (script, style)]
    assert policy is not None
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"script-src 'sha256-{hashes[0]}'",
        f"style-src 'sha256-{hashes[1]}'",
    ]


def test_the_same_drawing_gives_the_same_page(draw: Draw) -> None:
    assert map_page(draw()) == map_page(draw())


@pytest.mark.parametrize(("points", "characters"), [(1, 600), (100_000, 200), (250_000, 80), (10**6, 60)])
def test_of_many_points_less_text_is_shown(points: int, characters: int) -> None:
    assert preview_length(points) == characters


def test_what_is_cut_is_said(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearsay.indexer.maps.draw_map._PREVIEW", (9, 9))
    found = content(map_page(draw()).decode())
    assert found["text"][0] == "about ca…"
    assert found["notes"] == ["a note", Naming("9 characters")]


def test_values_without_end_share_a_colour(draw: Draw) -> None:
    many = draw(
        ids=np.arange(70),
        places=np.zeros((70, 2), dtype=np.float32),
        rows=[draw().rows[0]] * 70,
        clusters=None,
        labels=(),
        fields=(_field_of_many(70),),
        colour_by="many",
    )
    (field,) = content(map_page(many).decode())["fields"]
    assert (len(field["values"]), field["shown"][-1], field["names"]) == (70, "others", [])
    assert len(field["shown"]) == len(field["colours"]) == 19


def _field_of_many(count: int) -> object:
    from nearsay.indexer.maps.drawing import field_of

    return field_of("many", [f"value {at:02}" for at in range(count)])
