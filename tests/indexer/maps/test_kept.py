"""The map as it is kept."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from words_encoder import WordsEncoder

from nearsay.data.errors import NearsayError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import maps as table
from nearsay.indexer.maps import mapping
from nearsay.indexer.maps.mapping import MapOptions


@pytest.fixture
def papers(tmp_path: Path, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    """Thirty documents."""
    monkeypatch.setattr(mapping, "MapOptions", partial(MapOptions, rounds=3))
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        collection = library.collection("papers", chunking="none")
        collection.add_rows(
            [{"id": f"d{at}", "text": f"{'x ' * (at % 6 + 1)}{'yy ' * at}"} for at in range(30)]
        )
        yield collection


def test_there_is_none_before_it_was_made(papers: Collection) -> None:
    assert papers.explore.kept_map() is None
    assert papers.explore.kept_map_number() is None


def test_the_kept_map_is_the_one_that_was_made_and_nothing_is_added_to_it(papers: Collection) -> None:
    made = papers.explore.map()
    papers.add_rows([{"id": "later", "text": "something that came later"}])
    kept = papers.explore.kept_map()
    assert kept is not None
    assert (len(kept), kept.new, kept.added, kept.created_at) == (30, False, 0, made.created_at)
    np.testing.assert_array_equal(kept.points.places, made.points.places)


def test_removed_passages_are_not_on_it(papers: Collection) -> None:
    made = papers.explore.map()
    papers.remove(["d0", "d29"])
    kept = papers.explore.kept_map()
    assert kept is not None
    np.testing.assert_array_equal(kept.points.ids, made.points.ids[1:-1])
    np.testing.assert_array_equal(kept.points.places, made.points.places[1:-1])


def test_another_map_has_another_number(papers: Collection) -> None:
    papers.explore.map()
    first = papers.explore.kept_map_number()
    papers.explore.map()
    assert papers.explore.kept_map_number() == first
    papers.explore.map(anew=True)
    assert papers.explore.kept_map_number() not in (None, first)


def test_a_damaged_map_is_refused_with_its_remedy(papers: Collection) -> None:
    papers.explore.map()
    with papers.library.store.database.writing() as connection:
        connection.execute(table.update().values(points=b"NEARMAP1"))
    with pytest.raises(NearsayError, match=": nearsay explore map papers --replace"):
        papers.explore.kept_map()


def test_its_drawing_holds_the_passages_that_lie_on_it(papers: Collection) -> None:
    papers.explore.map()
    kept = papers.explore.kept_map()
    assert kept is not None
    drawn = papers.explore.drawing(kept, most=7, longest=3)
    assert len(drawn) == 7
    assert {len(row.text) for row in drawn.rows} == {3}
    rows = papers.explore.passages([int(number) for number in drawn.ids[:2]] + [999])
    assert [row.document_id for row in rows] == [row.document_id for row in drawn.rows[:2]]


def test_no_file_is_written_where_none_is_asked_for(papers: Collection, tmp_path: Path) -> None:
    report = papers.explore.draw_map(None)
    assert (report.out, report.bytes, report.drawn, report.mapped, report.laid_out) == (None, 0, 0, 30, True)
    assert papers.explore.kept_map_number() is not None
    assert [file.name for file in tmp_path.iterdir()] == ["library"]
