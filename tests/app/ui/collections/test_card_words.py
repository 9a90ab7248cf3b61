"""What is said of a collection, and which encoders are offered."""

from dataclasses import replace

import pytest

from nearsay.app.ui.collections.page import facts, warnings_of
from nearsay.indexer import Library
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.vectors.segment import SegmentKind


def test_a_sound_collection_has_nothing_to_be_told(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": "a", "text": "a cat sat", "year": 2001}])
    found = cats.overview()
    assert warnings_of(found) == []
    assert ("Encoder", "words, 8 dimensions") in facts(found)
    assert ("Fields", "year") in facts(found)
    assert ("Clusters", "none yet") in facts(found)


def test_of_many_fields_the_first_are_named(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": "a", "text": "a cat sat", **{f"f{at:02}": at for at in range(25)}}])
    named = dict(facts(cats.overview()))["Fields"].split(", ")
    assert named == [*(f"f{at:02}" for at in range(20)), "and 5 more"]


def test_what_waits_is_told_with_its_remedy(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": str(at), "text": f"a cat sat {at} times"} for at in range(4)])
    found = cats.overview()
    ready = replace(found.generations[0], number=2, state=GenerationState.READY)
    said = warnings_of(replace(found, waiting=3, removed=2, generations=(*found.generations, ready)))
    assert [sentence.split()[0] for sentence in said] == ["3", "Generation", "2"]
    assert "add the same documents again" in said[0]
    assert "embeds what it had read" in said[0]
    assert "Promote it" in said[1]
    assert "Compact the collection" in said[2]


def test_what_no_index_has_is_told_when_it_is_much(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": str(at), "text": f"a cat sat {at} times"} for at in range(300)])
    assert cats.overview().unindexed == 300
    assert warnings_of(cats.overview()) == []
    monkeypatch.setattr("nearsay.app.ui.collections.page.EXACT_UP_TO", 299)
    (said,) = warnings_of(cats.overview())
    assert said.startswith("300 passages have no index")


def test_what_is_newer_than_every_index_is_unindexed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    cats = library.collection("cats")
    for batch in range(3):
        cats.add_rows([{"id": f"{batch}-{at}", "text": f"a cat sat {at} times"} for at in range(10 + batch)])
    vectors = cats.overview().segments
    for newest, count in ((vectors[1], 12), (vectors[2], 0)):
        of_it = [*vectors, replace(newest, kind=SegmentKind.INDEX)]
        monkeypatch.setattr(generations, "segments_of", lambda *_, of_it=of_it: of_it)
        assert cats.overview().unindexed == count
    monkeypatch.undo()
    cats.remove(["1-3", "2-0", "2-5"])
    assert cats.overview().unindexed == 30


def test_no_remedy_is_told_to_who_only_reads(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": str(at), "text": f"a cat sat {at} times"} for at in range(4)])
    (said,) = warnings_of(replace(cats.overview(), removed=2), may_write=False)
    assert said.startswith("2 removed passages")
    assert "Compact" not in said
