"""Searching in a generation that is not live."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli.main import main
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.snapshots.latest_snapshot import LatestSnapshot
from nearsay.indexer.vectors.errors import UnknownGenerationError

_ROWS = [
    {"id": "cat", "text": "a cat sat"},
    {"id": "dog", "text": "the dog ran far"},
    {"id": "bird", "text": "parrots whistle melodies"},
]


@pytest.fixture
def pets(tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Generation 1 of the words encoder is live, generation 2 of another is ready."""
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "letters": WordsEncoder("letters", dimension=4)}
    with Library.open(tmp_path / "library", load_encoder=encoders.__getitem__) as library:
        collection = library.collection("pets")
        collection.add_rows(_ROWS)
        collection.rebuild("letters")
        yield collection


@pytest.mark.parametrize("mode", ["dense", "hybrid", "lexical"])
def test_another_generation_answers_by_its_own_encoder(pets: Collection, mode: str) -> None:
    here, there = (pets.search("a cat sat", mode=mode, generation=number) for number in (None, 2))
    assert {hit.lineage.generation for hit in here} == {1}
    assert {hit.lineage.generation for hit in there} == {2}
    assert {hit.lineage.encoder for hit in there} == {"letters"}
    assert there[0].id == "cat"


def test_what_it_finds_is_what_it_would_find_live(pets: Collection) -> None:
    before = pets.search("the dog sat", mode="dense", generation=2)
    pets.promote()
    after = pets.search("the dog sat", mode="dense")
    assert [(hit.id, hit.score) for hit in before] == [(hit.id, hit.score) for hit in after]
    back = pets.search("the dog sat", mode="dense", generation=1)  # retired by now
    assert back[0].lineage.generation == 1


def test_several_queries_are_searched_there_too(pets: Collection) -> None:
    found = pets.search(["a cat sat", "the dog ran far"], 1, generation=2)
    assert [(hits[0].id, hits[0].lineage.generation) for hits in found] == [("cat", 2), ("dog", 2)]


def test_the_live_generation_may_be_named(pets: Collection) -> None:
    assert pets.search("a cat sat", generation=1)[0].lineage.generation == 1


def test_passages_that_it_lacks_are_said(pets: Collection) -> None:
    pets.add_rows([{"id": "fish", "text": "fish swim"}])
    found = pets.search("fish swim", generation=2)
    assert "fish" not in {hit.id for hit in found}
    (note,) = [note for note in found.notes if "generation" in note]
    assert note == Naming("1 passage", "generation 2", "not searched")
    assert "nearsay index promote pets --generation 2" in note
    assert not [note for note in pets.search("fish swim").notes if "generation" in note]


def test_removed_passages_are_not_found_there(pets: Collection) -> None:
    pets.search("a cat sat", generation=2)
    pets.remove(["cat"])
    assert "cat" not in {hit.id for hit in pets.search("a cat sat", generation=2)}
    pets.compact()
    assert "cat" not in {hit.id for hit in pets.search("a cat sat", generation=2)}


def test_a_generation_that_is_not_there_is_named_with_those_that_are(pets: Collection) -> None:
    with pytest.raises(UnknownGenerationError, match=r"no generation 7.*1, 2"):
        pets.search("cat", generation=7)


def test_a_generation_that_is_being_built_is_refused(pets: Collection) -> None:
    store = pets.library.store
    with store.database.writing() as connection:
        generations.set_state(connection, pets.generations()[1], GenerationState.BUILDING)
    with pytest.raises(UnknownGenerationError, match="still being built"):
        pets.search("cat", generation=2)


def test_a_dropped_generation_is_refused_though_it_was_searched_before(pets: Collection) -> None:
    pets.promote()
    pets.search("cat", generation=1)
    pets.compact(drop_retired=True)
    with pytest.raises(BadInputError, match="no generation 1"):
        pets.search("cat", generation=1)


def test_snapshots_are_opened_once_and_a_few_are_kept(pets: Collection) -> None:
    live, other = pets._snapshot.take(), pets._snapshot.take(2)
    assert pets._snapshot.take() is live
    assert pets._snapshot.take(2) is other
    assert pets._snapshot.take(1) is live


def test_the_command_searches_there(tmp_path: Path, pets: Collection) -> None:
    given = ["search", "pets", "cat", "--mode", "lexical", "--json", "--library", str(tmp_path / "library")]
    found = CliRunner().invoke(main, [*given, "--generation", "2"])
    assert found.exit_code == 0
    assert '"generation": 2' in found.output


def test_what_was_open_before_a_promotion_is_not_opened_again(pets: Collection) -> None:
    latest = LatestSnapshot(CollectionRecord(pets.library.store, "pets", None))
    assert latest.take().generation.number == 1
    before = latest.take(2)
    pets.promote()
    after = latest.take()
    assert after.generation.number == 2
    assert [*after.opened] == [*before.opened]
    assert all(after.opened[number] is before.opened[number] for number in before.opened)


@pytest.mark.long
def test_a_compaction_frees_the_files_of_a_generation_that_nobody_asks_for_again(pets: Collection) -> None:
    latest = LatestSnapshot(CollectionRecord(pets.library.store, "pets", None))
    opened = weakref.ref(latest.take(2).vectors)
    pets.remove(["cat"])
    latest.take()
    gc.collect()
    assert opened() is not None  # its files are there still, and need not be read again
    pets.compact()
    latest.take()
    gc.collect()
    assert opened() is None
