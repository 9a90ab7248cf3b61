"""What is said of a collection, and which encoders are offered."""

from dataclasses import replace

from nearsay.app.ui.collections.card_words import facts, to_be_told
from nearsay.indexer import Library
from nearsay.indexer.catalogue.generations import GenerationState


def test_a_sound_collection_has_nothing_to_be_told(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": "a", "text": "a cat sat", "year": 2001}])
    found = cats.overview()
    assert to_be_told(found) == []
    assert ("Encoder", "words, 8 dimensions") in facts(found)
    assert ("Fields", "year") in facts(found)
    assert ("Clusters", "none yet") in facts(found)


def test_what_waits_is_told_with_its_remedy(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": str(at), "text": f"a cat sat {at} times"} for at in range(4)])
    found = cats.overview()
    ready = replace(found.generations[0], number=2, state=GenerationState.READY)
    said = to_be_told(replace(found, waiting=3, removed=2, generations=(*found.generations, ready)))
    assert [sentence.split()[0] for sentence in said] == ["3", "Generation", "2"]
    assert "goes on if the same is added again" in said[0]
    assert "embeds what it had read" in said[0]
    assert "promoted" in said[1]
    assert "Compact it" in said[2]
