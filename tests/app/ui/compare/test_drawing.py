"""Two rankings side by side."""

import re
from base64 import b64decode
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from nearsay.app.ui.compare.page import both_ranks, drawing, lines_svg, moved
from nearsay.app.ui.side import Ranking
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.query.hit import Hit
from nearsay.indexer.query.ranking import Fusion

MakeHit = Callable[..., Hit]


@pytest.mark.parametrize(
    ("before", "after", "said"), [(None, 1, "new"), (2, 2, "="), (5, 2, "▲ 3"), (1, 3, "▼ 2")]
)
def test_a_change_of_rank_is_said(before: int | None, after: int, said: str) -> None:
    assert moved(before, after) == said


def test_lines_lead_from_rank_to_rank() -> None:
    svg = lines_svg({("a", 0): 1, ("b", 0): 2, ("c", 0): 3}, {("a", 0): 3, ("b", 0): 1, ("d", 0): 2}, 3)
    root = ET.fromstring(svg)  # noqa: S314 - our own
    paths = {path.get("d"): path for path in root}
    assert root.get("viewBox") == "0 0 100 30"
    assert set(paths) == {"M0 5 C40 5 60 25 100 25", "M0 15 C40 15 60 5 100 5"}
    assert paths["M0 5 C40 5 60 25 100 25"].get("stroke-dasharray")  # down: not by colour alone
    assert not paths["M0 15 C40 15 60 5 100 5"].get("stroke-dasharray")


def test_what_is_new_and_gone_is_said_and_nothing_is_markup(a_hit: MakeHit) -> None:
    evil = "<img src=x onerror=alert(1)>"
    left = [a_hit(rank=1, id_="a", title=evil), a_hit(rank=2, id_="b")]
    right = [a_hit(rank=1, id_="b"), a_hit(rank=2, id_="c", text=evil * 20)]
    made = drawing(left, right, (evil, "right"))
    assert re.findall(r'ns-change">([^<]*)<', made) == ["missing", "", "▲ 1", "new"]
    assert made.count("ns-lone") == 2
    assert made.count("<img") == 1
    picture = b64decode(re.findall(r"base64,([^\"]*)", made)[0])
    assert picture.startswith(b"<svg")
    assert picture.count(b"<path") == 1


def test_passages_of_one_document_are_different(a_hit: MakeHit) -> None:
    made = drawing([a_hit(passage=0)], [a_hit(passage=1)], ("l", "r"))
    assert re.findall(r'ns-change">([^<]*)<', made) == ["missing", "new"]


def test_an_empty_side_is_said(a_hit: MakeHit) -> None:
    assert "Nothing was found." in drawing([a_hit()], [], ("l", "r"))


def test_each_passage_comes_once_by_its_better_rank(a_hit: MakeHit) -> None:
    left = [a_hit(rank=rank, id_=id_) for rank, id_ in enumerate("abc", 1)]
    right = [a_hit(rank=rank, id_=id_) for rank, id_ in enumerate("cad", 1)]
    assert both_ranks(left, right) == [
        (1, 2, ("a", 0)),
        (3, 1, ("c", 0)),
        (2, None, ("b", 0)),
        (None, 3, ("d", 0)),
    ]


def test_a_ranking_names_its_mode_and_fusion() -> None:
    assert [(each.mode, each.fusion) for each in Ranking] == [
        (SearchMode.HYBRID, Fusion.WEIGHTED),
        (SearchMode.HYBRID, Fusion.RECIPROCAL_RANK),
        (SearchMode.DENSE, Fusion.WEIGHTED),
        (SearchMode.LEXICAL, Fusion.WEIGHTED),
    ]
