"""What travels to the browser: small, and exactly what was drawn."""

import gzip
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from nearsay.app.ui.map_component.show_map import PackedMap, packed_map
from nearsay.indexer.maps.drawing import Drawing, field_of

KINDS = {"f4": "<f4", "f8": "<f8", "i4": "<i4"}


def unpacked(shown: PackedMap) -> tuple[dict[str, Any], Callable[[dict[str, Any]], list[float]]]:
    assert shown.packed[:16].decode() == shown.digest
    body = gzip.decompress(shown.packed[16:])
    (length,) = struct.unpack_from("<I", body)

    def array(found: dict[str, Any]) -> list[float]:
        begin = 4 + length + found["from"]
        assert begin % np.dtype(KINDS[found["kind"]]).itemsize == 0, "a browser could not read it"
        return np.frombuffer(body, KINDS[found["kind"]], found["count"], begin).tolist()

    return json.loads(body[4 : 4 + length]), array


def test_the_browser_gets_what_is_drawn(heaps: Callable[..., Drawing]) -> None:
    drawn = heaps(7)
    content, array = unpacked(packed_map(drawn))
    assert np.stack([array(content["x"]), array(content["y"])], axis=1).tolist() == drawn.places.tolist()
    assert [field["name"] for field in content["fields"]] == ["cluster", "year", "kind"]
    cluster, year, kind = content["fields"]
    assert array(cluster["codes"]) == [0, 1, 2, 0, 1, 2, 0]
    assert array(year["numbers"]) == [2000, 2001, 2002, 2003, 2004, 2005, 2006]
    assert array(kind["codes"]) == [0, 1, 0, 1, 0, 1, 0]
    assert content["title"][3] == "title 3"
    assert content["text"][1] == "text 1 of bread and ovens"
    assert content["chosen"] == 0


def test_no_value_is_no_number(heaps: Callable[..., Drawing]) -> None:
    drawn = heaps(3, fields=(field_of("year", [1999, None, 2001]),))
    content, array = unpacked(packed_map(drawn))
    first, missing, last = array(content["fields"][1]["numbers"])
    assert (first, last) == (1999, 2001)
    assert np.isnan(missing)


def test_texts_are_cut(heaps: Callable[..., Drawing]) -> None:
    long = [replace(row, text="x" * 500) for row in heaps(3).rows]
    content, _ = unpacked(packed_map(heaps(3, rows=long)))
    assert all(len(text) <= 120 for text in content["text"])


def test_of_many_passages_only_titles_travel(
    heaps: Callable[..., Drawing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.app.ui.map_component.show_map._MOST_TEXTS", 59)
    monkeypatch.setattr("nearsay.app.ui.map_component.show_map._MOST_VALUES", 50)
    ids = field_of("number", [f"n{at}" for at in range(60)])
    content, _ = unpacked(packed_map(heaps(fields=(*heaps().fields, ids))))
    assert content["text"] is None
    assert content["title"][0] == "title 0"
    assert "number" not in [field["name"] for field in content["fields"]]


def test_a_passage_without_a_title_is_known_by_its_text(
    heaps: Callable[..., Drawing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.app.ui.map_component.show_map._MOST_TEXTS", 2)
    rows = [replace(row, title="") for row in heaps(3).rows]
    content, _ = unpacked(packed_map(heaps(3, rows=rows)))
    assert content["title"][2] == "text 2 of <b>trains</b>"


def test_the_same_drawing_is_the_same_map(heaps: Callable[..., Drawing]) -> None:
    one, other = packed_map(heaps()), packed_map(heaps())
    assert (one.digest, one.packed) == (other.digest, other.packed)
    moved = heaps().places + np.float32(1)
    assert packed_map(heaps(places=moved)).digest != one.digest


def test_a_hundred_thousand_points_take_less_than_two_megabytes(heaps: Callable[..., Drawing]) -> None:
    assert len(packed_map(heaps(100_000)).packed) < 2_000_000


def test_the_scripts_take_texts_as_text_alone_and_ask_nobody() -> None:
    parts = [each for each in files("nearsay.app.ui.map_component").iterdir() if each.is_file()]
    texts = {each.name: each.read_text("utf-8") for each in parts if not each.name.endswith(".py")}
    assert {"map.html", "map.css", "map.js", "map_points.js", "selecting.js", "shelf.js"} <= texts.keys()
    for name, text in texts.items():
        for way in (
            *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"),
            *("fetch(", "XMLHttpRequest", "import(", "@import", "url(", "WebSocket", "sendBeacon", "://"),
        ):
            assert way not in text, name
