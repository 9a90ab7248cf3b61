"""A collection's map: kept, brought up to date, begun anew."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Library, collection_writing
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import maps as table
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.maps import mapping
from nearsay.indexer.maps.mapping import Map, MapOptions
from nearsay.indexer.vectors.progress import Progress

MapOf = Callable[..., Map]


@pytest.fixture
def library(tmp_path: Path, words: WordsEncoder) -> Iterator[Library]:
    """A library that knows a second encoder, of fewer dimensions."""
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "letters": WordsEncoder("letters", dimension=5)}
    with Library.open(tmp_path / "library", load_encoder=encoders.__getitem__) as opened:
        yield opened


def rows(first: int, end: int) -> list[dict[str, str]]:
    """Texts whose vectors differ: as many words of 1, 2, 3 and 4 letters as the digits of a number say."""
    return [{"id": f"d{at}", "text": text(7 * at + 1011)} for at in range(first, end)]


def text(number: int) -> str:
    return " ".join(
        " ".join(["x" * length] * int(digit)) for length, digit in enumerate(str(number), 1) if digit != "0"
    )


@pytest.fixture
def papers(library: Library) -> Collection:
    """Forty documents."""
    collection = library.collection("papers", chunking="none")
    collection.add_rows(rows(0, 40))
    return collection


@pytest.fixture
def map_of(monkeypatch: pytest.MonkeyPatch) -> MapOf:
    """Maps a collection in few rounds."""
    monkeypatch.setattr(mapping, "MapOptions", partial(MapOptions, rounds=5, neighbours=4))
    return lambda collection, **options: collection.explore.map(**options)


def test_a_map_is_laid_out_once_and_then_kept(papers: Collection, map_of: MapOf) -> None:
    first = map_of(papers)
    assert (len(first), first.new, first.added, first.generation) == (40, True, 0, 1)
    again = map_of(papers)
    assert (again.new, again.added, again.created_at) == (False, 0, first.created_at)
    assert np.array_equal(again.points.places, first.points.places)
    assert np.array_equal(again.points.ids, papers.vectors()[0])
    assert again.parameters == {"seed": MapOptions().seed, "neighbours": 4, "laid_out": 40, "exact": True}


def test_a_writer_at_the_end_is_waited_for_as_long_as_the_work_took(
    papers: Collection, map_of: MapOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def lock(*of: object) -> AbstractContextManager[Database]:
        waits.append(of[-1])
        return writer_lock(*of)

    monkeypatch.setattr(mapping, "time", SimpleNamespace(monotonic=itertools.count(0.0, 60.0).__next__))
    monkeypatch.setattr(collection_writing, "writer_lock", lock)
    assert map_of(papers).new
    assert waits == [60.0]


def test_what_is_added_comes_among_the_others_and_what_is_removed_leaves(
    papers: Collection, map_of: MapOf
) -> None:
    first = map_of(papers)
    papers.add_rows(rows(40, 45))
    papers.remove(["d0", "d1"])
    grown = map_of(papers)
    assert (len(grown), grown.added, grown.new) == (43, 5, False)
    assert np.array_equal(grown.points.places[:38], first.points.places[2:])
    assert grown.points.laid_out.tolist() == [True] * 38 + [False] * 5
    assert grown.notes == ()
    kept = map_of(papers)
    assert kept.added == 0
    assert np.array_equal(kept.points.places, grown.points.places)
    papers.remove(["d42"])
    assert len(map_of(papers)) == 42


def test_when_most_were_only_put_among_others_it_is_said(papers: Collection, map_of: MapOf) -> None:
    papers.remove(f"d{at}" for at in range(10, 40))
    map_of(papers)
    papers.add_rows(rows(100, 130))
    (note,) = map_of(papers).notes
    assert note == Naming("71%", "distinct passages", 10)
    assert note.endswith("nearsay explore map papers --replace")
    anew = map_of(papers, anew=True)
    assert (anew.new, anew.notes, bool(anew.points.laid_out[10:].any())) == (True, (), True)


def test_copies_are_not_taken_for_passages_that_were_put_among_others(
    papers: Collection, map_of: MapOf
) -> None:
    papers.add_rows([row | {"id": f"{row['id']}-{copy}"} for row in rows(0, 10) for copy in range(12)])
    map_of(papers)
    papers.add_rows(rows(40, 41))
    grown = map_of(papers)
    assert (grown.added, grown.new, grown.notes) == (1, False, ())
    assert grown.points.laid_out.mean() < 0.5


def test_a_map_of_a_handful_is_laid_out_again_when_as_many_come(papers: Collection, map_of: MapOf) -> None:
    papers.remove(f"d{at}" for at in range(3, 40))
    first = map_of(papers)
    papers.add_rows(rows(40, 42))
    assert (map_of(papers).new, map_of(papers).generation) == (False, 1)
    papers.add_rows(rows(100, 110))
    found = map_of(papers)
    assert (found.new, found.parameters["begun_from"]) == (True, 1)
    assert len(np.unique(found.points.places, axis=0)) == 15
    assert np.ptp(found.points.places, axis=0).min() > 0.5 * np.ptp(first.points.places, axis=0).min()


def test_a_map_of_which_nothing_is_left_is_laid_out_anew(papers: Collection, map_of: MapOf) -> None:
    map_of(papers)
    papers.add_rows(rows(40, 50))
    papers.remove(f"d{at}" for at in range(40))
    found = map_of(papers)
    assert (len(found), found.new) == (10, True)


def test_another_seed_needs_a_new_layout(papers: Collection, map_of: MapOf) -> None:
    first = map_of(papers, seed=1)
    (note,) = map_of(papers, seed=2).notes
    assert note == Naming("seed 1", "--replace")
    second = map_of(papers, seed=2, anew=True)
    assert not np.array_equal(second.points.places, first.points.places)
    assert np.array_equal(map_of(papers, seed=1, anew=True).points.places, first.points.places)


def test_where_no_seed_is_named_that_of_the_kept_map_stays(papers: Collection, map_of: MapOf) -> None:
    first = map_of(papers, seed=7)
    again = map_of(papers, anew=True)
    assert again.parameters["seed"] == 7
    assert np.array_equal(again.points.places, first.points.places)
    papers.rebuild("letters")
    papers.promote()
    assert map_of(papers).parameters["seed"] == 7


def test_a_new_encoders_map_begins_from_the_old_one(papers: Collection, map_of: MapOf) -> None:
    old = map_of(papers)
    papers.rebuild("letters")
    papers.promote()
    new = map_of(papers)
    assert (new.generation, new.new, new.parameters["begun_from"]) == (2, True, 1)
    assert new.notes == (Naming("map of generation 1", "aligned"),)
    fresh = map_of(
        papers, anew=True, seed=1
    )  # with the same seed the same vectors but for zeros lie the same
    assert "begun_from" not in fresh.parameters
    away = [np.linalg.norm(each.points.places - old.points.places, axis=1).mean() for each in (new, fresh)]
    assert away[0] < away[1]
    papers.rollback()
    assert np.array_equal(map_of(papers).points.places, old.points.places)


def test_places_outlive_the_generation_that_was_mapped(papers: Collection, map_of: MapOf) -> None:
    old = map_of(papers)
    for encoder in ("letters", "words", "letters"):
        papers.rebuild(encoder)
        papers.promote()
        papers.compact(drop_retired=True)
        assert papers.explore.kept_map() is None
    new = map_of(papers)
    assert (new.generation, new.new, new.parameters["begun_from"]) == (4, True, 1)
    assert map_of(papers).new is False
    fresh = map_of(
        papers, anew=True, seed=1
    )  # with the same seed the same vectors but for zeros lie the same
    away = [np.linalg.norm(each.points.places - old.points.places, axis=1).mean() for each in (new, fresh)]
    assert away[0] < away[1]


def test_nothing_is_kept_of_what_was_stopped(papers: Collection, map_of: MapOf) -> None:
    def stop(progress: Progress) -> None:
        if progress.doing == "laying out" and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_of(papers, progress=stop)
    assert map_of(papers).new


def test_while_somebody_writes_a_map_is_made_and_not_kept(
    papers: Collection, map_of: MapOf, library: Library
) -> None:
    row = papers.snapshot().collection
    with writer_lock(library.store.locks, "papers", row.id, library.store.database, "add"):
        found = map_of(papers)
    assert (found.new, len(found.notes)) == (True, 1)
    assert found.notes[0].startswith("the map was not saved: ")
    assert map_of(papers).new


def test_in_a_library_that_may_only_be_read_a_map_is_made_and_not_kept(
    papers: Collection, map_of: MapOf, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise NearsayError(f"{library.store.locks} may not be written")

    with monkeypatch.context() as patch:
        patch.setattr(collection_writing, "writer_lock", refused)
        found = map_of(papers)
    assert (found.new, len(found), len(found.notes)) == (True, len(papers), 1)
    assert str(library.store.locks) in found.notes[0]
    assert map_of(papers).new


def test_a_map_of_a_generation_that_went_is_not_kept(
    papers: Collection, map_of: MapOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers.rebuild("letters")
    laid_out = mapping.laid_out

    def promoted_meanwhile(*arguments: object, **options: object) -> object:
        made = laid_out(*arguments, **options)
        papers.promote()
        return made

    monkeypatch.setattr(mapping, "laid_out", promoted_meanwhile)
    assert map_of(papers).notes == (Naming("generation", "not saved"),)
    monkeypatch.setattr(mapping, "laid_out", laid_out)
    assert map_of(papers).parameters.get("begun_from") is None


def test_a_damaged_map_is_refused_until_it_is_laid_out_anew(
    papers: Collection, map_of: MapOf, library: Library
) -> None:
    map_of(papers)
    with library.store.database.writing() as connection:
        connection.execute(table.update().values(points=b"rubbish"))
    with pytest.raises(NearsayError, match=r"cannot be read: .*: nearsay explore map papers --replace"):
        map_of(papers)
    map_of(papers, anew=True)
    assert not map_of(papers).new


def test_an_empty_collection_has_no_map(papers: Collection, map_of: MapOf) -> None:
    papers.remove(f"d{at}" for at in range(40))
    with pytest.raises(BadInputError, match=r"nothing to map.*: nearsay documents add papers FILE"):
        map_of(papers)
