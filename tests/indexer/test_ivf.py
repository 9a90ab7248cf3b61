"""The FAISS index of a large generation."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.data.errors import MissingExtraError
from nearsay.indexer import Collection, Library, index_upkeep, ivf, snapshot
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.doctor import examine
from nearsay.indexer.errors import DamagedSegmentError
from nearsay.indexer.index_upkeep import refresh_index
from nearsay.indexer.ivf import IvfIndex, build
from nearsay.indexer.plan import Measured, Plan, PlanKind
from nearsay.indexer.segment import SegmentKind, VectorSegment
from nearsay.indexer.vector_store import VectorStore, unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

COUNT, DIMENSION, LISTS = 3000, 24, 128


def clustered(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors around sixty centres."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((60, DIMENSION))
    spread = 0.35 * generator.standard_normal((count, DIMENSION))
    return unit_length((centres[generator.integers(0, 60, count)] + spread).astype(np.float32))


TABLE = clustered(2 * COUNT)


@dataclass
class TableEncoder(WordsEncoder):
    """The vector of the text "17" is row 17 of TABLE."""

    name: str = "table"
    dimension: int = DIMENSION
    lineage: tuple[str, ...] = field(default=())

    def _window(self, texts: list[str], kind: TextKind) -> EncodedWindow:
        if kind is TextKind.PASSAGE:
            self.encoded += texts
        return EncodedWindow(TABLE[[int(text) for text in texts]], 0)


def rows(begin: int, end: int) -> list[dict[str, object]]:
    return [{"id": f"d{i}", "text": str(i), "third": i % 3, "rare": i % 500 == 7} for i in range(begin, end)]


def nearest_by_force(query: int, k: int, among: NDArray[np.bool_]) -> list[str]:
    scores = np.where(
        among, TABLE[: among.size].astype(np.float64) @ TABLE[query].astype(np.float64), -np.inf
    )
    return [f"d{i}" for i in np.argsort(-scores, kind="stable")[:k]]


# The index itself


@pytest.fixture(scope="module")
def vectors() -> VectorStore:
    """COUNT vectors in three segments, numbered by threes."""
    ids = np.arange(1, COUNT + 1) * 3
    cuts = [(0, 1000), (1000, 1700), (1700, COUNT)]
    return VectorStore([VectorSegment(str(b), ids[b:e], TABLE[b:e]) for b, e in cuts], DIMENSION)


@pytest.fixture(scope="module")
def alive() -> NDArray[np.bool_]:
    """Every passage but each tenth."""
    found = np.ones(3 * COUNT + 1, dtype=np.bool_)
    found[30::30] = False
    return found


@pytest.fixture(scope="module")
def built(vectors: VectorStore, alive: NDArray[np.bool_]) -> tuple[IvfIndex, Plan]:
    """An index over the living and the plan that was measured."""
    return build(vectors, alive, 3 * COUNT, Plan())


def test_the_index_holds_exactly_the_living_passages(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, _ = built
    assert index.ids().tolist() == vectors.ids[alive[vectors.ids]].tolist()
    assert len(index) == COUNT * 9 // 10
    assert index.through == 3 * COUNT


def test_the_plan_reaches_its_recall_target_and_reports_every_step(built: tuple[IvfIndex, Plan]) -> None:
    _, plan = built
    assert (plan.kind, plan.lists, plan.note) == (PlanKind.IVF, LISTS, "")
    assert plan.report[0] == Measured(PlanKind.EXACT, {}, 1.0, plan.report[0].milliseconds_a_query)
    tried = [4 * 2**step for step in range(len(plan.report) - 1)]
    assert [row.parameters for row in plan.report[1:]] == [{"lists": LISTS, "probes": n} for n in tried]
    assert plan.probes == tried[-1]
    assert plan.report[-1].recall_at_10 >= plan.recall_target
    assert all(row.recall_at_10 < plan.recall_target for row in plan.report[1:-1])
    assert all(row.milliseconds_a_query > 0 for row in plan.report)


def test_the_reported_recall_is_what_other_queries_get(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, plan = built
    living = vectors.ids[alive[vectors.ids]]
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(vectors.rows(vectors.positions(living)))
    queries = clustered(300, seed=5)
    _, expected = flat.search(queries, 10)
    shares = [
        np.intersect1d(living[truth], index.nearest(vectors, query, 10, plan.probes, alive).ids).size / 10
        for query, truth in zip(queries, expected, strict=True)
    ]
    assert np.mean(shares) == pytest.approx(plan.report[-1].recall_at_10, abs=0.05)


def test_a_target_that_no_index_reaches_makes_the_plan_exact_and_says_so(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    _, plan = build(vectors, alive, 3 * COUNT, Plan(recall_target=1.01))
    assert (plan.kind, plan.lists, plan.probes) == (PlanKind.EXACT, 0, 0)
    assert plan.note == "no index reached recall 1.01 at 10: searched exactly"
    assert [row.parameters.get("probes") for row in plan.report] == [None, 4, 8, 16, 32, 64, 128]
    recalls = [row.recall_at_10 for row in plan.report[1:]]
    assert recalls == sorted(recalls)
    assert recalls[-1] > 0.999


def test_the_same_vectors_give_the_same_index(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, plan = built
    again, plan_again = build(vectors, alive, 3 * COUNT, Plan())
    assert again.serialise().tobytes() == index.serialise().tobytes()
    assert untimed(plan_again) == untimed(plan)


def untimed(plan: Plan) -> Plan:
    return replace(plan, report=tuple(replace(row, milliseconds_a_query=0) for row in plan.report))


def test_scores_are_those_of_exact_search_to_the_bit(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, plan = built
    for query in clustered(20, seed=6):
        exact = vectors.nearest(query, COUNT, alive)
        scores = dict(zip(exact.ids.tolist(), exact.scores.tolist(), strict=True))
        found = index.nearest(vectors, query, 10, plan.probes, alive)
        assert found.ids.size == 10
        assert found.scores.tolist() == [scores[number] for number in found.ids.tolist()]
        assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
        whole = index.nearest(vectors, query, 10, LISTS, alive)
        assert whole.ids.tolist() == exact.ids[:10].tolist()


def test_passages_that_were_removed_after_the_building_never_come_back(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, _ = built
    query = TABLE[4]
    best = index.nearest(vectors, query, 5, LISTS, alive).ids
    fewer = alive.copy()
    fewer[best] = False
    found = index.nearest(vectors, query, 50, LISTS, fewer)
    assert np.intersect1d(found.ids, best).size == 0
    assert found.ids.tolist() == vectors.nearest(query, 50, fewer).ids.tolist()


def test_a_mask_shorter_than_the_index_hides_what_lies_beyond(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, _ = built
    found = index.nearest(vectors, TABLE[2999], 20, LISTS, alive[:1001])
    assert found.ids.max() <= 1000
    assert (
        found.ids.tolist() == vectors.nearest(TABLE[2999], 20, alive & (np.arange(9001) < 1001)).ids.tolist()
    )


def test_an_index_answers_the_same_after_it_was_serialised(
    built: tuple[IvfIndex, Plan], vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    index, plan = built
    again = IvfIndex.deserialise(index.serialise(), index.through, "abc")
    assert (again.through, again.sha256, len(again)) == (index.through, "abc", len(index))
    assert again.ids().tolist() == index.ids().tolist()
    for query in clustered(10, seed=7):
        before = index.nearest(vectors, query, 10, plan.probes, alive)
        after = again.nearest(vectors, query, 10, plan.probes, alive)
        assert after.ids.tolist() == before.ids.tolist()
        assert after.scores.tolist() == before.scores.tolist()


def test_an_index_is_measured_with_as_many_queries_as_there_are_passages(vectors: VectorStore) -> None:
    few = np.zeros(3 * COUNT + 1, dtype=np.bool_)
    few[3 : 3 * 121 : 3] = True
    index, plan = build(vectors, few, 3 * COUNT, Plan())
    assert len(index) == 120
    assert plan.report[-1].recall_at_10 >= plan.recall_target


def test_without_faiss_an_index_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"needs an optional package.*pip install 'nearsay\[cpu\]'"):
        build(vectors, alive, 3 * COUNT, Plan())


# The index in a library

OpenCollection = Callable[[], Collection]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of COUNT documents of which each tenth was removed, without an index."""
    folder = tmp_path_factory.mktemp("template") / "library"
    with Library.open(folder) as library:
        collection = library.collection("table", encoder=TableEncoder())
        collection.add_rows(rows(0, COUNT))
        collection.remove(f"d{i}" for i in range(0, COUNT, 10))
    return folder


@pytest.fixture
def open_table(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenCollection]:
    """Opens a copy of the template, as often as wanted; collections of over a thousand get an index there."""
    monkeypatch.setitem(refresh_index.__kwdefaults__, "exact_up_to", 1000)
    monkeypatch.setattr(snapshot, "_SCAN_ALL", 0)
    monkeypatch.setattr(snapshot, "_SCAN_SHARE", 0.0)
    shutil.copytree(template, tmp_path / "library")
    opened: list[Library] = []

    def open_it() -> Collection:
        opened.append(Library.open(tmp_path / "library", load_encoder=TableEncoder))
        return opened[-1].collection("table")

    yield open_it
    for library in opened:
        library.close()


@pytest.fixture
def indexed(open_table: OpenCollection) -> Collection:
    """The collection with its index."""
    collection = open_table()
    refresh(collection)
    return collection


def refresh(collection: Collection, *, always: bool = False) -> Plan:
    return refresh_index(collection._store, collection._record.row(), collection._record.live(), always=always)


def segments(collection: Collection, kind: SegmentKind) -> list[SegmentRow]:
    return [row for row in collection.overview().segments if row.kind is kind]


def path_of(collection: Collection, row: SegmentRow) -> Path:
    return collection._store.segment(collection._record.row().id, row.sha256)


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def encoded(collection: Collection) -> list[str]:
    encoder = collection.library.encoder("table")
    assert isinstance(encoder, TableEncoder)
    return encoder.encoded


LIVING = np.arange(COUNT) % 10 != 0


def test_a_large_collection_is_searched_through_its_index(
    indexed: Collection, open_table: OpenCollection
) -> None:
    plan = Plan.from_json(indexed._record.live().plan)
    assert plan.kind is PlanKind.IVF
    (row,) = segments(indexed, SegmentKind.INDEX)
    assert (row.count, row.first_passage, row.last_passage) == (COUNT * 9 // 10, 1, COUNT)
    right = 0
    for query in range(1, COUNT, 100):
        hits = open_table().search(str(query), 10) if query == 1 else indexed.search(str(query), 10)
        assert hits.notes == ()
        assert hits.qualifying == COUNT * 9 // 10
        assert {hit.lineage.plan for hit in hits} == {"ivf"}
        assert hits[0].id == f"d{query}"
        right += len({hit.id for hit in hits} & set(nearest_by_force(query, 10, LIVING)))
    assert right / 300 >= 0.93


def test_a_small_collection_gets_no_index(open_table: OpenCollection) -> None:
    collection = open_table()
    plan = refresh_index(
        collection._store, collection._record.row(), collection._record.live(), exact_up_to=COUNT * 9 // 10
    )
    assert plan == Plan()
    assert segments(collection, SegmentKind.INDEX) == []
    assert collection.search("1")[0].lineage.plan == "exact"


def test_removed_documents_never_come_back_through_the_index(indexed: Collection) -> None:
    best = [hit.id for hit in indexed.search("1", 20)]
    indexed.remove(best)
    among = LIVING.copy()
    among[[int(id_[1:]) for id_ in best]] = False
    hits = indexed.search("1", 500)
    assert len(hits) == 500
    assert hits[0].lineage.plan == "ivf"
    assert {hit.id for hit in hits}.isdisjoint(best)
    assert all(int(hit.id[1:]) % 10 for hit in hits)
    assert hits[0].id == nearest_by_force(1, 1, among)[0]


def test_a_filter_holds_for_everything_that_comes_through_the_index(indexed: Collection) -> None:
    hits = indexed.search("1", 10, where="third = 1")
    assert len(hits) == 10
    assert {hit.metadata["third"] for hit in hits} == {1}
    expected = nearest_by_force(1, 10, LIVING & (np.arange(COUNT) % 3 == 1))
    assert len({hit.id for hit in hits} & set(expected)) >= 9


def test_all_that_pass_a_narrow_filter_are_found_however_far_they_lie(indexed: Collection) -> None:
    hits = indexed.search("1", 6, where="rare = true")
    among = LIVING & (np.arange(COUNT) % 500 == 7)
    assert among.sum() == 6
    assert [hit.id for hit in hits] == nearest_by_force(1, 6, among)
    assert hits.notes == ()


def test_as_many_as_there_are_come_back_even_past_the_probed_lists(indexed: Collection) -> None:
    hits = indexed.search("1", COUNT)
    assert [hit.id for hit in hits] == nearest_by_force(1, COUNT * 9 // 10, LIVING)
    assert hits.notes == (f"2700 of the {COUNT} asked for: there are only 2700 passages",)


def test_what_is_newer_than_the_index_is_found_beside_it(indexed: Collection) -> None:
    (before,) = segments(indexed, SegmentKind.INDEX)
    indexed.add_rows([{"id": "new", "text": "1", "third": 2, "rare": False}, *rows(COUNT, COUNT + 50)])
    assert [row.sha256 for row in segments(indexed, SegmentKind.INDEX)] == [before.sha256]
    hits = indexed.search("1", 10)
    assert [(hit.id, hit.lineage.plan) for hit in hits[:2]] == [("d1", "ivf"), ("new", "ivf")]
    assert hits[0].score == hits[1].score
    assert indexed.search(str(COUNT + 9), 1)[0].id == f"d{COUNT + 9}"
    assert indexed.search("1", 1, where="third = 2")[0].id == "new"
    indexed.remove(["new"])
    assert "new" not in {hit.id for hit in indexed.search("1", 100)}


def test_an_index_that_was_outgrown_is_built_anew(indexed: Collection) -> None:
    (before,) = segments(indexed, SegmentKind.INDEX)
    indexed.add_rows(rows(COUNT, COUNT + 700))  # 3400 living, 1.25 times 2700 is 3375
    (after,) = segments(indexed, SegmentKind.INDEX)
    assert after.sha256 != before.sha256
    assert (after.count, after.last_passage) == (3400, COUNT + 700)
    found = indexed.snapshot()
    assert found.index is not None
    assert found.index.sha256 == after.sha256
    assert found.index.through == COUNT + 700
    assert [finding for finding in examine(indexed.library) if not finding.sound] == []


def test_an_index_that_is_no_use_any_more_is_dropped_with_its_plan(indexed: Collection) -> None:
    with indexed._store.database.writing() as connection:
        generations.set_plan(connection, indexed._record.live(), Plan(recall_target=1.01).to_json())
    plan = refresh(indexed, always=True)
    assert (plan.kind, len(plan.report)) == (PlanKind.EXACT, 7)
    assert Plan.from_json(indexed._record.live().plan) == plan
    assert segments(indexed, SegmentKind.INDEX) == []
    assert [hit.id for hit in indexed.search("1", 10)] == nearest_by_force(1, 10, LIVING)


def test_a_rebuild_after_nearly_everything_was_removed_needs_no_index(indexed: Collection) -> None:
    indexed.remove(where="id != 'd7' and id != 'd8'")
    assert indexed.rebuild().mended == 0
    hits = indexed.search("1", 5)
    assert [hit.id for hit in hits] == nearest_by_force(1, 2, np.isin(np.arange(COUNT), [7, 8]))


def test_compacting_under_an_index_changes_no_answer(indexed: Collection, open_table: OpenCollection) -> None:
    indexed.remove(where="third = 0")
    before = [(hit.id, hit.score) for hit in indexed.search("1", 50)]
    indexed.compact()
    assert [(hit.id, hit.score) for hit in indexed.search("1", 50)] == before
    assert [(hit.id, hit.score) for hit in open_table().search("1", 50)] == before
    assert [finding for finding in examine(indexed.library) if not finding.sound] == []


def test_without_faiss_an_indexed_collection_is_searched_exactly_with_a_note(
    indexed: Collection, open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "faiss_is_installed", lambda: False)
    hits = open_table().search("1", 10)
    assert hits.notes == (
        "FAISS is not installed; searched exactly instead. Install it: pip install 'nearsay[cpu]'",
    )
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)


def test_without_faiss_no_index_is_built(open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_upkeep, "faiss_is_installed", lambda: False)
    collection = open_table()
    assert refresh(collection) == Plan()
    assert segments(collection, SegmentKind.INDEX) == []
    assert [hit.id for hit in collection.search("1", 10)] == nearest_by_force(1, 10, LIVING)


def test_faiss_is_looked_for_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ivf.faiss_is_installed()
    monkeypatch.setattr(ivf.importlib.util, "find_spec", lambda _: None)
    assert not ivf.faiss_is_installed()


# Damage


@pytest.mark.parametrize("damage", [flip_last_byte, Path.unlink])
def test_a_damaged_index_is_left_out_with_a_note_and_a_rebuild_mends_it(
    indexed: Collection, open_table: OpenCollection, damage: Callable[[Path], None]
) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    damage(path_of(indexed, row))
    first = open_table()
    hits = first.search("1", 10)
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    (note,) = hits.notes
    assert row.sha256 in note
    assert note.endswith("searched exactly instead. Build it anew: nearsay index rebuild table")
    assert [row.state for row in segments(first, SegmentKind.INDEX)] == [SegmentState.QUARANTINED]

    second = open_table()
    assert second.search("1", 10).notes == (
        "the index is in quarantine; searched exactly instead. Build it anew: nearsay index rebuild table",
    )
    report = second.rebuild()
    assert (report.mended, report.embedded) == (1, 0)
    assert [row.state for row in segments(second, SegmentKind.INDEX)] == [SegmentState.CURRENT]
    after = second.search("1", 10)
    assert after.notes == ()
    assert {hit.lineage.plan for hit in after} == {"ivf"}
    assert encoded(second) == []


def test_an_index_damaged_before_anyone_searched_is_mended_by_a_rebuild(indexed: Collection) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    flip_last_byte(path_of(indexed, row))
    assert [finding.sound for finding in examine(indexed.library)] == [False, True, True]
    assert indexed.rebuild().mended == 1
    assert [finding.sound for finding in examine(indexed.library)] == [True, True, True]


def test_adding_replaces_an_index_in_quarantine(indexed: Collection, open_table: OpenCollection) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    flip_last_byte(path_of(indexed, row))
    other = open_table()
    assert len(other.search("1").notes) == 1
    other.add_rows(rows(COUNT, COUNT + 1))
    assert [row.state for row in segments(other, SegmentKind.INDEX)] == [SegmentState.CURRENT]
    hits = other.search("1")
    assert (hits.notes, hits[0].lineage.plan) == ((), "ivf")


def test_no_index_is_built_while_vectors_are_in_quarantine(open_table: OpenCollection) -> None:
    collection = open_table()
    flip_last_byte(path_of(collection, segments(collection, SegmentKind.VECTORS)[0]))
    with pytest.raises(DamagedSegmentError):
        collection.search("1")
    collection.add_rows(rows(COUNT, COUNT + 1500))
    assert segments(collection, SegmentKind.INDEX) == []
    assert collection.rebuild().mended == 1
    (row,) = segments(collection, SegmentKind.INDEX)
    assert row.count == COUNT * 9 // 10 + 1500
    assert collection.search("1", 1)[0].id == "d1"
    assert [finding for finding in examine(collection.library) if not finding.sound] == []


def test_an_index_is_not_built_over_vectors_that_turn_out_damaged(open_table: OpenCollection) -> None:
    collection = open_table()
    flip_last_byte(path_of(collection, segments(collection, SegmentKind.VECTORS)[0]))
    with pytest.raises(DamagedSegmentError, match=r"is damaged.*Mend it: nearsay index rebuild table$"):
        refresh(collection)
    assert collection.rebuild().mended == 1
    assert collection.search("1", 1)[0].lineage.plan == "ivf"


# What the doctor says


def test_the_doctor_proves_a_good_index(indexed: Collection) -> None:
    findings = examine(indexed.library, prove=True)
    assert [finding.sound for finding in findings] == [True] * 5
    assert findings[1].detail == "index of 2,700 vectors; 0 unknown, 0 lacking"
    assert findings[-1].detail == "50 of 50 found themselves first"


@pytest.mark.parametrize("left_out", [[2], [1502, 1503], [COUNT - 1, COUNT]])
def test_the_doctor_finds_passages_that_the_index_lacks(indexed: Collection, left_out: list[int]) -> None:
    vectors = indexed.snapshot().vectors
    alive = indexed.snapshot().alive.copy()
    alive[left_out] = False
    index, _ = build(vectors, alive, COUNT, Plan())
    replace_index(indexed, index)
    wrong = [finding for finding in examine(indexed.library) if not finding.sound]
    (finding,) = wrong
    assert finding.detail == (
        f"index of {2700 - len(left_out):,} vectors; 0 unknown, {len(left_out)} lacking. "
        "Mend it: nearsay index rebuild table"
    )
    indexed.rebuild()
    assert all(finding.sound for finding in examine(indexed.library))


def test_the_doctor_finds_passages_in_the_index_that_have_no_vector(indexed: Collection) -> None:
    taken = indexed.snapshot()
    (row,) = segments(indexed, SegmentKind.VECTORS)
    replaced = VectorSegment(row.sha256, taken.vectors.ids, taken.vectors.segments[0].vectors)
    index, _ = build(VectorStore([replaced], DIMENSION), taken.alive, COUNT, Plan())
    index._index.add_with_ids(TABLE[:1], np.array([COUNT + 1]))
    indexed.add_rows(rows(COUNT, COUNT + 1))
    (tail,) = segments(indexed, SegmentKind.VECTORS)[1:]
    replace_index(indexed, index)
    with indexed._store.database.writing() as connection:
        generations.remove_segment(connection, tail)
    details = [finding.detail for finding in examine(indexed.library) if not finding.sound]
    assert "1 lack a vector" in details[0]
    assert details[1].startswith("index of 2,701 vectors; 1 unknown, 0 lacking")


def replace_index(collection: Collection, index: IvfIndex) -> None:
    store, live = collection._store, collection._record.live()
    fingerprint = live.encoder.fingerprint
    folder = store.segments(live.collection_id)
    path = index_upkeep.write_index(folder, index.serialise(), len(index), DIMENSION, fingerprint)
    with store.database.writing() as connection:
        for row in segments(collection, SegmentKind.INDEX):
            generations.remove_segment(connection, row)
        generations.add_segment(connection, live, SegmentKind.INDEX, path, len(index), (1, COUNT))
