"""Passages that are embedded in any order: what has a vector is a set of ranges."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, documents, generations, passages, ranges
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import prepare
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.catalogue.tables import embedded_ranges
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.vectors.errors import LostLockError
from nearsay.indexer.writing import compaction
from nearsay.indexer.writing.index_state import index_state
from nearsay.indexer.writing.ingest import live_or_begin

_COUNT = 40


def _enter(database: Database, words: WordsEncoder, texts: list[str]) -> GenerationRow:
    """Documents 1, 2, … in a collection, none of them embedded; its live generation."""
    with database.writing() as connection:
        row = collections.create(connection, "papers", "none", "2026-01-01")
        generation = live_or_begin(connection, row, words, Plan().to_json())
        prepared = [prepare(Document(text), str(number)) for number, text in enumerate(texts, 1)]
        spans = [[(0, len(text))] for text in texts]
        documents.insert(connection, row.id, NewDocuments.of(prepared, spans), "2026-01-01")
    return generation


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Forty passages without vectors; each example rolls back what it did."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('ranges') / 'catalogue.sqlite'}")
    database.migrate(create=True)
    _enter(database, WordsEncoder(), ["a cat"] * _COUNT)
    yield database
    database.close()


_RANGE = st.tuples(st.integers(1, _COUNT), st.integers(0, 12)).map(
    lambda both: Range(both[0], min(_COUNT, both[0] + both[1]))
)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.one_of(_RANGE, st.integers(1, _COUNT)), max_size=25), size=st.integers(1, 9))
def test_ranges_say_what_a_set_of_passages_would(
    catalogue: Database, steps: list[Range | int], size: int
) -> None:
    """A range is entered, an integer removes that document: its passage has the same number here."""
    covered: set[int] = set()
    living = set(range(1, _COUNT + 1))
    with catalogue.writing() as connection:
        undone = connection.begin_nested()
        generation = generations.all_of(connection, 1)[0]
        for step in steps:
            if isinstance(step, int):
                documents.remove(connection, 1, document_table.c.id == str(step))
                living.discard(step)
            elif covered & (own := set(range(step.first, step.last + 1))):
                with pytest.raises(LostLockError), connection.begin_nested():
                    ranges.enter(connection, generation, step, 1)
            else:
                ranges.enter(connection, generation, step, 1)
                covered |= own
            there = ranges.embedded(connection, generation)
            rows = connection.execute(sa.select(sa.func.count()).select_from(embedded_ranges)).scalar_one()
            assert rows == len(there) - 1
            assert all(one.last < other.first for one, other in pairwise(there))
            numbers = np.arange(1, _COUNT + 1)
            inside = set(numbers[ranges.covered(there, numbers)].tolist())
            assert covered <= inside
            assert not (inside - covered) & living
            covered = inside
            assert ranges.unembedded(connection, generation) == len(living - covered)
            gaps = ranges.waiting(connection, generation, size)
            waiting = {number for gap in gaps for number in range(gap.first, gap.last + 1)}
            assert living - covered <= waiting
            assert not waiting & covered
            assert all(gap.last - gap.first < size for gap in gaps)
        undone.rollback()


def test_an_entry_between_two_ranges_makes_one_of_all_three(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        undone = connection.begin_nested()
        generation = generations.all_of(connection, 1)[0]
        for first, last in ((11, 20), (1, 5), (6, 10)):
            ranges.enter(connection, generation, Range(first, last), 2)
        (now,) = generations.all_of(connection, 1)
        assert (now.embedded_through, now.truncated) == (20, 6)
        assert ranges.embedded(connection, generation) == [Range(0, 20)]
        undone.rollback()


def _embed(collection: Collection, words: WordsEncoder, wanted: Range) -> None:
    """As one of several workers does it."""
    store, live = collection._store, collection._record.live()
    with SegmentWriter(store, live) as writer:
        some = passages.windows(store.database, live.collection_id, wanted.first, wanted.last, _COUNT)
        embed(some, words, writer)


def _findings(library: Library) -> list[str]:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_a_collection_embedded_in_any_order_answers_from_what_it_has(
    open_library: Callable[[], Library], words: WordsEncoder, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_TOGETHER", 3)
    chance = np.random.default_rng(seed)
    library = open_library()
    _enter(library.store.database, words, ["x" * int(length) for length in chance.integers(1, 30, _COUNT)])
    papers, reader = library.collection("papers"), open_library().collection("papers")
    living, embedded = set(range(1, _COUNT + 1)), set[int]()
    cuts = [0, *sorted(chance.choice(np.arange(1, _COUNT), 7, replace=False).tolist()), _COUNT]
    pieces = [Range(first + 1, last) for first, last in pairwise(cuts)]
    for place in chance.permutation(len(pieces)).tolist():
        _embed(papers, words, pieces[place])
        embedded |= set(range(pieces[place].first, pieces[place].last + 1))
        gone = int(chance.choice(sorted(living)))
        papers.remove([str(gone)])
        living.discard(gone)
        if chance.random() < 0.4:
            papers.compact()
        found = reader.search("xxx", _COUNT, mode="dense")
        assert {int(hit.id) for hit in found} == living & embedded
        assert reader.snapshot().waiting == len(living - embedded)
        assert _findings(library) == []
    assert papers.rebuild().embedded == 0
    assert reader.snapshot().generation.embedded_through >= max(living)


@pytest.mark.long
def test_an_addition_embeds_what_waits_between_the_ranges(
    open_library: Callable[[], Library], words: WordsEncoder
) -> None:
    library = open_library()
    _enter(library.store.database, words, [f"a cat {'x' * length}" for length in range(1, _COUNT + 1)])
    papers = library.collection("papers")
    for wanted in (Range(31, 35), Range(11, 20)):
        _embed(papers, words, wanted)
    papers.remove(["5", "40"])
    report = papers.add_rows(["a dog"])
    assert (report.resumed, report.embedded) == (_COUNT - 15 - 2, _COUNT - 15 - 2 + 1)
    assert len(papers.search("a cat", 100, mode="dense")) == _COUNT - 2 + 1
    assert papers.snapshot().generation.embedded_through == _COUNT + 1
    assert _findings(library) == []


def test_of_two_who_embed_the_same_passages_the_second_enters_nothing(
    open_library: Callable[[], Library], words: WordsEncoder
) -> None:
    library = open_library()
    _enter(library.store.database, words, ["a cat"] * _COUNT)
    papers = library.collection("papers")
    _embed(papers, words, Range(21, 30))
    with pytest.raises(LostLockError, match="11 to 25"):
        _embed(papers, words, Range(11, 25))
    assert papers.snapshot().searchable == 10
    files = list(Path(library.store.segments(1)).iterdir())
    assert len(files) == 2
    assert papers.compact().files_removed == 1, "what the second wrote is an orphan"
    assert _findings(library) == []


def test_no_index_spans_passages_that_wait(
    open_library: Callable[[], Library], words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    library = open_library()
    chance = np.random.default_rng(0)
    letters = np.array(list("abcdefgh "))
    _enter(
        library.store.database, words, ["".join(letters[chance.integers(0, 9, 24)]) for _ in range(_COUNT)]
    )
    papers = library.collection("papers")
    for wanted in (Range(1, 20), Range(31, 40)):
        _embed(papers, words, wanted)
    generation = papers._record.live()
    state = index_state(library.store, papers._record.row(), generation)
    assert [row.last_passage for row in state.vectors] == [20]
    assert state.plan.kind is PlanKind.EXACT
    _embed(papers, words, Range(21, 30))
    state = index_state(library.store, papers._record.row(), generation)
    assert sum(row.count for row in state.vectors) == _COUNT
