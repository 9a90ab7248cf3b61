"""What people searched for: kept only where that is switched on, and forgotten when it is switched off."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Library
from nearsay.indexer.query import search_log


@pytest.fixture
def pets(tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        pets = library.collection("pets")
        pets.add_rows([{"id": "cat", "text": "a cat sat"}, {"id": "dog", "text": "the dog dug"}])
        yield pets


def test_nothing_is_kept_unless_it_is_switched_on(pets: Collection, tmp_path: Path) -> None:
    pets.search("a cat")
    assert not (tmp_path / "library" / "searches").exists()
    with pytest.raises(BadInputError, match="nearsay judgements log pets --on"):
        pets.judgements.searches.queries()


def test_searches_are_counted_and_forgotten(pets: Collection, tmp_path: Path) -> None:
    log = pets.judgements.searches
    log.switch(on=True)
    pets.search("a dog")
    pets.search(["a cat", "A  cat!"])
    pets.search("the owl", mode="lexical")
    pets.search(np.ones(pets.snapshot().generation.encoder.dimension, dtype=np.float32))
    pets.search("x" * 3_000)
    assert log.queries() == [("A cat!", 2), ("the owl", 1), ("a dog", 1)]
    assert log.queries(1) == [("A cat!", 2)]
    with (tmp_path / "library" / "searches" / "pets.jsonl").open("a") as file:
        file.write('{"query": "half')  # a process was killed
    assert len(log.queries()) == 3
    assert log.switch(on=False) == 4
    assert not log.on
    pets.search("a cat")
    assert not log.on


def test_a_place_that_takes_no_searches_is_named(pets: Collection, tmp_path: Path) -> None:
    place = tmp_path / "library" / "searches"
    place.touch()
    with pytest.raises(NearsayError) as refused:
        pets.judgements.searches.switch(on=True)
    assert str(refused.value) == Naming(place / "pets.jsonl")


def test_a_search_under_way_when_they_are_forgotten_does_not_switch_it_on_again(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pets.judgements.searches
    log.switch(on=True)

    def forgotten_meanwhile() -> str:
        log.switch(on=False)
        return "2026-11-26T12:00:00+00:00"

    monkeypatch.setattr(search_log, "now", forgotten_meanwhile)
    assert pets.search("a cat")[0].id == "cat"
    assert not log.on


def test_what_the_loop_asks_itself_is_nobodys_search(pets: Collection) -> None:
    pets.judgements.searches.switch(on=True)
    pets.judgements.add("a cat", "cat", relevant=True)
    pets.judgements.compare("dense", "lexical", ["a cat", "a dog"])
    assert pets.judgements.searches.queries() == []


def test_a_search_that_cannot_be_kept_is_answered(pets: Collection, tmp_path: Path) -> None:
    (tmp_path / "library" / "searches" / "pets.jsonl").mkdir(parents=True)
    assert pets.search("a cat")[0].id == "cat"


def test_a_removed_collection_leaves_no_searches(pets: Collection, tmp_path: Path) -> None:
    pets.judgements.searches.switch(on=True)
    pets.search("a cat")
    pets.delete()
    assert list((tmp_path / "library" / "searches").iterdir()) == []


@pytest.mark.long
def test_the_command_keeps_shows_and_forgets(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments, "--library", str(tmp_path / "library")])
        assert result.exit_code == 0, result.output
        return result.output

    rows = tmp_path / "rows.txt"
    rows.write_text("a cat sat on the mat\nkittens nap all day\n")
    run("documents", "add", "pets", str(rows))
    assert "searches of pets are logged from now on" in run("judgements", "log", "pets", "--on")
    run("search", "pets", "a sleeping cat", "--mode", "lexical")
    assert '{"query": "a sleeping cat", "times": 1}' in run("judgements", "log", "pets", "--json")
    between = ("--between", "lexical", "dense")
    assert "a sleeping cat" in run("judgements", "next", "pets", "--from-log", "5", *between, "--json")
    assert "would remove 1 search of 'pets'" in run("judgements", "log", "pets", "--off", "--dry-run")
    for wrong in (["--dry-run"], ["--yes"], ["--on", "--dry-run"], ["--on", "--yes"]):
        refused = CliRunner().invoke(main, ["judgements", "log", "pets", *wrong])
        assert refused.exit_code == 2
        assert "--off" in refused.output
    assert "1 search deleted" in run("judgements", "log", "pets", "--off", "--yes")
